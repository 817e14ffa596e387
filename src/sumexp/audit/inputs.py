"""Counts, scores and laws from files: CSV and Parquet are counted by DuckDB, without holding their rows in memory."""

import contextlib
import csv
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sumexp.audit._setup import AuditError

if TYPE_CHECKING:  # tables alone need it: an array is read without
    import duckdb

Numbers = NDArray[Any]

COUNTS = ("count", "counts", "frequency", "n")
LABELS = ("label", "labels", "item", "item_id", "class", "word", "tag")
INSTALL = "in a copy of the sources: pip install '.[audit]', or save the counts as an array, .npy"
MOST = 100_000_000
"""Classes: labels above are taken for a mistake."""

GAP = 1_000
"""Classes for each different label, from `SMALL` classes on: where there are fewer labels, their numbers are taken for
hashes or keys, which a table of all classes up to the largest would pay for in memory."""

FIRST_LINE = 1 << 17
"""Characters of the first line of a table at most: beyond them it is no header, nor a row of numbers."""

SMALL = 1_000_000
"""Classes up to which labels may be as sparse as they like."""

BYTES = 110
"""Of memory that the audit takes for a class, measured from ten to a hundred million of them."""


def numbers(path: Path) -> Numbers:
    """The array of an ``.npy`` file, unpickled never.

    Raises:
        AuditError: if the file is absent, empty or none.
    """
    _exists(path)
    try:
        _complete(path)
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise AuditError(f"{path} is no array in NumPy's format: {str(error).splitlines()[0]}") from error
    if not isinstance(array, np.ndarray):
        raise AuditError(f"{path} holds several arrays; give a file of one, .npy")
    if not array.size:
        raise AuditError(f"{path} holds no number, its shape is {array.shape}")
    return array


def _complete(path: Path) -> None:
    """Raise ValueError if the header announces more than the file has: NumPy would ask for that memory first."""
    with path.open("rb") as file:
        if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
            return  # an archive, or what NumPy refuses itself
        file.seek(0)
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        announced, left = math.prod(shape) * dtype.itemsize, path.stat().st_size - file.tell()
    if announced > left:
        raise ValueError(f"its header announces {announced:,} bytes and {left:,} follow (is it truncated?)")


@dataclass(frozen=True)
class Tally:
    """How often each class is a label.

    Attributes:
        counts: [classes].
        names: [classes] what the file calls them, whole numbers in digits; None where they are numbered from 0.
    """

    counts: Numbers
    names: Numbers | None = None


def served(
    path: Path, training: Path, column: str | None = None, kind: str | None = None, classes: int | None = None
) -> Numbers:
    """How often each class of a file is a label in another one, [classes or more]: `counts`, matched by name.

    Classes of the first file come first, in its order; then those that only the second one has.

    Args:
        path: of the labels served.
        training: of the counts; read as by `counts`.
        column: of both files, where the second has it.
        kind: of both files.
        classes: of the first file.

    Raises:
        AuditError: as by `counts`; or if one file names its classes and the other does not.
    """
    own = tally(training, column, kind, classes)
    other = tally(path, column, kind, None, optional=True)
    if other.names is None and own.names is None:
        return np.pad(other.counts, (0, max(0, len(own.counts) - len(other.counts))))
    if other.names is None or (own.names is None and not all(name.isdigit() for name in other.names)):
        unnamed, named = (path, training) if other.names is None else (training, path)
        raise AuditError(f"{named} names its classes and {unnamed} does not: they cannot be matched; name them in both")
    order = map(str, range(len(own.counts))) if own.names is None else own.names
    place = {name: row for row, name in enumerate(order)}
    rows = np.array([place.setdefault(name, len(place)) for name in other.names])
    return np.bincount(rows, weights=other.counts, minlength=len(place)).astype(np.int64)


def counts(path: Path, column: str | None = None, kind: str | None = None, classes: int | None = None) -> Numbers:
    """How often each class is a label, [classes].

    A column of counts has a row for each class, in the order of the classes; where a second column holds their
    numbers 0, 1, 2, ... in another order, it is they that count. A column of labels has a row for each example: whole
    numbers are the classes' numbers, other values are numbered by falling frequency, ties by value.

    Args:
        path: ``.npy``, ``.csv``, ``.tsv`` or ``.parquet``.
        column: its name, or its place from 1 if there is no header; found by itself where there is one, or one whose
            name says what it holds.
        kind: ``counts`` or ``labels``; taken from the column's name if not given, else counts.
        classes: number of classes, where labels do not show them all.

    Raises:
        AuditError: if the file or the column is not there, or a value is not what it must be; it names the row.
    """
    return tally(path, column, kind, classes, named=False).counts


