"""The entries of the register as ``claims/*.yml`` hold them, the evidence for them, and how both are read."""

import re
from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from sumexp.companion import CompanionError

if TYPE_CHECKING:
    from sumexp.chapters import intervals

Kind: TypeAlias = Literal[
    "definition", "notation", "assumption", "equation", "lemma", "proposition", "theorem", "corollary",
    "remark", "table", "figure", "finding",
]  # fmt: skip
Shows: TypeAlias = Literal["statement", "correction", "counterexample"]
Evidence: TypeAlias = Literal["kernel", "proof", "exact", "quadrature", "sampled", "experiment"]
Outcome: TypeAlias = Literal["passed", "failed", "skipped"]

PAPERS: Mapping[str, str] = {"bias": "B", "nce": "C", "negatives": "D", "perturb": "E", "ranking": "F", "since": "G"}
"""The papers, in the order of the errata, and the letter of their errata; ``since`` are those after the five."""
OURS = "sumexp"
"""The file of what the book itself states and proves, which has tests like a paper's claim and no errata."""
CHAPTERS = (
    "expectations", "bias", "nce", "negatives", "rawat", "longtail", "retrieval", "ranking", "perturb", "fits", "vae",
    "synthesis", "since",
)  # fmt: skip
SHOWS: tuple[Shows, ...] = get_args(Shows)
EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)
"""Kinds of evidence, the strongest first."""
CONVENTIONS = frozenset({"definition", "notation"})


class RegisterError(CompanionError):
    """The register or its evidence is wrong: the message has one line for each fault, with its file and entry."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def _typesettable(text: str) -> str:
    """Return ``text`` if its ``$...$`` are closed and the braces inside them balance."""
    *formulas, last = text.split("$")
    if len(formulas) % 2:
        raise ValueError(f"the formula that begins with ${last[:30]} is not closed: $ must come in pairs")
    for formula in formulas[1::2]:
        if not formula.strip():
            raise ValueError("an empty formula: write inline formulas as $...$, never as $$...$$")
        bare = re.sub(r"\\[{}]", "", formula)
        if bare.count("{") != bare.count("}"):
            raise ValueError(f"braces do not balance in ${formula}$")
    return text


Text: TypeAlias = Annotated[str, Field(min_length=1)]
Prose: TypeAlias = Annotated[Text, AfterValidator(_typesettable)]


class Claim(BaseModel):
    r"""One checkable statement of a paper, or of ours.

    Attributes:
        id: the paper's name, ``since`` or ``sumexp``, a hyphen and the claim's own name; stable, as links and tests
            bear it.
        chapter: the chapter that decides the claim.
        where: the place in the paper, or in the chapter.
        kind: what the paper calls it, or what it is.
        paper_says: a paper's statement as printed, in our words, with LaTeX in ``$...$``.
        we_say: our own statement, in the place of a paper's.
        corrected: the statement that holds, only where it differs from the printed one.
        note: what a reader must know in addition to the statement.
        how: a short hint how a program can decide it.
        depends_on: ids of the claims it rests on, in any file.
        erratum: labels on the errata page, such as ``B5``.
        open: why no test decides the claim yet.
        data: the data sets it speaks of, if it is about what was measured on some; experiments on others do not
            decide it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    id: Annotated[str, Field(pattern=r"^[a-z]+(-[A-Za-z0-9]+)+$")]
    chapter: str
    where: Prose
    kind: Kind
    paper_says: Prose | None = None
    we_say: Prose | None = None
    corrected: Prose | None = None
    note: Prose | None = None
    how: Prose | None = None
    depends_on: tuple[str, ...] = ()
    erratum: tuple[str, ...] = ()
    open: Prose | None = None
    data: tuple[Text, ...] = ()

    @property
    def paper(self) -> str:
        """The paper's name, or ``sumexp``: also the name of the file the entry stands in."""
        return self.id.split("-", 1)[0]

    @property
    def is_ours(self) -> bool:
        """Whether the book states it, and no paper."""
        return self.paper == OURS

    @property
    def statement(self) -> str:
        """What is claimed."""
        return self.paper_says or self.we_say or ""

    @property
    def is_convention(self) -> bool:
        """Whether there is nothing to decide: a definition or notation that is right as printed."""
        return self.kind in CONVENTIONS and self.corrected is None

    @model_validator(mode="after")
    def _consistent(self) -> "Claim":
        if self.chapter not in CHAPTERS:
            raise ValueError(f"chapter is {self.chapter!r}, expected one of {', '.join(CHAPTERS)}")
        said, other = ("we_say", self.paper_says) if self.is_ours else ("paper_says", self.we_say)
        if getattr(self, said) is None or other is not None:
            raise ValueError(f"{said}: the statement stands there, and there alone")
        if self.is_ours and (self.corrected or self.erratum):
            raise ValueError("a statement of ours is corrected where it stands: remove `corrected` and `erratum`")
        letter = PAPERS.get(self.paper, "")
        for label in self.erratum:
            if not re.fullmatch(rf"{letter}[1-9]\d*", label):
                raise ValueError(f"erratum label {label!r} is not of the form {letter}1, {letter}2, ...")
        if self.corrected is not None and not self.erratum:
            raise ValueError("`corrected` needs an `erratum`: the label under which the errata page explains it")
        if self.is_convention and self.open is not None:
            raise ValueError(f"a {self.kind} that needs no correction has nothing open: remove `open`")
        return self


