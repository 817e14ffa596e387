"""The entries of the register as ``claims/*.yml`` hold them, the evidence for them, and how both are read."""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from claimbook import BookError, project

Kind: TypeAlias = Literal[
    "definition", "notation", "assumption", "equation", "lemma", "proposition", "theorem", "corollary",
    "remark", "table", "figure", "finding",
]  # fmt: skip
Shows: TypeAlias = Literal["statement", "correction", "counterexample"]
Evidence: TypeAlias = Literal["kernel", "proof", "exact", "quadrature", "sampled", "experiment"]
Outcome: TypeAlias = Literal["passed", "failed", "skipped"]
Text: TypeAlias = Annotated[str, Field(min_length=1)]

EVIDENCE: Mapping[Evidence, str] = {
    "kernel": "a formal proof, for all parameters, checked by Coq",
    "proof": "symbolic, for all parameters",
    "exact": "rational or integer arithmetic, on stated finite sizes",
    "quadrature": "deterministic floating point with an error bound, or two independent methods that agree",
    "sampled": "Monte Carlo; the test states its false-alarm rate",
    "experiment": "training runs; the interval over seeds is compared with the published value where there is one",
}
"""Kinds of evidence with what they mean, the strongest first."""


class Claim(BaseModel, extra="forbid", frozen=True, str_strip_whitespace=True):
    """A checkable statement, of a paper (``paper_says``, in our words) or of the book (``we_say``). LaTeX in ``$...$``.

    The ``id`` begins with the name of its file; links and tests name it. The notebook ``chapter`` decides the claim,
    unless ``unjudged`` says why nobody does; ``how`` is a hint for a test. ``corrected`` is the statement that holds
    where the printed one does not; an ``erratum`` such as ``B5`` explains it. Experiments on data sets other than
    ``data`` decide nothing. ``lost`` says what is missing in our copy of the paper: the claim is not judged.
    """

    id: Annotated[str, Field(pattern=r"^[a-z]+(-[A-Za-z0-9]+)+$")]
    chapter: str
    where: Text
    kind: Kind
    paper_says: Text | None = None
    we_say: Text | None = None
    corrected: Text | None = None
    note: Text | None = None
    how: Text | None = None
    depends_on: tuple[str, ...] = ()
    erratum: tuple[Annotated[str, Field(pattern=r"^[A-Z][1-9][0-9]*$")], ...] = ()
    unjudged: Text | None = None
    lost: Text | None = None
    data: tuple[Text, ...] = ()

    @property
    def paper(self) -> str:
        """The name of the file that the entry stands in."""
        return self.id.split("-", 1)[0]

    @property
    def place(self) -> str:
        """File and entry, for messages."""
        return f"claims/{self.paper}.yml: entry {self.id}"

    @property
    def is_ours(self) -> bool:
        """Whether the book states it, and no paper."""
        return self.we_say is not None

    @property
    def statement(self) -> str:
        """What is claimed."""
        return self.paper_says or self.we_say or ""

    @property
    def is_convention(self) -> bool:
        """Whether there is nothing to decide: a definition or notation that is right as printed."""
        return self.kind in ("definition", "notation") and self.corrected is None

    @model_validator(mode="after")
    def _consistent(self) -> "Claim":
        if (self.paper_says is None) == (self.we_say is None):
            raise ValueError("the statement must stand under `paper_says` or under `we_say`")
        if self.is_ours and (self.corrected or self.erratum):
            raise ValueError("a statement of ours is corrected where it stands: remove `corrected` and `erratum`")
        if self.corrected is not None and not self.erratum:
            raise ValueError("`corrected` needs an `erratum`: the label under which the errata page explains it")
        if self.is_convention and self.unjudged is not None:
            raise ValueError(f"a {self.kind} that needs no correction has nothing to judge: remove `unjudged`")
        return self


Claims: TypeAlias = Mapping[str, Claim]
"""All entries by id, in the order of the files and within them."""