def tally(
    path: Path,
    column: str | None = None,
    kind: str | None = None,
    classes: int | None = None,
    *,
    named: bool = True,
    optional: bool = False,
) -> Tally:
    """The same as `counts`, with the names of the classes.

    Args:
        path: as for `counts`, as are ``column``, ``kind`` and ``classes``.
        column: its name or place.
        kind: ``counts`` or ``labels``.
        classes: their number.
        named: whether names are read.
        optional: whether ``column`` may be absent, and then is found as if it were not given.

    Raises:
        AuditError: as `counts`.
    """
    if kind not in (None, "counts", "labels"):
        raise AuditError(f"the column is said to hold {kind!r}; it is counts or labels")
    if path.suffix == ".npy":
        if column is not None and not optional:
            raise AuditError(f"{path} is an array, which has no column {column!r}; leave --column out")
        values = numbers(path)
        if kind == "labels":
            return Tally(_of_labels(values.reshape(-1), classes, path))
        _as_many(path, len(values) if values.ndim else 1, classes)
        _affordable(path, values.size)
        return Tally(values)
    _exists(path)
    with _table(path) as (connection, source, names):
        header = bool(names)
        types = {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()}
        columns = list(types)
        name = _column(path, columns, None if optional and column not in columns else column, header)
        if names.count(name.lower()) > 1:
            raise AuditError(
                f"{path} has {names.count(name.lower())} columns {name!r}; rename all but the one to count"
            )
        if types[name].endswith("]") or types[name].startswith(("STRUCT", "MAP", "UNION")):
            raise AuditError(
                f"{path}: {name} is {types[name]}, several values a row; give a column of one value a row "
                "(explode or unnest it)"
            )
        kind = kind or ("labels" if name.lower() in LABELS else "counts")
        value = _quoted(name)
        what = _Column(connection, source, value, path, name, header)
        if kind == "labels":
            return _labels(what, classes, named)
        values = _counts(what, classes)
        for ids in [c for c in columns if c != name and c.lower() in LABELS][:1]:
            column_of_ids = replace(what, value=_quoted(ids), name=ids)
            order = _order(column_of_ids, len(values))
            called = column_of_ids.table(f"{_name(column_of_ids.value)} AS v")["v"][order] if named else None
            return Tally(np.asarray(values[order]), called)
        return Tally(values)


@dataclass(frozen=True)
class _Column:
    """A column of a table: where it is selected from, as what, and what it is called in a message."""

    connection: "duckdb.DuckDBPyConnection"
    source: str
    value: str
    path: Path
    name: str
    header: bool

    def row(self, what: str) -> tuple[int, ...]:
        """One row of numbers over the whole column."""
        values: tuple[int, ...] = self.connection.execute(f"SELECT {what} FROM {self.source}").fetchall()[0]
        return values

    def table(self, what: str, clauses: str = "") -> dict[str, Numbers]:
        """Rows of numbers, as an array for each name."""
        return self.connection.execute(f"SELECT {what} FROM {self.source} {clauses}").fetchnumpy()

    def wrong(self, good: str, rule: str) -> AuditError:
        """What to say of the first value for which ``good`` is not true."""
        row, what = self.connection.execute(
            f"SELECT row, v FROM (SELECT row_number() OVER () AS row, {self.value} AS v, "
            f"coalesce({good}, false) AS good FROM {self.source}) WHERE NOT good ORDER BY row LIMIT 1"
        ).fetchall()[0]
        place = f"line {row + self.header}" if self.path.suffix != ".parquet" else f"row {row}"
        return AuditError(f"{self.path}, {place}: {self.name} is {'empty' if what is None else repr(what)}; {rule}")


