"""CSV from every verb holds configs as JSON, never as Python prints them."""

from __future__ import annotations

import csv
import io
import json

from command import Command
from places import OPERATORS

EXTRA = ("--operators", str(OPERATORS))


def test_a_config_is_json_in_every_csv(tuner: Command) -> None:
    study = tuner.planted_study("second-good")
    assert tuner("run", study, *EXTRA).code == 0
    for words in (
        ("run", study, *EXTRA),
        ("best", "planted", "--shape", "6x40", "--device", "cpu", *EXTRA),
        ("trials", "planted"),
        ("export", "trials", "--study", "planted"),
        ("reproduce", "1", *EXTRA),
        ("compile", "planted", "--arch", "gfx1201", "--shape", "6x40", *EXTRA),
    ):
        printed = tuner(*words, "--format", "csv")
        configs = [row["config"] for row in csv.DictReader(io.StringIO(printed.out))]
        assert configs, printed.err
        assert all("BLOCK" in json.loads(config) for config in configs), words
    (row,) = csv.DictReader(io.StringIO(tuner("compare", "1", "1", "--format", "csv").out))
    assert "BLOCK" in json.loads(row["config_a"])
    table = tuner("trials", "planted").out
    assert "BLOCK=64" in table
