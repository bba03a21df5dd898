"""``best`` answers from what is equal in identity, and says what differs where nothing is."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from datetime import timedelta
from datetime import UTC
from typing import Any

import pytest

from tuner.domain.environment import Environment
from tuner.domain.environment import unknown
from tuner.domain.protocol import Protocol
from tuner.domain.study import BestCandidate
from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.report.best import answer_exact
from tuner.report.best import answer_same_architecture
from tuner.report.best import nearest_shape

HERE = Environment({"architecture": "gfx1201", "driver": "7.13", "triton": "3.9"}, {"load": "1"})
ASKED = Workload("scale", (4, 8))
TODAY = {"block": "new", "row": "new"}
START = datetime(2026, 12, 1, tzinfo=UTC)


def candidate(number: int, median_us: float, **changes: Any) -> BestCandidate:
    """Return a candidate with little noise."""
    noise = (1.0, 1.001, 0.999, 1.0005, 0.9995)
    samples = tuple(
        tuple(median_us * step * (1 + process / 5000) for step in noise) for process in range(3)
    )
    made = BestCandidate(
        trial_id=number,
        study_id=1,
        study_name="s",
        implementation="block",
        language="hip",
        config={"BLOCK": 32 * number},
        workload=ASKED,
        median_us=median_us,
        process_medians_us=tuple(each[0] for each in samples),
        bandwidth_gb_s=1.0,
        source_hash="new",
        environment=HERE,
        protocol=Protocol(),
        warnings=(),
        finished_at=START + timedelta(seconds=number),
        samples_us=samples,
    )
    return dataclasses.replace(made, **changes)


def test_the_fastest_is_best_and_the_next_is_runner_up() -> None:
    answer = answer_exact([candidate(1, 10.0), candidate(2, 8.0)], ASKED, HERE, TODAY)

    assert answer.best.trial_id == 2
    assert answer.runner_up is not None
    assert answer.runner_up.trial_id == 1
    assert answer.ties == ()
    assert answer.match == "exact"


def test_ties_are_told_and_the_simplest_is_named_whatever_was_luckiest() -> None:
    lucky = [candidate(1, 10.001), candidate(2, 10.0), candidate(3, 10.002)]
    unlucky = [candidate(1, 10.0), candidate(2, 10.002), candidate(3, 10.001)]

    for candidates in (lucky, unlucky):
        answer = answer_exact(candidates, ASKED, HERE, TODAY)
        assert answer.best.config == {"BLOCK": 32}
        assert len(answer.ties) == 2


@pytest.mark.parametrize("field", ["architecture", "driver", "triton"])
def test_another_environment_is_not_exact_and_the_field_is_named(field: str) -> None:
    there = Environment({**HERE.identity, field: "other"}, {})

    with pytest.raises(NotFound, match=f"{field}: other -> ") as caught:
        answer_exact([candidate(1, 10.0, environment=there)], ASKED, HERE, TODAY)
    assert caught.value.exit_code == 4


def test_context_does_not_matter() -> None:
    there = Environment(HERE.identity, {"load": "99", "name": "another display name"})

    assert answer_exact([candidate(1, 10.0, environment=there)], ASKED, HERE, TODAY)


def test_older_source_is_not_exact() -> None:
    with pytest.raises(NotFound, match="older source of block"):
        answer_exact([candidate(1, 10.0, source_hash="old")], ASKED, HERE, TODAY)


def test_protocols_are_not_mixed() -> None:
    other = Protocol(warmup=1, samples=5, processes=1)
    older_and_faster = candidate(1, 5.0, protocol=other)

    answer = answer_exact([older_and_faster, candidate(2, 10.0)], ASKED, HERE, TODAY)

    assert answer.best.trial_id == 2
    assert answer.runner_up is None
    assert "1 other protocol" in answer.notes[0]


def test_the_fastest_of_each_language_is_of_those_that_count() -> None:
    row = {"implementation": "row", "language": "triton"}
    there = Environment({**HERE.identity, "driver": "7.12"}, {})
    others = [
        candidate(1, 1.0, source_hash="old", **row),
        candidate(2, 2.0, environment=there, **row),
        candidate(3, 3.0, protocol=Protocol(warmup=1), **row),
        candidate(4, 4.0, config={"BLOCK": 1}, **row),
        candidate(5, 20.0, config={"BLOCK": 1}, **row),  # the same again, and newer
        candidate(6, 15.0, **row),
        candidate(7, 10.001),
        candidate(8, 10.0),
    ]

    answer = answer_exact(others, ASKED, HERE, TODAY)

    assert answer.best.trial_id == 7, "the simplest of those that tie"
    assert [each.trial_id for each in answer.by_language] == [7, 6]


def test_of_a_config_measured_twice_the_newest_counts() -> None:
    again = candidate(3, 12.0, config={"BLOCK": 32})

    answer = answer_exact([candidate(1, 8.0), again, candidate(2, 10.0)], ASKED, HERE, TODAY)

    assert answer.best.trial_id == 2


def test_a_field_nobody_could_read_is_said() -> None:
    blind = Environment({**HERE.identity, "vbios": unknown("no permission")}, {})

    answer = answer_exact([candidate(1, 10.0, environment=blind)], ASKED, blind, TODAY)

    assert any("vbios" in note for note in answer.notes)


def test_same_architecture_says_what_differs_and_stays_in_one_environment() -> None:
    older = Environment({**HERE.identity, "driver": "6.0"}, {})
    candidates = [candidate(1, 5.0, environment=older), candidate(2, 10.0, environment=older)]
    newer = candidate(3, 20.0, environment=Environment({**HERE.identity, "driver": "7.0"}, {}))

    answer = answer_same_architecture([*candidates, newer], ASKED, "gfx1201", HERE, TODAY)

    assert answer.best.trial_id == 3
    assert answer.runner_up is None
    assert [each.name for each in answer.differences] == ["driver"]
    with pytest.raises(NotFound, match="never tuned on gfx942"):
        answer_same_architecture(candidates, ASKED, "gfx942", HERE, TODAY)


def test_the_nearest_shape_minds_the_last_dimension_most() -> None:
    shapes = [(1024, 4096), (4096, 1024), (64, 4096)]

    assert nearest_shape(shapes, (512, 4100)) == (1024, 4096)
    assert nearest_shape(shapes, (60, 5000)) == (64, 4096)
    assert nearest_shape([], (1, 1)) is None


def test_the_answer_is_plain_json() -> None:
    plain = answer_exact([candidate(1, 10.0)], ASKED, HERE, TODAY).as_plain()

    assert plain["schema"] == "tuner.best/1"
    assert plain["best"]["config"] == {"BLOCK": 32}
    assert plain["runner_up"] is None
