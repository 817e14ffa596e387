"""A cluster for the tests, as a plugin of Snakemake: its nodes are processes that start in the root folder.

What they are asked for goes to the file ``asked`` in the folder that the variable ``NODES`` names, a line for each try.
"""

import json
import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False)


class Executor(RemoteExecutor):  # type: ignore[misc]
    def __post_init__(self) -> None:
        self.next_seconds_between_status_checks = 0.2

    def run_job(self, job: Any) -> None:
        asked = {"rule": job.name, "threads": job.threads}
        asked |= {name: job.resources.get(name) for name in ("runtime", "mem_mb", "gpu")}
        with Path(os.environ["NODES"], "asked").open("a") as file:
            print(json.dumps(asked), file=file)
        process = subprocess.Popen(self.format_job_exec(job), shell=True, cwd="/", start_new_session=True)
        self.report_job_submission(SubmittedJobInfo(job, str(process.pid), {"process": process}))

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo]:
        for job in active_jobs:
            code = job.aux["process"].poll()
            if code is None:
                yield job
            elif code == 0:
                self.report_job_success(job)
            else:
                self.report_job_error(job)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        for job in active_jobs:
            job.aux["process"].kill()
