"""CSV text is what Python's own csv module writes and reads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tuner.report.csv_text import cell
from tuner.report.csv_text import csv_chunks
from tuner.report.csv_text import write_csv

VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.text(alphabet='a,"\r\n=+-@\t \x0b\x85\u2028', max_size=6)
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[dict[str, Any]]]:
    """Return columns, and rows in which some of them are missing."""
    columns = draw(st.lists(st.text(), min_size=1, max_size=4, unique=True))
    names = st.sampled_from([*columns, "not a column"])
    return columns, draw(st.lists(st.dictionaries(names, VALUES), max_size=12))


def written(columns: list[str], rows: list[dict[str, Any]]) -> str:
    file = io.StringIO(newline="")
    assert write_csv(iter(rows), columns, file) == len(rows)
    return file.getvalue()


@given(tables())
def test_a_reader_gets_the_cells_back(table: tuple[list[str], list[dict[str, Any]]]) -> None:
    columns, rows = table
    read = list(csv.reader(io.StringIO(written(columns, rows), newline=""), strict=True))
    header = [cell(name) for name in columns]
    assert read == [header, *([cell(row.get(name)) for name in columns] for row in rows)]


def csv_module_line(values: Sequence[Any]) -> str:
    """What the module writes, but for the end of the line: told "\\n", it leaves a "\\r" bare."""
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\r\n").writerow([cell(value) for value in values])
    return file.getvalue().removesuffix("\r\n") + "\n"


@given(tables())
def test_it_is_what_the_csv_module_writes(table: tuple[list[str], list[dict[str, Any]]]) -> None:
    columns, rows = table
    lines = [columns, *([row.get(name) for name in columns] for row in rows)]
    assert written(columns, rows) == "".join(map(csv_module_line, lines))
    assert "".join(csv_chunks(iter(rows), columns)) == written(columns, rows)


def test_columns_of_mixed_kinds_are_written_cell_by_cell() -> None:
    rows = [{"x": value} for value in (1, True, 1.0, "1", None, "True", [1], -1, "-1")]
    lines = written(["x"], rows).splitlines()
    assert lines == ["x", "1", "true", "1.0", "1", '""', "True", "[1]", "-1", "'-1"]


def test_lists_and_objects_are_json() -> None:
    config = {"BLOCK": 64, "FAST": True, "mode": "a,b"}
    (line,) = csv.DictReader(io.StringIO(written(["c", "n"], [{"c": config, "n": [None, "x"]}])))
    assert json.loads(line["c"]) == config
    assert json.loads(line["n"]) == [None, "x"]


def test_more_texts_than_are_remembered_and_more_rows_than_a_batch() -> None:
    rows = [{"x": f'"{number}"', "y": number} for number in range(25_000)]
    read = list(csv.DictReader(io.StringIO(written(["x", "y"], rows), newline="")))
    assert [(row["x"], int(row["y"])) for row in read] == [(f'"{n}"', n) for n in range(25_000)]
