"""Counts, scores and laws from files: CSV and Parquet are counted by DuckDB, without holding their rows in memory."""

import contextlib
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._setup import AuditError, whole_number

if TYPE_CHECKING:  # tables alone need it: an array is read without
    import duckdb

Numbers = NDArray[Any]

COUNTS = ("count", "counts", "frequency", "n")
LABELS = ("label", "labels", "item", "item_id", "class", "word", "tag")
OF_IDS = re.compile("(?i:_id)$|[a-z]I[Dd]$")  # movie_id, movieId; not paid
TIMES = ("timestamp", "time", "date", "datetime", "day", "ts", "created_at")
INSTALL = "in a copy of the sources: pip install '.[audit]', or save the counts as an array, .npy"
NO_ZERO = "no label is 0: are the ids 1-based?"
MOSTLY = "most {} are whole numbers: fix or remove this one, or name all classes in words"
MOST = 100_000_000
"""The largest number of classes."""

GAP = 1_000
"""Classes per different label, from `SMALL` classes on: with more, labels are taken for hashes or keys."""

SMALL = 1_000_000
"""Classes up to which labels may be sparse."""

FIRST_LINE = 1 << 17
"""The most characters of a table's first line."""


def numbers(path: Path) -> Numbers:
    """The array of an ``.npy`` file, never unpickled."""
    _exists(path)
    try:  # a memory map: a header that announces too much allocates nothing
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError, OverflowError) as error:
        why = "it is another file, or holds objects" if "pickle" in str(error) else str(error).splitlines()[0]
        raise AuditError(f"{path} is no array in NumPy's format: {why}") from error
    if not isinstance(array, np.ndarray):
        raise AuditError(f"{path} holds several arrays; give a file of one, .npy")
    if array.dtype.kind not in "iuf":
        raise AuditError(f"{path} holds {array.dtype}; it must hold real numbers")
    if not array.size:
        raise AuditError(f"{path} holds no number, its shape is {array.shape}")
    return np.array(array, dtype=np.float64 if array.itemsize > 8 else array.dtype.newbyteorder("="))  # as torch takes


@dataclass(frozen=True)
class Tally:
    """How often each class is a label.

    Attributes:
        counts: [classes].
        names: [classes] the classes' names in the file, whole numbers in digits; None where they are numbered from 0.
        says: a description of what was read, with the first three classes.
        gap: why the classes may not be the columns of an array, and what to do; empty if they are.
        columns: of the table; none of an array.
    """

    counts: Numbers
    names: Numbers | None
    says: str
    gap: str = ""
    columns: tuple[str, ...] = ()


def served(
    path: Path,
    training: Tally,
    column: str | None = None,
    kind: str | None = None,
    header: bool | None = None,
    ids: str | None = None,
) -> Tally:
    """How often each class of a training table is a label in the file ``path``, matched by name.

    Classes of the training come first, in its order; then those that only the served labels have. Other arguments are
    those of :func:`tally` for the training. They hold for the columns that ``path`` has too; others are found by their
    names. The labels of the training are ids in a table that also has counts.

    Raises:
        AuditError: as :func:`tally`; or if one names its classes and the other does not.
    """
    try:
        other = tally(path, column, kind, ids=ids, header=header, like=training)
    except AuditError as error:
        ours = "; options describe the training: give this file its columns, or item and count"
        raise AuditError(f"{error}{ours if '--' in str(error) else ''}") from error
    size = len(training.counts)
    if other.names is None and training.names is None:
        absent = size - len(other.counts) if other.counts.ndim == 1 else 0
        return replace(other, counts=np.pad(other.counts, (0, max(0, absent))))
    if other.names is None or (training.names is None and not all(name.isdigit() for name in other.names)):
        unnamed, named = (path, "the counts") if other.names is None else ("the counts", path)
        raise AuditError(f"{named} name classes and {unnamed} do not: they cannot be matched; name them in both")
    if training.names is None and str(size) in other.names and "0" not in other.names and NO_ZERO not in other.says:
        raise AuditError(f"{path} has no class 0 but {size}, and the counts have 0..{size - 1}: are its ids 1-based?")
    order = map(str, range(size)) if training.names is None else training.names
    place = {name: row for row, name in enumerate(order)}
    rows = np.array([place.setdefault(name, len(place)) for name in other.names])
    return replace(other, counts=np.bincount(rows, weights=other.counts, minlength=len(place)).astype(np.int64))


