"""The page of the register in the book."""

from pathlib import Path

from sumexp.companion.register.store import write_text
from sumexp.companion.register.verdict import Register


def write_page(register: Register, stage_dir: Path) -> None:
    """Write ``book/register.md`` into the staged book."""
    rows = "".join(f"| {entry.claim.id} | {entry.verdict} |\n" for entry in register)
    write_text(stage_dir / "book" / "register.md", f"# The register\n\n| claim | verdict |\n|---|---|\n{rows}")