def _counts(column: _Column, classes: int | None) -> Numbers:
    number = f"TRY_CAST({column.value} AS DOUBLE)"
    good = f"({number} >= 0 AND {number} = floor({number}) AND {number} < 9e15)"
    total, bad = column.row(f"count(*), count(*) FILTER (WHERE NOT coalesce({good}, false))")
    if not total:
        raise AuditError(f"{column.path} has no rows")
    if bad:
        raise column.wrong(good, "a count is a whole number >= 0")
    _affordable(column.path, int(total))
    values = column.table(f"CAST({number} AS BIGINT) AS c")["c"]
    _as_many(column.path, len(values), classes)
    return np.asarray(values)


def _as_many(path: Path, rows: int, classes: int | None) -> None:
    if classes is not None and classes != rows:
        raise AuditError(f"{path} has {rows:,} rows, one for each class, but {classes:,} classes are said")


def _order(column: _Column, rows: int) -> Numbers:
    """The rows in the order of their classes: by number if they are numbered from 0, else as they stand."""
    value, number = column.value, f"TRY_CAST({column.value} AS BIGINT)"
    different, least, most = column.row(f"count(DISTINCT {value}), min({number}), max({number})")
    if different < rows:
        raise AuditError(
            f"{column.path} has {rows:,} rows of counts, but {different:,} different values of {column.name}: "
            "a class needs one row; sum the counts of each"
        )
    if (least, most) != (0, rows - 1):
        return np.arange(rows)
    return np.argsort(column.table(f"{number} AS y")["y"], kind="stable")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _name(value: str) -> str:
    """What a class is called: whole numbers in digits, others as they stand."""
    return (
        f"CASE WHEN {_whole(value)} THEN CAST(TRY_CAST({value} AS BIGINT) AS VARCHAR) ELSE CAST({value} AS VARCHAR) END"
    )


def _labels(column: _Column, classes: int | None, named: bool) -> Tally:
    # the file is read once; what is checked is each different value, of which there are far fewer
    column.connection.execute(
        f"CREATE TEMP TABLE seen AS SELECT {column.value} AS v, count(*) AS n FROM {column.source} GROUP BY v"
    )
    seen = replace(column, source="seen", value="v")
    total, empty, words = (
        int(value or 0)
        for value in seen.row(
            f"sum(n), sum(n) FILTER (WHERE v IS NULL), sum(n) FILTER (WHERE v IS NOT NULL AND NOT {_whole('v')})"
        )
    )
    if not total:
        raise AuditError(f"{column.path} has no rows")
    if empty:
        raise column.wrong(f"({column.value} IS NOT NULL)", "a label is missing")
    if 0 < words < total / 2:
        what = "most labels are whole numbers: fix this one, or name all classes in words"
        raise column.wrong(_whole(column.value), what)
    if words:
        rows = seen.table(f"n AS c, {_name('v')} AS v", "ORDER BY c DESC, seen.v")
        return Tally(np.asarray(rows["c"]), rows["v"] if named else None)
    most = classes if classes is not None else MOST
    (outside,) = seen.row(f"count(*) FILTER (WHERE NOT {_among('v', most)})")
    if outside:
        raise column.wrong(_among(column.value, most), f"the classes are 0..{most - 1}")
    rows = seen.table("TRY_CAST(v AS BIGINT) AS y, sum(n)::BIGINT AS c", "GROUP BY y")
    largest, different = int(rows["y"].max()), len(rows["y"])
    if classes is None:
        _dense(largest, different, column.path)
    _affordable(column.path, classes or largest + 1)
    frequencies = np.zeros(classes or largest + 1, dtype=np.int64)
    frequencies[rows["y"]] = rows["c"]
    return Tally(frequencies)


def _whole(value: str) -> str:
    """Whether a value is a whole number: 7, or 7.0, which pandas writes where one was missing; not 007, nor 7.5."""
    text, number = f"CAST({value} AS VARCHAR)", f"CAST(TRY_CAST({value} AS BIGINT) AS VARCHAR)"
    return f"coalesce({text} = {number} OR {text} = {number} || '.0', false)"


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
    _affordable(path, classes or int(labels.max()) + 1)
    return np.bincount(labels.astype(np.int64), minlength=classes or 0)


def _dense(largest: int, different: int, path: Path) -> None:
    """Raise AuditError where labels are too few for their numbers to be classes 0, 1, ..."""
    if largest >= SMALL and largest + 1 > GAP * different:
        raise AuditError(
            f"{path} has {different:,} different labels, the largest {largest:,}: they look like keys, not classes "
            f"0, 1, ...; number them from 0, or give --classes if there are {largest + 1:,}"
        )