def _listed(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


class Finding(BaseModel, extra="forbid", frozen=True, allow_inf_nan=False):
    """What an experiment measured, by the interval over its seeds, and what the paper reports.

    ``published`` is an interval with ``None`` for an open end: "lower than" is ``(None, 0)`` for a difference. A
    difference within ``margin`` counts as none, if the compared shares have ``room`` for a larger one. ``keys`` name
    its runs; ``origin`` says whether they came with the book.
    """

    estimate: float
    low: float
    high: float
    published: tuple[float | None, float | None] | None = None
    margin: Annotated[float, Field(ge=0)] = 0.0
    room: float | None = None
    confidence: float | None = None
    data: str | None = None
    profile: str | None = None
    seeds: int | None = None
    keys: tuple[str, ...] = ()
    origin: str = ""

    @property
    def ran(self) -> str:
        """The runs behind it, such as ``mnist, profile cpu, 4 seeds, runs 482566d1, run here``; empty if not stated."""
        return _listed(
            self.data,
            self.profile and f"profile {self.profile}",
            self.seeds and f"{self.seeds} seeds",
            self.keys and f"runs {' '.join(key[:8] for key in self.keys)}",
            self.origin or (self.keys and "run here"),
        )

    @property
    def verdict(self) -> str:
        """``shown``, ``excluded``, ``alike`` or ``undecided``, by the rule of the package's ``intervals``."""
        return str(project.module("intervals").judge(self.low, self.high, self.published, self.margin, self.room))

    @property
    def design(self) -> str:
        """The confidence and the margin, in words: ``95 %, no difference within 0.01``."""
        within = self.margin and f"no difference within {self.margin:.2g}"
        return _listed(self.confidence and f"{100 * self.confidence:.4g} %", within)


class Test(BaseModel, extra="forbid", frozen=True):
    """What a test function (``file::name``) shows of a claim, and how it ended: it passed if all of its cases did."""

    __test__ = False  # a record, not something for pytest to collect

    test: str
    claim: str
    shows: Shows
    evidence: Evidence
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        """Its name within its module or class."""
        return self.test.rpartition("::")[2]

    @property
    def result(self) -> str:
        """``excluded`` if a finding is and no case failed; its outcome; of passed tests ``shown`` or ``undecided``."""
        verdicts = {finding.verdict for finding in self.findings}
        if self.outcome != "failed" and "excluded" in verdicts:
            return "excluded"
        if self.outcome != "passed":
            return self.outcome
        return "shown" if verdicts <= {"shown"} else "undecided"


def explain(error: ValidationError) -> str:
    """Say what pydantic found in one line: each field, what is wrong and the value given."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'entry'}: {fault['msg'].removeprefix('Value error, ')}"
        + (f" (got {fault['input']!r})" if isinstance(fault["input"], str | int | float) else "")
        for fault in error.errors()
    )


def _links(claims: Claims) -> Iterator[str]:
    """Faults of ``depends_on``: ids that do not exist, and cycles."""
    for claim in claims.values():
        for other in sorted({*claim.depends_on} - claims.keys()):
            yield f"{claim.place}: depends_on names {other!r}, which is no entry of the register"
    try:
        TopologicalSorter({claim.id: claim.depends_on for claim in claims.values()}).prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]  # graphlib gives each before the one that depends on it
        yield f"{claims[cycle[0]].place}: depends_on is cyclic: {' -> '.join(cycle)}"


def load(claims_dir: Path) -> Claims:
    """Read and check all entries of ``claims_dir/*.yml``; every fault is named with its file and entry."""
    claims: dict[str, Claim] = {}
    faults: list[str] = []
    files = sorted(claims_dir.glob("*.yml"))
    if not files:
        raise BookError(f"{claims_dir}: no claims/*.yml there: run the command in the root of the repository")
    for path in files:
        try:
            entries = yaml.load(path.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            faults.append(f"claims/{path.name}: not YAML: {' '.join(str(error).split())}")
            continue
        for number, fields in enumerate(entries if isinstance(entries, list) else [entries], 1):
            place = f"claims/{path.name}: entry {fields.get('id', number) if isinstance(fields, dict) else number}"
            try:
                claim = Claim.model_validate(fields)
            except ValidationError as error:
                faults.append(f"{place}: {explain(error)}")
                continue
            if claim.paper != path.stem:
                faults.append(f"{place}: the id must begin with {path.stem!r}, the name of its file")
            if claim.id in claims:
                faults.append(f"{place}: the id appears twice")
            claims[claim.id] = claim
    if faults := faults or list(_links(claims)):
        raise BookError("\n".join(faults))
    return claims