def counts(path: Path, column: str | None = None, kind: str | None = None, classes: int | None = None) -> Numbers:
    """How often each class is a label, [classes]: the counts of :func:`tally`."""
    return tally(path, column, kind, classes).counts


def tally(
    path: Path,
    column: str | None = None,
    kind: str | None = None,
    classes: int | None = None,
    *,
    ids: str | None = None,
    header: bool | None = None,
    like: Tally | None = None,
) -> Tally:
    """How often each class is a label, with the names of the classes.

    A column of counts has a row for each class, and a second column with a different value in each row names the
    classes: whole numbers from 0 on, or below ``classes``, are the classes' numbers; other ids, and words, name the
    rows in the order of the file. A column of labels has a row for each example: whole numbers are the classes'
    numbers, other values are numbered by falling frequency, ties by value.

    Args:
        path: ``.npy``, ``.csv``, ``.tsv`` or ``.parquet``.
        column: its name, or its place from 1 if there is no header; by default the only column, or the only one with a
            known name.
        kind: ``counts`` or ``labels``; by default an array holds counts, and of a table the column's name decides.
        classes: number of classes, where labels or ids do not show them all.
        ids: the column of the ids, or ``position``; by default the only column that can hold them.
        header: whether the first line has names; by default if it has a known one, or words above numbers, and not if
            it has numbers alone, other than pandas' names 0, 1, ...
        like: what was read of the training, for :func:`served`, where all classes have names.

    Raises:
        AuditError: if a file, column or kind is missing or ambiguous, or a value is wrong; it names the row.
    """
    if kind not in (None, "counts", "labels"):
        raise AuditError(f"holds is {kind!r}; expected counts or labels")
    classes = None if classes is None else whole_number("classes", classes, 1)
    if like is None and header is not None and _kind(path) in (".npy", ".parquet"):
        raise AuditError(f"{path} has no first line of names or data: leave --header and --no-header out")
    if _kind(path) == ".npy":
        if like is None and (column is not None or ids is not None):
            raise AuditError(f"{path} is an array, which has no column {column or ids!r}; leave it out")
        values = numbers(path)
        if kind == "labels":
            if like and like.columns:
                raise AuditError(f"{path}: are these numbers counts or labels? --holds labels is said of a table")
            number = _of_labels(values.reshape(-1), classes, path)
            names = np.arange(len(number)).astype(str) if like else None
            return Tally(number, names, f"{values.size:,} labels of {path.name}{_first(number)}")
        _as_many(path, len(values) if values.ndim else 1, classes)
        sure = "" if kind else "; a log of labels needs --holds labels"
        return Tally(values, None, f"{path.name}: counts, classes by position{_first(values)}{sure}")
    _exists(path)
    with _opened(path, header, column, ids, like) as table:
        alike = like is None or like.columns == tuple(table.types)
        if not alike:
            column, kind, ids = table.described(column, kind, ids)
        name = table.column(column, kind)
        if kind == "counts" or (kind is None and not table.holds_labels(name)):
            return replace(table.counts(name, ids, classes), columns=tuple(table.types))
        if ids is not None and like is None:
            raise AuditError(f"{path}: {name!r} has a label for each example, and no ids are read: leave --ids out")
        known = kind is not None and (like is None or (alike and table.named))
        return replace(table.labels(name, classes, known), columns=tuple(table.types))


def _first(counts: Numbers, names: Numbers | None = None) -> str:
    """The first three classes."""
    first = counts.reshape(-1)[:3].tolist()
    each = (f"{i if names is None else names[i]}: {n}" for i, n in enumerate(first))
    return f" ({', '.join(each)}{', ...' if counts.size > 3 else ''})"