Claims: TypeAlias = Mapping[str, Claim]
"""All entries by id, in the order of the files and within them."""


class Finding(BaseModel):
    """What an experiment measured: the interval over its seeds, and what the paper reports.

    Attributes:
        estimate: the measured value.
        low: lower end of the interval over seeds.
        high: its upper end.
        published: the paper's value as an interval (a number is the interval from itself to itself,
            ``None`` an end at infinity: "lower than" is ``(None, 0)`` for a difference); ``None`` if it gives none.
        margin: a difference that is nearer to zero counts as none.
        seen: the difference that the design would have shown with probability 0.8.
        confidence: of the interval.
        data: the data set it was measured on, if it is one.
        profile: the profile of the runs.
        seeds: how many seeds the interval is over.
        keys: the runs it rests on, by their keys in the store.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    estimate: float
    low: float
    high: float
    published: tuple[float | None, float | None] | None = None
    margin: Annotated[float, Field(ge=0)] = 0.0
    seen: float | None = None
    confidence: float | None = None
    data: str | None = None
    profile: str | None = None
    seeds: int | None = None
    keys: tuple[str, ...] = ()

    @property
    def ran(self) -> str:
        """What it rests on, in words: ``mnist, profile cpu, 4 seeds, runs 482566d1 331ed300``; empty if not stated."""
        parts = [
            self.data,
            self.profile and f"profile {self.profile}",
            self.seeds and f"{self.seeds} seeds",
            self.keys and f"runs {' '.join(key[:8] for key in self.keys)}",
        ]
        return ", ".join(part for part in parts if part)

    @property
    def verdict(self) -> "intervals.Verdict":
        """What it says of what the paper reports, by the one rule of `sumexp.chapters.intervals`."""
        from sumexp.chapters import intervals  # and SciPy, half a second of each process of a build

        return intervals.judge(self.low, self.high, self.published, self.margin)

    @property
    def design(self) -> str:
        """What could have been seen, in words: ``95 %, seen from 0.0019, no difference within 0.01``."""
        parts = [
            self.confidence and f"{100 * self.confidence:.4g} %",
            self.seen is not None and f"seen from {self.seen:.2g}",
            self.margin and f"no difference within {self.margin:.2g}",
        ]
        return ", ".join(part for part in parts if part)

    @model_validator(mode="after")
    def _ordered(self) -> "Finding":
        if not self.low <= self.estimate <= self.high:
            raise ValueError(f"expected low <= estimate <= high, got {self.low}, {self.estimate}, {self.high}")
        return self

    @property
    def gap(self) -> float:
        """How far the interval lies from the published value: 0 where they meet or nothing is published."""
        if self.published is None:
            return 0.0
        least, most = self.published
        below = self.low - most if most is not None else 0.0
        above = least - self.high if least is not None else 0.0
        return max(0.0, below, above)


State: TypeAlias = Callable[..., None]
"""What the fixture ``finding`` hands to a test."""


class Test(BaseModel):
    """What one test function shows of one claim, and how its last run ended.

    Attributes:
        test: ``file::name``, without parameters.
        claim: id of the claim.
        shows: which of its statements the test shows.
        evidence: the kind of evidence.
        outcome: ``passed`` only if every case of a parametrised test passed.
        findings: measured values, for experiments.
        reason: why it was skipped, if it said so.
    """

    __test__ = False  # a record, not something for pytest to collect
    model_config = ConfigDict(extra="forbid", frozen=True)

    test: str
    claim: str
    shows: Shows
    evidence: Evidence
    outcome: Outcome
    findings: tuple[Finding, ...] = ()
    reason: str = ""


class EvidenceFile(BaseModel):
    """How the tests of one module ended.

    Attributes:
        tests: those that decide claims.
        lacked: the training runs that they looked for in vain, as paths below the root of the store.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tests: tuple[Test, ...]
    lacked: tuple[str, ...] = ()


