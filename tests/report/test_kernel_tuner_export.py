"""What is written for Kernel Tuner reads back as it was, by the importers of its files."""

from __future__ import annotations

import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from tuner.domain.identity import Config
from tuner.domain.outcome import Outcome
from tuner.errors import UsageError
from tuner.report.importers.kernel_tuner import read_cache
from tuner.report.importers.kernel_tuner import read_results
from tuner.report.kernel_tuner_export import cache_text
from tuner.report.kernel_tuner_export import ExportedSpace
from tuner.report.kernel_tuner_export import ExportedTrial
from tuner.report.kernel_tuner_export import t4_text

WORDS = st.text("abcxyz_", min_size=1, max_size=6)
VALUES = st.booleans() | st.integers(-(2**31), 2**31) | WORDS
TIMES = st.floats(1e-3, 1e7, allow_nan=False)
ENDED = [each for each in Outcome if each not in (Outcome.OK, Outcome.SKIPPED, Outcome.INTERRUPTED)]


def trial(config: Config, outcome: Outcome, samples_us: tuple[float, ...]) -> ExportedTrial:
    is_ok = outcome is Outcome.OK
    return ExportedTrial(
        config=config,
        outcome=outcome,
        samples_us=samples_us if is_ok else (),
        median_us=statistics.median(samples_us) if is_ok else None,
        build_s=0.25,
        validate_s=None,
        measure_s=0.5,
        finished_at="2026-12-02T10:00:00+00:00",
    )


@st.composite
def spaces(draw: st.DrawFn) -> ExportedSpace:
    names = draw(st.lists(WORDS, min_size=1, max_size=3, unique=True))
    configs = draw(
        st.lists(
            st.fixed_dictionaries({name.upper(): VALUES for name in names}),
            min_size=1,
            max_size=8,
            unique_by=lambda each: ",".join(str(each[name]) for name in sorted(each)),
        )
    )
    trials = [
        trial(
            config,
            draw(st.just(Outcome.OK) | st.sampled_from(ENDED)),
            tuple(draw(st.lists(TIMES, min_size=1, max_size=5))),
        )
        for config in configs
    ]
    return ExportedSpace("vector_add block", "gfx1201", (1024, 4096), tuple(trials))


@given(spaces())
@settings(deadline=None, max_examples=60)
def test_a_cache_file_reads_back(space: ExportedSpace) -> None:
    found = read_cache(cache_text(space).encode())
    assert found.problems == ()
    assert len(found.records) == len(space.trials)
    for record, written in zip(found.records, space.trials, strict=True):
        assert record.config == written.config
        assert record.implementation == "vector_add block"
        assert record.environment == {"name": "gfx1201"}
        assert (record.outcome is Outcome.OK) == (written.outcome is Outcome.OK)
        if written.median_us is None:
            continue
        read_us = [1000.0 * float(each) for each in record.times.samples]
        assert all(map(math.isclose, read_us, written.samples_us))


@given(spaces())
@settings(deadline=None, max_examples=60)
def test_t4_results_read_back(space: ExportedSpace) -> None:
    found = read_results(t4_text(space).encode())
    assert found.problems == ()
    for record, written in zip(found.records, space.trials, strict=True):
        assert record.config == written.config
        assert (record.outcome is Outcome.OK) == (written.outcome is Outcome.OK)
        if written.median_us is not None:
            read_us = statistics.median(1000.0 * float(each) for each in record.times.samples)
            assert math.isclose(read_us, written.median_us)


def test_each_failure_is_named_as_kernel_tuner_names_it() -> None:
    trials = [trial({"BLOCK": k}, outcome, ()) for k, outcome in enumerate(ENDED)]
    space = ExportedSpace("k", "gfx1201", (8,), trials)
    cache = json.loads(cache_text(space))["cache"]
    named = {outcome: cache[str(k)]["time"] for k, outcome in enumerate(ENDED)}
    assert named[Outcome.COMPILE_ERROR] == "CompilationFailedConfig"
    assert named[Outcome.CRASH] == named[Outcome.WRONG_RESULT] == "RuntimeFailedConfig"
    results = json.loads(t4_text(space))["results"]
    invalidity = dict(zip(ENDED, (each["invalidity"] for each in results), strict=True))
    assert invalidity[Outcome.TIMEOUT] == "timeout"
    assert invalidity[Outcome.WRONG_RESULT] == "correctness"
    assert invalidity[Outcome.CRASH] == "runtime"
    assert all(each["measurements"] == [] for each in results)


def test_keys_are_the_values_in_the_order_of_the_parameters() -> None:
    space = ExportedSpace(
        "k", "d", (8,), [trial({"B": 2, "A": True}, Outcome.OK, (1.5,)),
                         trial({"A": False, "B": 4}, Outcome.OK, (2.5,))],
    )  # fmt: skip
    document = json.loads(cache_text(space))
    assert document["tune_params_keys"] == ["B", "A"]
    assert document["tune_params"] == {"B": [2, 4], "A": [True, False]}
    assert list(document["cache"]) == ["2,True", "4,False"]
    assert document["cache"]["2,True"]["time"] == 0.0015


def test_a_comma_in_a_value_is_refused_where_it_would_be_misread() -> None:
    space = ExportedSpace("k", "d", (8,), [trial({"ORDER": "a,b"}, Outcome.OK, (1.5,))])
    with pytest.raises(UsageError, match="holds a comma"):
        cache_text(space)
    assert read_results(t4_text(space).encode()).records[0].config == {"ORDER": "a,b"}


def test_configs_that_are_written_alike_are_refused_not_merged() -> None:
    trials = [trial({"A": value}, Outcome.OK, (1.5,)) for value in (1, "1")]
    space = ExportedSpace("k", "d", (8,), trials)
    with pytest.raises(UsageError, match="two configs are written as '1'"):
        cache_text(space)
    assert [each.config for each in read_results(t4_text(space).encode()).records] == [
        {"A": 1},
        {"A": "1"},
    ]