@dataclass(frozen=True)
class _Table:
    """A table that DuckDB reads: where to select from, its columns with their types, and whether it has names."""

    connection: "duckdb.DuckDBPyConnection"
    source: str
    path: Path
    types: dict[str, str]
    named: bool
    like: Tally | None  # the training, in a table of served labels; then all classes have names

    def row(self, what: str, source: str = "") -> tuple[Any, ...]:
        """One row of values over the whole table."""
        row: tuple[Any, ...] = self.connection.execute(f"SELECT {what} FROM {source or self.source}").fetchall()[0]
        return row

    def arrays(self, what: str, source: str = "") -> dict[str, Numbers]:
        """Columns as arrays."""
        return self.connection.execute(f"SELECT {what} FROM {source or self.source}").fetchnumpy()

    def wrong(self, name: str, good: str, rule: str) -> AuditError:
        """What to say of the first value of a column for which ``good`` is not true."""
        row, what = self.row(
            "row, v", f"(SELECT row_number() OVER () AS row, {_quoted(name)} AS v, coalesce({good}, false) AS good "
            f"FROM {self.source}) WHERE NOT good ORDER BY row LIMIT 1",
        )  # fmt: skip
        place = f"row {row}" if _kind(self.path) == ".parquet" else f"line {row + self.named}"
        return AuditError(f"{self.path}, {place}: {name} is {'empty' if what is None else repr(what)}; {rule}")

    def described(self, column: str | None, kind: str | None, ids: str | None) -> tuple[str | None, ...]:
        """Which options of a training with other columns describe this table too; no label if it alone has counts."""
        column, ids = (c if c and self._called(c) in (*self.types, "position") else None for c in (column, ids))
        counted = self.like and any(c.lower() in COUNTS and c not in self.like.columns for c in self.types)
        if counted and column and column.lower() not in COUNTS and kind != "counts":
            column = None
        return column, kind if column else None, ids

    def column(self, name: str | None, kind: str | None) -> str:
        """The column to count."""
        columns = list(self.types)
        if name is None:
            known = [c for c in columns if c.lower() in COUNTS and kind != "labels"]
            known = known or [c for c in columns if c.lower() in LABELS and kind != "counts"]
            if len(columns) > 1 and len(known) != 1:
                which = ", ".join(columns) if self.named else f"1 to {len(columns)}, without names"
                raise AuditError(f"{self.path} has the columns {which}; say which with --column")
            name = (known or columns)[0]
        name = self._called(name)
        if name not in columns:
            raise AuditError(f"{self.path} has no column {name!r}; it has {', '.join(columns)}")
        if self.types[name].endswith("]") or self.types[name].startswith(("STRUCT", "MAP", "UNION")):
            raise AuditError(
                f"{self.path}: {name} is {self.types[name]}, several values a row; give a column of one value a row "
                "(explode or unnest it)"
            )
        return name

    def _called(self, name: str) -> str:
        """The name of a column that is given by its place from 1, if the table has no names."""
        columns = list(self.types)
        by_place = name not in columns and not self.named and name.isdigit() and 1 <= int(name) <= len(columns)
        return columns[int(name) - 1] if by_place else name

    def holds_labels(self, name: str) -> bool:
        """Whether a column has a label for each example, or a count for each class, by its name."""
        if not (labels := name.lower() in LABELS or bool(OF_IDS.search(name))) and name.lower() not in COUNTS:
            raise AuditError(f"{self.path}: is {name!r} a count for each class or a label for each example? say "
                             "--holds counts or --holds labels")  # fmt: skip
        return labels

    def counts(self, name: str, ids: str | None, classes: int | None) -> Tally:
        """A row for each class."""
        if self.types[name] in ("BOOLEAN", "BIT"):
            raise AuditError(f"{self.path}: {name} is {self.types[name]}; a count is a whole number from 0 to 9e15")
        number = f"TRY_CAST({_quoted(name)} AS DOUBLE)"
        good = f"({number} >= 0 AND {number} = floor({number}) AND {number} < 9e15)"
        if self.types[name] == "VARCHAR":  # 50.000 may be 50,000
            good = f"({good} AND NOT regexp_full_match(trim({_quoted(name)}), '[^.]*[.]000'))"
        total, bad = self.row(f"count(*), count(*) FILTER (WHERE NOT coalesce({good}, false))")
        if not total:
            raise AuditError(f"{self.path} has no rows")
        if bad:
            raise self.wrong(name, good, "a count is a whole number from 0 to 9e15, in digits alone")
        values = self.arrays(f"CAST({number} AS BIGINT) AS c")["c"]
        read, others = f"{self.path.name}: counts are {name!r}", [c for c in self.types if c != name]
        column = self._ids(ids, others, total)
        if column is None:
            _as_many(self.path, total, classes)
            return Tally(values, None, f"{read}, classes by position{self._rest(name)}{_first(values)}")
        called = self.arrays(f"{_name(_quoted(column))} AS v")["v"]
        read += f", ids are {column!r}{self._rest(name, column)}"
        words = self._words(column)
        if 0 < words < total / 2:
            raise self.wrong(column, _whole(_quoted(column)), MOSTLY.format("ids"))
        if words:
            _as_many(self.path, total, classes)
            if total > 2 and 2 * values.max() == values.sum():
                read += f"; {called[values.argmax()]!r} has as many as all others: is it their total?"
            gap = "" if ids else f"the rows are named by {column!r}; if they are in that order, say --ids {column}"
            return Tally(values, called, f"{read}, in the order of the file{_first(values, called)}", gap)
        ids_found = called.astype(np.int64)
        size, least, most = classes or total, int(ids_found.min()), int(ids_found.max())
        if least >= 0 and most < size and not self.like:
            all_counts = np.zeros(size, dtype=np.int64)
            all_counts[ids_found] = values
            return Tally(all_counts, None, f"{read}{_first(all_counts)}")
        if classes is not None:
            raise AuditError(f"{self.path}: {column} has the id {most if most >= size else least}; with {classes:,} "
                             f"classes ids are 0..{classes - 1}")  # fmt: skip
        ends = f"run from {least} to {most}, not from 0 to {total - 1}"
        gap = f"the {total:,} ids of {column!r} {ends}; number them so, or say --ids position for the order of rows"
        return Tally(values, called, f"{read}, in the order of the file{_first(values, called)}", gap)

    def _ids(self, ids: str | None, others: list[str], rows: int) -> str | None:
        """The column that holds the classes' ids or names; None for the rows' places."""
        if ids == "position" or (ids is None and not others):
            return None
        if ids is None:
            known = [c for c in others if c.lower() in LABELS]
            able = [c for c in others if (not known or c in known or OF_IDS.search(c)) and self._names_rows(c, rows)]
            if known and not set(known) & set(able):
                able = known[:1]  # it has a class twice, which is an error below
            if len(able) != 1:
                several = f"{' and '.join(able)} could be the ids of the classes; say --ids {' or '.join(able)}"
                none = f"no column has another value in each of the {rows:,} rows: sum the counts of each class"
                raise AuditError(f"{self.path}: {several if able else none}, or --ids position for the order of rows")
            ids = able[0]
        column = self._called(ids)
        if column not in others:
            raise AuditError(f"{self.path} has no other column {column!r}; it has {', '.join(others)}")
        if (different := self._different(column)) < rows:
            raise AuditError(f"{self.path} has {rows:,} rows of counts, but {different:,} different values of "
                             f"{column}: a class needs one row, and a name; sum the counts of each")  # fmt: skip
        return column

    def _names_rows(self, name: str, rows: int) -> bool:
        """Whether a column can name the class of each row: no two are equal, and they are no times and no fractions.

        Numbers of which one has a decimal point are fractions; ``0195153448``, ``12e4`` and ``inf`` are names.
        """
        if name.lower() in TIMES or self.types[name].startswith(("TIMESTAMP", "DATE", "TIME")):
            return False
        value = _quoted(name)
        point = f"contains(CAST({value} AS VARCHAR), '.') AND NOT {_whole(value)}"
        fractions = self.row(f"bool_and(TRY_CAST({value} AS DOUBLE) IS NOT NULL) AND bool_or({point})")[0]
        return self._different(name) == rows and not fractions

    def _rest(self, *read: str) -> str:
        """The names of the columns that are not read."""
        others = ", ".join(repr(c) for c in self.types if c not in read)
        return others and f"; not read: {others}"

    def _different(self, name: str) -> int:
        return int(self.row(f"count(DISTINCT {_name(_quoted(name))})")[0])

    def _words(self, name: str) -> int:
        """How many values of a column are not whole numbers."""
        return int(self.row(f"count(*) FILTER (WHERE NOT {_whole(_quoted(name))})")[0])

    def labels(self, name: str, classes: int | None, sure: bool) -> Tally:
        """A row for each example: it is read once, and each different value is checked once."""
        value = _quoted(name)
        self.connection.execute(
            f"CREATE TEMP TABLE seen AS SELECT {_name('v')} AS v, sum(n)::BIGINT AS n FROM "
            f"(SELECT {value} AS v, count(*) AS n FROM {self.source} GROUP BY 1) GROUP BY 1"
        )
        total, most_often, empty, words = (
            int(number or 0)
            for number in self.row(
                "sum(n), max(n), sum(n) FILTER (WHERE v IS NULL), "
                f"sum(n) FILTER (WHERE v IS NOT NULL AND NOT {_whole('v')})",
                "seen",
            )
        )
        read = f"{self.path.name}: {total:,} labels are {name!r}{self._rest(name)}"
        if not total:
            raise AuditError(f"{self.path} has no rows")
        if empty:
            raise self.wrong(name, f"({value} IS NOT NULL)", "a label is missing")
        if 0 < words < total / 2:
            raise self.wrong(name, _whole(value), MOSTLY.format("labels"))
        if not sure and most_often == 1 < total:
            hint = ", or name the column of counts with --column" if len(self.types) > 1 else ""
            raise AuditError(f"{self.path}: each value of {name!r} is there once; if each is the label of an example, "
                             f"say --holds labels{hint}")  # fmt: skip
        if words:
            rows = self.arrays("n AS c, v", "seen ORDER BY c DESC, v")
            gap = f"the words of {name!r} are numbered by falling frequency; number them as the columns"
            return Tally(rows["c"], rows["v"], f"{read}, words by falling frequency{_first(rows['c'], rows['v'])}", gap)
        if self.like:
            rows = self.arrays("n AS c, v", "seen ORDER BY TRY_CAST(v AS BIGINT)")
            none = "" if "0" in rows["v"] or self.like.names is not None else f"; {NO_ZERO}"
            return Tally(rows["c"], rows["v"], f"{read}{_first(rows['c'], rows['v'])}{none}")
        most = classes if classes is not None else MOST
        if self.row(f"count(*) FILTER (WHERE NOT {_among('v', most)})", "seen")[0]:
            raise self.wrong(name, _among(value, most), f"the classes are 0..{most - 1}: number them from 0")
        rows = self.arrays("TRY_CAST(v AS BIGINT) AS y, n AS c", "seen")
        largest, different = int(rows["y"].max()), len(rows["y"])
        if classes is None:
            _dense(largest, different, self.path)
        frequencies = np.zeros(classes or largest + 1, dtype=np.int64)
        frequencies[rows["y"]] = rows["c"]
        none = "" if frequencies[0] else f"; {NO_ZERO}"
        return Tally(frequencies, None, f"{read}{_first(frequencies)}{none}")


