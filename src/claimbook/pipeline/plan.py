"""What a build computes: made once, and handed to its steps in a file."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel

from claimbook.pipeline.inputs import chapters_of, notebook
from claimbook.register import outcomes
from claimbook.store import Computation
from claimbook.store.settings import PROFILES, choice, resolve_device

BUILD = Path("build")
PLAN = BUILD / "plan.json"
FINISHED = BUILD / ".finished"
"""What the last build that came to its end was made from."""
TOC = Path("_toc.yml")


class Plan(BaseModel):
    """What belongs to the book: all chapters, those that are selected to be executed, all test modules with claims."""

    profile: str
    device: str
    notebooks: Mapping[str, Computation]
    selected: tuple[str, ...]
    evidence: Mapping[str, Computation]


def make(profile: str, device: str, only: str, *, stored: bool = False) -> Plan:
    """Work out what the book in the present folder consists of; ``only`` has the chapters to execute, all if empty.

    Where nothing will be executed (``stored``), the device need not be here.
    """
    choice("PROFILE", profile, PROFILES)
    device = resolve_device(device, needed=not stored)
    names = chapters_of(TOC)
    selected = tuple(choice("ONLY", name, names) for name in only.split()) or tuple(names)
    return Plan(
        profile=profile,
        device=device,
        notebooks={name: notebook(name, {"profile": profile, "device": device}) for name in names},
        selected=selected,
        evidence={outcomes.module_name(path): outcomes.computation(path) for path in outcomes.claim_modules()},
    )
