"""A project of two tiny chapters, built once and copied for each test."""

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from tests.claimbook.pipeline.tiny import Project, make_project


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project built first for one chapter only, then for both, once for all workers; rendering is left out."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "pipeline"
    project, finished = Project(shared / "a {project} ü"), shared / "finished"
    shared.mkdir(exist_ok=True)
    with FileLock(shared / "lock"):
        if not finished.exists():
            shutil.rmtree(project.path, ignore_errors=True)
            make_project(project.path)
            project.build("--only", "one")
            assert project.executed().keys() == {"one"}
            assert (project.path / "build/html/index.html").exists()
            shutil.copytree(project.path / "build/stage", project.path / "first-stage")
            project.build()
            finished.touch()
    return project


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    """A copy of the built project, to be changed as a test likes."""
    shutil.copytree(built.path, tmp_path / "a {project} ü", symlinks=True)
    return Project(tmp_path / "a {project} ü")
