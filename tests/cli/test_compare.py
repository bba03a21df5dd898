"""``tuner compare`` as users call it; what it finds is tested in tests/report."""

from __future__ import annotations

import csv

from command import Command
from places import OPERATORS


def test_two_sides_are_set_side_by_side(tuner: Command) -> None:
    assert tuner("run", tuner.planted_study(), "--operators", str(OPERATORS)).code == 0

    answer = tuner("compare", "1", "planted", "--format", "json")

    assert answer.code == 0, answer.err
    assert answer.json["schema"] == "tuner.compare/1"
    (row,) = answer.json["workloads"]
    assert (row["winner_a"], row["winner_b"], row["change"]) == ("good", "good", "same")
    assert "environment: the same machine and toolchain" in answer.err
    assert "source: the same wherever both have the implementation" in answer.err
    rows = list(csv.DictReader(tuner("compare", "1", "1", "--format", "csv").out.splitlines()))
    assert float(rows[0]["median_a_us"]) == row["median_a_us"]
    assert rows[0]["ratio"] == "1.0"

    for name, code, text in (
        ("nothing", 4, "no study 'nothing'"),
        ("env:12", 2, "at least 4 hexadecimal digits"),
    ):
        refused = tuner("compare", "planted", name)
        assert refused.code == code
        assert text in refused.err.splitlines()[0]
        assert refused.out == ""