@contextlib.contextmanager
def _opened(
    path: Path, header: bool | None, column: str | None, ids: str | None, like: Tally | None
) -> Iterator[_Table]:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise AuditError(f"{path} is a table, and duckdb, which reads tables, is not installed; {INSTALL}") from error
    connection = duckdb.connect()
    try:
        connection.execute("SET preserve_insertion_order = true")
        connection.execute("SET enable_progress_bar = false")  # it would stand among the lines
        # With it DuckDB 2.0 moves a TRY_CAST that stands twice into the reader, where it is a CAST and ends the query.
        connection.execute("SET disabled_optimizers = 'common_subexpressions'")
        names: list[str] = []
        if _kind(path) == ".parquet":
            source = f"read_parquet({_literal(path)}, hive_partitioning = false)"
        else:
            names, between = _header(path, header, [each for each in (column, ids) if each], like is not None)
            source = (
                f"read_csv({_literal(path)}, all_varchar = true, header = {str(bool(names)).lower()}, "
                f"delim = '{between}', quote = '\"', escape = '\"', comment = '', skip = 0, strict_mode = true, "
                "hive_partitioning = false)"  # a folder named year=2024 is no column
            )
        described = connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        types = {str(row[0]): str(row[1]) for row in described}
        lower = [name.lower() for name in names]
        read = {*([column.lower()] if column else COUNTS + LABELS), *([ids.lower()] if ids else LABELS)}
        twice = [c for c in types if lower.count(c.lower()) > 1 and c.lower() in read]
        if twice:
            raise AuditError(f"{path} has {lower.count(twice[0].lower())} columns {twice[0]!r}; rename all but one")
        yield _Table(connection, source, path, types, bool(names), like)
    except duckdb.Error as error:
        why, *more = str(error).partition("\nPossible")[0].rstrip().splitlines()
        if "CSV Error on Line" in why and more:  # the line itself, and then the reason
            why += f": {more[-1]}"
        elif _kind(path) != ".parquet":
            why = f"{why.rstrip('.')}; does each line have as many values as the first, and is each quote closed?"
        raise AuditError(f"{path} cannot be read as a table: {why}") from error
    finally:
        connection.close()


