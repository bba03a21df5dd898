"""``tuner simulate`` and the exports for other tuners, on studies stored without a device."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from command import Command

from tuner.domain.study import TrialPoint
from tuner.domain.workload import make_workload
from tuner.store import open_store
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_report

SHAPES = ((1024, 4096), (2048, 4096))
BLOCKS = (32, 64, 128, 256, 512)
UNROLLS = (1, 2, 4, 8)


def time_us(block: int, unroll: int, rows: int) -> float:
    return rows / 100 * (1.0 + 0.3 * abs(block - 256) / 64 + 0.2 * abs(unroll - 4))


def store_study(tuner: Command, *, finished: bool = True, **changes: Any) -> None:
    """Store a study of 2 shapes, 20 configs each, one of which failed."""
    with open_store(str(tuner.folder / "r.db"), create=True, writable=True) as store:
        recorder = store.recorder()
        definition = make_definition(planned=2 * len(BLOCKS) * len(UNROLLS), **changes)
        study_id = recorder.open_study(definition, fresh=False).study_id
        for shape in SHAPES:
            workload = make_workload("vector_add", shape, "float32", {"scale": 0.1})
            for block in BLOCKS:
                for unroll in UNROLLS:
                    point = TrialPoint(workload, "block", {"BLOCK": block, "UNROLL": unroll})
                    trial_id = recorder.start_trial(study_id, point, GEOMETRY)
                    report = make_report([time_us(block, unroll, shape[0])] * 3)
                    if (block, unroll) == (512, 8):
                        report = make_failure(message="too many registers")
                    recorder.finish_trial(trial_id, report, bytes_moved=1000)
        if finished:
            recorder.finish_study(study_id)


def simulate(tuner: Command, *words: str) -> list[dict[str, Any]]:
    answer = tuner("simulate", "nightly", "--db", "r.db", "--format", "json", *words)
    assert answer.code == 0, answer.err
    assert answer.json["schema"] == "tuner.simulate/1"
    rows: list[dict[str, Any]] = answer.json["rows"]
    return rows


def test_samplers_are_compared_by_space_and_over_all(tuner: Command) -> None:
    store_study(tuner)

    rows = simulate(tuner, "--sampler", "guided", "--sampler", "random", "--repeats", "5")

    assert [(row["shape"], row["sampler"]) for row in rows] == [
        *((shape, sampler)
          for shape in ("1024x4096", "2048x4096")
          for sampler in ("random, calculated", "guided", "random")),
        ("all", "guided"),
        ("all", "random"),
    ]  # fmt: skip
    calculated = rows[0]
    assert calculated["configs"] == 20
    assert calculated["best_us"] == pytest.approx(10.24)
    # One config is within 5 %: the 10th draw of 20 has it in half of all orders.
    assert calculated["within_5_percent_median"] == 10
    assert calculated["within_5_percent_p90"] == 18
    guided, chance = rows[-2], rows[-1]
    assert guided["score_low"] <= guided["score"] <= guided["score_high"]
    assert guided["score"] > chance["score"]
    assert guided["propose_ms"] > 0.0


def test_a_warm_start_is_told_of_the_other_shape(tuner: Command) -> None:
    store_study(tuner)

    rows = simulate(tuner, "--warm-start", "--repeats", "5")

    assert [row["within_1_percent_p90"] for row in rows if row["sampler"] == "guided"] == [1, 1, 1]


def test_equal_seeds_give_equal_figures_and_csv_has_them_all(tuner: Command) -> None:
    store_study(tuner)
    words = ("simulate", "nightly", "--db", "r.db", "--format", "csv", "--repeats", "3")
    first, again = tuner(*words), tuner(*words)
    tables = [list(csv.DictReader(io.StringIO(each.out))) for each in (first, again)]
    for table in tables:
        for row in table:
            row.pop("propose_ms")
    assert tables[0] == tables[1]
    assert len(tables[0]) == 2 * 3 + 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"finished": False}, "is stopped"), ({"sampler": "tpe"}, "its sampler is tpe")],
)
def test_a_study_that_did_not_measure_all_is_refused(
    tuner: Command, changes: dict[str, Any], said: str
) -> None:
    store_study(tuner, **changes)
    answer = tuner("simulate", "nightly", "--db", "r.db")
    assert answer.code == 2
    assert said in answer.err
    assert "exhaustive" in answer.err
    assert answer.out == ""


def test_a_study_that_is_not_there_is_not_found(tuner: Command) -> None:
    store_study(tuner)
    answer = tuner("simulate", "other", "--db", "r.db")
    assert answer.code == 4


# --- export for other tuners


@pytest.mark.parametrize("kind", ["kernel-tuner", "t4"])
def test_an_exported_space_can_be_imported_again(tuner: Command, kind: str) -> None:
    store_study(tuner)

    answer = tuner("export", kind, "--db", "r.db", "--study", "nightly", "--output", "out")

    assert answer.code == 0, answer.err
    assert answer.out == ""
    files = sorted(path.name for path in (tuner.folder / "out").iterdir())
    assert files == [f"nightly-block-{rows}x4096-float32.json" for rows in (1024, 2048)]
    back = tuner("import", *(f"out/{name}" for name in files), "--db", "other.db")
    assert back.code == 0, back.err
    listed = tuner("evidence", "--db", "other.db", "--format", "json")
    assert [(row["records"], row["ok"]) for row in listed.json["rows"]] == [(20, 19)] * 2


def test_the_folder_and_the_study_must_be_named(tuner: Command) -> None:
    store_study(tuner)
    answer = tuner("export", "t4", "--db", "r.db")
    assert answer.code == 2
    assert "--study NAME --output FOLDER" in answer.err
