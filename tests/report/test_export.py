"""Exports: numbers bit-equal, formulas neutralised, files whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import UsageError
from tuner.report.csv_text import write_csv
from tuner.report.export import export_rows
from tuner.report.export import replacing


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(), max_size=20))
def test_numbers_read_back_bit_equal(numbers: list[float]) -> None:
    file = io.StringIO()
    write_csv([{"x": number} for number in numbers], ["x"], file)

    cells = [row["x"] for row in csv.DictReader(io.StringIO(file.getvalue()))]

    assert [float(cell) if "." in cell or "e" in cell else int(cell) for cell in cells] == numbers
    assert all(
        math.copysign(1, float(cell)) == math.copysign(1, number)
        for cell, number in zip(cells, numbers, strict=True)
    )


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1", "-x", "@SUM(A1)", "\tx", "\rx"])
def test_a_formula_is_neutralised_and_a_negative_number_is_not(text: str) -> None:
    file = io.StringIO(newline="")
    write_csv([{"text": text, "number": -0.5}], ["text", "number"], file)

    row = next(csv.DictReader(io.StringIO(file.getvalue(), newline="")))

    assert row["text"] == "'" + text
    assert row["number"] == "-0.5"


def test_quotes_commas_and_line_ends_survive() -> None:
    text = 'a,"b"\nc\r\nd; é 漢 \U0001f600'
    file = io.StringIO(newline="")
    write_csv([{"text": text}], ["text"], file)

    assert next(csv.DictReader(io.StringIO(file.getvalue(), newline="")))["text"] == text


@pytest.mark.parametrize("format_name", ["csv", "json", "parquet"])
def test_a_file_of_each_format_holds_the_rows(tmp_path: Path, format_name: str) -> None:
    rows = [{"a_us": 1.5, "name": "x"}, {"a_us": None, "name": "y"}]
    target = tmp_path / f"out.{format_name}"

    export_rows(iter(rows), ["a_us", "name"], what="t", format_name=format_name, output=target)

    if format_name == "json":
        assert json.loads(target.read_text()) == {"schema": "tuner.export.t/1", "rows": rows}
    else:
        frame = pd.read_csv(target) if format_name == "csv" else pd.read_parquet(target)
        assert list(frame.columns) == ["a_us", "name"]
        assert frame["a_us"].tolist()[0] == 1.5
        assert math.isnan(frame["a_us"].tolist()[1])


def test_an_export_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old")

    def broken() -> object:
        yield {"a": 1}
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError):
        export_rows(broken(), ["a"], what="t", format_name="csv", output=target)  # type: ignore[arg-type]

    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_parquet_needs_a_file() -> None:
    with pytest.raises(UsageError, match="not text"):
        export_rows([], ["a"], what="t", format_name="parquet", output=None)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"), replacing(tmp_path / "nowhere" / "x"):
        pass
