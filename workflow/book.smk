# What a build computes before its pages; `sumexp book` (companion/pipeline/book.py) drives it. An output is an entry of the
# store, whose key stands for everything that it depends on: one that exists is up to date. Another build may finish it
# meanwhile: Snakemake removes what it is to make before it starts, but not what it is to update.
from pathlib import Path

from sumexp.companion.pipeline import plan, steps
from sumexp.companion.store.entries import output_of

PLAN = config["plan"]
book = plan.read(Path(PLAN))
lacking = (config["lacking"] or "").split(",")  # an empty text is read as none

notebooks = {name: output_of(book.notebooks[name]) for name in book.selected if name in lacking}
# A test module takes seconds, most of them to start: they run in as many groups as there are cores.
groups = [group.split("+") for group in (config["groups"] or "").split(",") if group]


rule all:
    input:
        list(notebooks.values()),
        [output_of(book.evidence[name]) for group in groups for name in group],
        [config["early"]] if config["early"] else [],


# Chapters first, in the order of the book: its first page can be read while the rest is computed.
for number, (name, path) in enumerate(notebooks.items()):

    rule:
        name:
            f"notebook_{name}"
        output:
            update(path),
        params:
            name=name,
        priority: 100 - number
        resources:
            gpu=int(book.device == "cuda"),
        run:
            steps.fork(PLAN, "notebook", params.name)


for number, group in enumerate(groups):

    rule:
        name:
            f"evidence_{number}"
        output:
            [update(output_of(book.evidence[name])) for name in group],
        params:
            names="+".join(group),
        priority: 1
        run:
            steps.fork(PLAN, "evidence", params.names)


if config["early"]:

    rule early:
        input:
            list(notebooks.values())[:1],
        output:
            touch(config["early"]),
        priority: 1000
        run:
            steps.fork(PLAN, "early")