def _header(path: Path, header: bool | None, known: list[str], unsure: bool) -> tuple[list[str], str]:
    """The names in the first line, none where it is no header, and what separates columns.

    An ``unsure`` header is of another file, and counts only where this one may be read either way.
    That is the first of comma, semicolon, tab and bar that the line has; of a ``.tsv`` the tab comes first.
    """
    if _kind(path) not in (".csv", ".tsv", ".txt"):
        raise AuditError(f"{path} ends in {path.suffix!r}; give .csv, .tsv, .parquet or .npy, unpacked")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            line, second = (file.readline(FIRST_LINE + 1) for _ in range(2))
    except UnicodeDecodeError as error:
        raise AuditError(f"{path} is not text in UTF-8 ({error.reason} at byte {error.start}); save it so") from error
    if len(line) > FIRST_LINE:
        raise AuditError(f"{path} has a first line of more than {FIRST_LINE:,} characters: is it a table?")
    between = next((sign for sign in ("\t,;|" if _kind(path) == ".tsv" else ",;\t|") if sign in line), ",")
    first, then = (next(csv.reader([each], delimiter=between), []) for each in (line, second))
    if not any(first):
        raise AuditError(f"{path} begins with an empty line; remove it")
    if header is None or unsure:
        numeric, below = sum(map(_is_number, first)), any(map(_is_number, then))
        names = {name.lower() for name in first} & {*COUNTS, *LABELS, *(name.lower() for name in known)}
        if not first[0] or (not numeric and (names or below)):  # pandas leaves the name of an index empty
            header = True
        elif numeric == len(first) and not names and first != [*map(str, range(numeric))]:  # pandas' own
            header = False
        elif header is None:
            raise AuditError(f"{path} begins with {line.strip()!r}: names or data? say --header or --no-header")
    return (first if header else []), between


