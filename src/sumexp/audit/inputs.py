"""Counts, scores and laws from files: CSV and Parquet are counted by DuckDB, without holding their rows in memory."""

import contextlib
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from sumexp.audit.setup import AuditError

Numbers = NDArray[Any]

COUNTS = ("count", "counts", "frequency", "n")
LABELS = ("label", "labels", "item", "item_id", "class", "word", "tag")
MOST = 100_000_000
"""Classes: labels above are taken for a mistake."""


def numbers(path: Path) -> Numbers:
    """The array of an ``.npy`` file, unpickled never.

    Raises:
        AuditError: if the file is absent, empty or none.
    """
    _exists(path)
    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise AuditError(f"{path} is no array in NumPy's format: {str(error).splitlines()[0]}") from error
    if not isinstance(found, np.ndarray):
        raise AuditError(f"{path} holds several arrays; give a file of one, .npy")
    if not found.size:
        raise AuditError(f"{path} holds no number, its shape is {found.shape}")
    return found


def counts(path: Path, column: str | None = None, kind: str | None = None, classes: int | None = None) -> Numbers:
    """How often each class is a label, [classes].

    A column of counts has a row for each class, in the order of the classes. A column of labels has a row for each
    example: whole numbers are the classes' numbers, other values are numbered by falling frequency, ties by value.

    Args:
        path: ``.npy``, ``.csv``, ``.tsv`` or ``.parquet``.
        column: its name, or its place from 1 if there is no header; found by itself where there is one, or one whose
            name says what it holds.
        kind: ``counts`` or ``labels``; told by the column's name if not given, else counts.
        classes: number of classes, where labels do not show them all.

    Raises:
        AuditError: if the file or the column is not there, or a value is not what it must be; it names the row.
    """
    if kind not in (None, "counts", "labels"):
        raise AuditError(f"the column is said to hold {kind!r}; it is counts or labels")
    if path.suffix == ".npy":
        found = numbers(path)
        if kind != "labels":
            return found
        return _of_labels(found.reshape(-1), classes, path)
    _exists(path)
    with _table(path) as (connection, source, header):
        columns = [str(row[0]) for row in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
        name = _column(path, columns, column, header)
        kind = kind or ("labels" if name.lower() in LABELS else "counts")
        value = '"' + name.replace('"', '""') + '"'
        read = _labels if kind == "labels" else _counts
        return read(connection, source, value, path, name, int(header), classes)


def _counts(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    value: str,
    path: Path,
    name: str,
    header: int,
    classes: int | None,
) -> Numbers:
    number = f"TRY_CAST({value} AS DOUBLE)"
    good = f"({number} >= 0 AND {number} = floor({number}) AND {number} < 9e15)"
    total, bad = connection.execute(
        f"SELECT count(*), count(*) FILTER (WHERE NOT coalesce({good}, false)) FROM {source}"
    ).fetchall()[0]
    if not total:
        raise AuditError(f"{path} has no rows")
    if bad:
        _first_wrong(connection, source, value, good, path, name, header, "a count is a whole number >= 0")
    found = connection.execute(f"SELECT CAST({number} AS BIGINT) AS c FROM {source}").fetchnumpy()["c"]
    if classes is not None and classes != len(found):
        raise AuditError(f"{path} has {len(found):,} rows, one for each class, but {classes:,} classes are said")
    return np.asarray(found)


def _labels(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    value: str,
    path: Path,
    name: str,
    header: int,
    classes: int | None,
) -> Numbers:
    number = f"TRY_CAST({value} AS BIGINT)"
    total, empty, words = connection.execute(
        f"SELECT count(*), count(*) FILTER (WHERE {value} IS NULL), count(*) FILTER (WHERE {value} IS NOT NULL AND "
        f"coalesce(CAST({number} AS VARCHAR) <> CAST({value} AS VARCHAR), true)) FROM {source}"
    ).fetchall()[0]
    if not total:
        raise AuditError(f"{path} has no rows")
    if empty:
        _first_wrong(connection, source, value, f"({value} IS NOT NULL)", path, name, header, "a label is missing")
    if words:
        rows = connection.execute(
            f"SELECT count(*) AS c FROM {source} GROUP BY {value} ORDER BY c DESC, {value}"
        ).fetchnumpy()
        return np.asarray(rows["c"])
    most = classes if classes is not None else MOST
    good = f"({number} >= 0 AND {number} < {most})"
    outside = connection.execute(f"SELECT count(*) FROM {source} WHERE NOT {good}").fetchall()[0][0]
    if outside:
        _first_wrong(connection, source, value, good, path, name, header, f"the classes are 0..{most - 1}")
    rows = connection.execute(f"SELECT {number} AS y, count(*) AS c FROM {source} GROUP BY y").fetchnumpy()
    found = np.zeros(classes or int(rows["y"].max()) + 1, dtype=np.int64)
    found[rows["y"]] = rows["c"]
    return found


def _first_wrong(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    value: str,
    good: str,
    path: Path,
    name: str,
    header: int,
    rule: str,
) -> None:
    row, what = connection.execute(
        f"SELECT row, v FROM (SELECT row_number() OVER () AS row, {value} AS v, coalesce({good}, false) AS good "
        f"FROM {source}) WHERE NOT good ORDER BY row LIMIT 1"
    ).fetchall()[0]
    place = f"line {row + header}" if path.suffix != ".parquet" else f"row {row}"
    raise AuditError(f"{path}, {place}: {name} is {'empty' if what is None else what!r}; {rule}")


def _of_labels(labels: Numbers, classes: int | None, path: Path) -> Numbers:
    if labels.dtype.kind not in "iu":
        raise AuditError(f"{path} holds {labels.dtype}; labels are whole numbers")
    wrong = np.flatnonzero((labels < 0) | (labels >= (classes or MOST)))
    if len(wrong):
        raise AuditError(
            f"{path}, index {wrong[0]}: the label is {labels[wrong[0]]}; the classes are 0..{(classes or MOST) - 1}"
        )
    return np.bincount(labels.astype(np.int64), minlength=classes or 0)


@contextlib.contextmanager
def _table(path: Path) -> Iterator[tuple[duckdb.DuckDBPyConnection, str, bool]]:
    """A connection, what to select from, and whether the first line names the columns."""
    quoted = "'" + str(path).replace("'", "''") + "'"
    connection = duckdb.connect()
    try:
        connection.execute("SET preserve_insertion_order = true")
        # With it DuckDB 2.0 moves a TRY_CAST that stands twice into the reader, where it is a CAST and ends the query.
        connection.execute("SET disabled_optimizers = 'common_subexpressions'")
        if path.suffix == ".parquet":
            yield connection, f"read_parquet({quoted})", False
            return
        header = _header(path)
        yield connection, f"read_csv({quoted}, all_varchar = true, header = {str(header).lower()})", header
    except duckdb.Error as error:
        raise AuditError(f"{path} cannot be read as a table: {str(error).splitlines()[0]}") from error
    finally:
        connection.close()


def _header(path: Path) -> bool:
    """Whether the first line holds no number."""
    if path.suffix not in (".csv", ".tsv", ".txt"):
        raise AuditError(f"{path} ends in {path.suffix!r}; give .csv, .tsv, .parquet or .npy")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = next(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","), [])
    except UnicodeDecodeError as error:
        raise AuditError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from error
    if not any(first):
        raise AuditError(f"{path} is empty")

    def is_number(text: str) -> bool:
        with contextlib.suppress(ValueError):
            float(text)
            return True
        return False

    return not any(map(is_number, first))


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