def explain(error: ValidationError) -> str:
    """Say what pydantic found in one line: each field, what is wrong and the value given."""
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'entry'}: {fault['msg'].removeprefix('Value error, ')}"
        + (f" (got {fault['input']!r})" if isinstance(fault["input"], str | int | float) else "")
        for fault in error.errors()
    )


def _mapping(node: yaml.MappingNode, entry: str) -> Mapping[str, Any]:
    """Build one entry, refusing a field that is given twice (YAML itself would keep the last)."""
    keys = [key.value for key, _ in node.value]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise RegisterError([f"{entry}: the field {twice[0]!r} is given twice"])
    fields: Mapping[str, Any] = yaml.SafeLoader("").construct_document(node)
    return fields


def _entries(path: Path, name: str) -> Iterator[Claim | str]:
    """Read one file: a claim, or a fault in words, for each of its entries."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        yield f"{name}: not YAML: {' '.join(str(error).split())}"
        return
    if not isinstance(root, yaml.SequenceNode):
        yield f"{name}: expected a list of entries"
        return
    for node in root.value:
        place = f"{name}:{node.start_mark.line + 1}"
        if not isinstance(node, yaml.MappingNode):
            yield f"{place}: expected an entry with fields `id`, `chapter`, ..., got {node.value!r}"
            continue
        label = next((value.value for key, value in node.value if key.value == "id"), "without id")
        entry = f"{place}: entry {label}"
        try:
            claim = Claim.model_validate(_mapping(node, entry))
        except ValidationError as error:
            yield f"{entry}: {explain(error)}"
            continue
        except RegisterError as error:
            yield str(error)
            continue
        if claim.paper != path.stem:
            yield f"{entry}: the id must begin with {path.stem!r}, the name of its file"
            continue
        yield claim


def _links(claims: Claims) -> Iterator[str]:
    """Faults of ``depends_on``: ids that do not exist, and cycles."""
    unknown = [
        f"claims/{claim.paper}.yml: entry {claim.id}: depends_on names {other!r}, which is no entry of the register"
        for claim in claims.values()
        for other in claim.depends_on
        if other not in claims
    ]
    yield from unknown
    if not unknown:
        try:
            TopologicalSorter({claim.id: claim.depends_on for claim in claims.values()}).prepare()
        except CycleError as error:
            # graphlib gives each node before the one that depends on it; a reader expects "depends on" order
            cycle = [str(node) for node in reversed(error.args[1])]
            paper = claims[cycle[0]].paper
            yield f"claims/{paper}.yml: entry {cycle[0]}: depends_on is cyclic: {' -> '.join(cycle)}"


def load(claims_dir: Path) -> Claims:
    """Read and check all entries of ``claims_dir/*.yml``.

    Raises:
        RegisterError: an entry is malformed, appears twice, or depends on what does not exist or on itself;
            every fault is named with its file, line and entry.
    """
    claims: dict[str, Claim] = {}
    faults: list[str] = []
    files = sorted(claims_dir.glob("*.yml"))
    if not files:
        raise RegisterError([f"{claims_dir}: no claims/*.yml there: run the command in the root of the repository"])
    for path in files:
        name = f"{claims_dir.name}/{path.name}"
        if path.stem not in (*PAPERS, OURS):
            expected = ", ".join(f"{paper}.yml" for paper in (*PAPERS, OURS))
            faults.append(f"{name}: expected one file per paper, and one of ours: {expected}")
            continue
        for entry in _entries(path, name):
            if isinstance(entry, str):
                faults.append(entry)
            elif entry.id in claims:
                faults.append(f"{name}: entry {entry.id}: the id appears twice")
            else:
                claims[entry.id] = entry
    faults += [] if faults else _links(claims)
    if faults:
        raise RegisterError(faults)
    return claims
