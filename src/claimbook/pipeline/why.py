"""What of the store is fresh, and what changed since the last entry."""

from claimbook import BookError
from claimbook.pipeline import pages
from claimbook.pipeline.plan import Plan
from claimbook.store import Computation, default


def everything(plan: Plan) -> dict[str, Computation]:
    """The chapters, the evidence of test modules and the pages, by name."""
    return {**plan.notebooks, **plan.evidence, "pages": pages.computation(plan)}


def why(name: str, plan: Plan) -> list[str]:
    """Whether a build would compute it again, and which of its parts changed since the last entry."""
    known = everything(plan)
    if name not in known:
        raise BookError(f"no {name!r} in the book; there are {', '.join(known)}")
    wanted = known[name]
    if entry := default().find(wanted):
        return [f"{name}: fresh, computed {entry.provenance.date} UTC in {entry.provenance.seconds:.1f} s"]
    earlier = default().entries(wanted.kind, wanted.name)
    if not earlier:
        return [f"{name}: missing, and never computed before"]
    same = [entry for entry in earlier if entry.computation.settings == wanted.settings]
    last = (same or earlier)[-1]
    changed = wanted.differences(last.computation)
    return [f"{name}: missing; since {last.provenance.date} UTC", *(f"  {change}" for change in changed)]
