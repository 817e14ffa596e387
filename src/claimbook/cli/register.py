"""``claimbook register``: print the register."""

from collections import Counter
from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer

from claimbook.cli.tables import print_table

SAID = 120
"""Letters of what decides a claim: one that rests on runs names hundreds, which ``--json`` lists."""


def register_command(
    chapter: Annotated[str, typer.Option(help="Only the claims that this chapter decides.")] = "",
    verdict: Annotated[str, typer.Option(help="Only the claims with this verdict, such as open or refuted.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the machine's form, with the statements.")] = False,
) -> None:
    """Print the claims of the five papers and our own with their verdicts, computed from the tests as they last ran.

    The evidence is that of the last `make book`; without it, claims that have tests are open.
    The exit code is 1 if the tests of a listed claim fail.
    """
    from claimbook import register
    from claimbook.store.settings import choice

    if verdict:
        choice("--verdict", verdict, register.VERDICTS)
    claims, built = register.load(Path("claims")), Path("build/register.json")
    if chapter:
        choice("--chapter", chapter, dict.fromkeys(claim.chapter for claim in claims.values()))
    known = register.read_json(built) if built.exists() else ()
    ended = [test for entry in known if entry.id in claims for test in entry.tests]
    entries = tuple(
        entry
        for entry in register.decide(claims, ended)
        if chapter in ("", entry.chapter) and verdict in ("", entry.verdict)
    )
    if as_json:
        typer.echo(register.to_json(entries), nl=False)
    else:
        shown = [
            (e.id, e.where.replace("$", ""), f"{e.verdict} ({e.evidence or 'no evidence'})", shorten(e.says, SAID))
            for e in entries
        ]
        print_table(("claim", "where", "verdict", "says"), shown)
        counts = Counter(entry.verdict for entry in entries)
        typer.echo(f"\n{len(entries)} claims: {', '.join(f'{number} {verdict}' for verdict, number in counts.items())}")
    if any(entry.verdict == "failing" for entry in entries):
        raise typer.Exit(1)