def _is_number(text: str) -> bool:
    with contextlib.suppress(ValueError):
        float(text)
        return True
    return False


def _literal(path: Path) -> str:
    """The file of that very name, as a string of SQL: in DuckDB a path is a pattern, and ``~`` and ``s3:`` mean more.

    Raises:
        AuditError: if the name is not in UTF-8, or has a backslash with a sign of patterns, which DuckDB cannot escape.
    """
    name = path.absolute().as_posix()
    if name.encode(errors="ignore").decode() != name:
        raise AuditError(f"{path} cannot be read as a table: its name is not in UTF-8; rename it")
    if "\\" in name and re.search(r"[\[\]?*]", name):
        raise AuditError(f"{path} cannot be read as a table: its name has a backslash and one of [ ] ? *; rename it")
    return "'" + re.sub(r"[\[\]?*]", r"[\g<0>]", name).replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _whole(value: str) -> str:
    """Whether a value is a whole number: 7, or 7.0 and 7.00, as floats and decimals; not 007, 7.5, nor 7.000."""
    text = f"regexp_full_match(trim(CAST({value} AS VARCHAR)), '(0|-?[1-9][0-9]*)([.]00?)?')"
    return f"coalesce({text} AND TRY_CAST({value} AS BIGINT) IS NOT NULL, false)"


def _name(value: str) -> str:
    """The name of a class: whole numbers in digits, others as they stand."""
    return (
        f"CASE WHEN {_whole(value)} THEN CAST(TRY_CAST({value} AS BIGINT) AS VARCHAR) ELSE CAST({value} AS VARCHAR) END"
    )


def _among(value: str, most: int) -> str:
    return f"(TRY_CAST({value} AS BIGINT) >= 0 AND TRY_CAST({value} AS BIGINT) < {most})"


def _of_labels(labels: Numbers, classes: int | None, path: Path) -> Numbers:
    if labels.dtype.kind not in "iu":
        raise AuditError(f"{path} holds {labels.dtype}; labels are whole numbers")
    wrong = np.flatnonzero((labels < 0) | (labels >= (classes or MOST)))
    if len(wrong):
        raise AuditError(
            f"{path}, index {wrong[0]}: the label is {labels[wrong[0]]}; the classes are 0..{(classes or MOST) - 1}"
        )
    if classes is None and int(labels.max()) >= SMALL:
        _dense(int(labels.max()), len(np.unique(labels)), path)
    return np.bincount(labels.astype(np.int64), minlength=classes or 0)


def _as_many(path: Path, rows: int, classes: int | None) -> None:
    if classes is not None and classes != rows:
        raise AuditError(f"{path} has {rows:,} rows, one for each class, but classes is {classes:,}")


def _dense(largest: int, different: int, path: Path) -> None:
    """Raise AuditError where labels are too few for their numbers to be classes 0, 1, ..."""
    if largest >= SMALL and largest + 1 > GAP * different:
        raise AuditError(
            f"{path} has {different:,} different labels, the largest {largest:,}: they look like keys, not classes "
            f"0, 1, ...; number them from 0, or give --classes if there are {largest + 1:,}"
        )


def _kind(path: Path) -> str:
    return path.suffix.lower()


def _exists(path: Path) -> None:
    if not path.is_file():
        raise AuditError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise AuditError(f"{path} is empty")