def _affordable(path: Path, classes: int) -> None:
    """Raise AuditError where this machine has not the memory for so many classes: the system would end the process."""
    if BYTES * classes > (memory := _memory()):
        raise AuditError(
            f"{path}: the audit of {classes:,} classes takes {BYTES * classes / 1e9:,.1f} GB of memory, and there are "
            f"{memory / 1e9:,.1f}: merge rare classes, or leave out those without labels"
        )


def _memory() -> float:
    """Bytes of memory of this machine, infinite where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return math.inf


@contextlib.contextmanager
def _table(path: Path) -> Iterator[tuple["duckdb.DuckDBPyConnection", str, list[str]]]:
    """A connection, what to select from, and the names in the first line in lower case, if it is a header."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise AuditError(f"{path} is a table, and duckdb, which reads tables, is not installed; {INSTALL}") from error
    quoted = _literal(path)
    connection = duckdb.connect()
    try:
        connection.execute("SET preserve_insertion_order = true")
        connection.execute("SET enable_progress_bar = false")  # it would stand among the five lines
        # With it DuckDB 2.0 moves a TRY_CAST that stands twice into the reader, where it is a CAST and ends the query.
        connection.execute("SET disabled_optimizers = 'common_subexpressions'")
        if path.suffix == ".parquet":
            yield connection, f"read_parquet({quoted}, hive_partitioning = false)", []
            return
        names, between = _first_line(path)
        dialect = f"delim = '{between}', quote = '\"', escape = '\"', comment = '', skip = 0, strict_mode = true"
        dialect += ", hive_partitioning = false"  # a folder named year=2024 is no column
        source = f"read_csv({quoted}, all_varchar = true, header = {str(bool(names)).lower()}, {dialect})"
        yield connection, source, names
    except duckdb.Error as error:
        raise AuditError(f"{path} cannot be read as a table: {str(error).splitlines()[0]}") from error
    finally:
        connection.close()


def _literal(path: Path) -> str:
    """The file of that very name, as a string of SQL: in DuckDB a path is a pattern, and ``~`` and ``s3:`` mean more.

    Raises:
        AuditError: if the name has a backslash with a sign of patterns, for which DuckDB has no escape.
    """
    name = path.absolute().as_posix()
    if "\\" in name and re.search(r"[\[\]?*]", name):
        raise AuditError(f"{path} cannot be read as a table: its name has a backslash and one of [ ] ? *; rename it")
    return "'" + re.sub(r"[\[\]?*]", r"[\g<0>]", name).replace("'", "''") + "'"


def _first_line(path: Path) -> tuple[list[str], str]:
    """The names in the first line, none where it holds a number, and what separates columns.

    That is a comma, or a semicolon where none is.
    """
    if path.suffix not in (".csv", ".tsv", ".txt"):
        raise AuditError(f"{path} ends in {path.suffix!r}; give .csv, .tsv, .parquet or .npy")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            line = file.readline(FIRST_LINE + 1)
            if len(line) > FIRST_LINE:
                raise AuditError(f"{path} has a first line of more than {FIRST_LINE:,} characters: is it a table?")
            between = "\t" if path.suffix == ".tsv" else ";" if ";" in line and "," not in line else ","
            first = next(csv.reader([line], delimiter=between), [])
    except UnicodeDecodeError as error:
        raise AuditError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from error
    if not any(first):
        raise AuditError(f"{path} is empty")

    def is_number(text: str) -> bool:
        with contextlib.suppress(ValueError):
            float(text)
            return True
        return False

    return [] if any(map(is_number, first)) else [name.lower() for name in first], between


def _column(path: Path, columns: list[str], column: str | None, header: bool) -> str:
    if column is None:
        named = [c for c in columns if c.lower() in COUNTS] or [c for c in columns if c.lower() in LABELS]
        if len(columns) == 1 or len(named) == 1:
            return (named or columns)[0]
        raise AuditError(f"{path} has the columns {', '.join(columns)}; say which with --column")
    if column in columns:
        return column
    if not header and column.isdigit() and 1 <= int(column) <= len(columns):
        return columns[int(column) - 1]
    raise AuditError(f"{path} has no column {column!r}; it has {', '.join(columns)}")


def _exists(path: Path) -> None:
    if not path.is_file():
        raise AuditError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise AuditError(f"{path} is empty")
