# Fills the store with the training runs of a grid; `make runs GRID=vae` drives it (companion/grids/filling.py), on this
# machine or with an executor plugin.
import sys

from sumexp.companion.grids.filling import Rules

GRID, PROFILE, DEVICE = (config[name] for name in ("grid", "profile", "device"))
PYTHON = sys.executable

runs = Rules(GRID, PROFILE, DEVICE)


rule all:
    input:
        [output for _, output in runs.shortest_first()],
    localrule: True


# A rule for each, as priorities are of rules: the longest first, so that no core waits for a late one.
for number, (key, output) in enumerate(runs.shortest_first(), start=1):

    rule:
        name:
            f"run_{key}"
        output:
            # Another driver may have finished it meanwhile: Snakemake removes what it is to make, but not to update.
            update(output),
        params:
            key=key,
        priority: number
        threads: runs.job(key).threads
        resources:
            # As the plugins for Slurm and Kubernetes ask for them; a run that was cut short goes on from its checkpoint.
            runtime=lambda wildcards, attempt, key=key: attempt * runs.minutes(key),
            mem_mb=lambda wildcards, attempt: attempt * 8000,
            **({"gpu": 1, "gpu_manufacturer": "nvidia"} if DEVICE == "cuda" else {}),
        shell:
            "{PYTHON:q} -m sumexp.companion.cli runs run"
            " --grid {GRID} --profile {PROFILE} --device {DEVICE} --only {params.key}"
