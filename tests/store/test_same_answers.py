"""Values and orders that database systems see differently come back the same from all."""

from __future__ import annotations

import random
import struct

import pytest

from tuner.domain.evidence import EvidenceFile
from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import RecordedTimes
from tuner.domain.study import TrialPoint
from tuner.errors import NotFound
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import queries
from tuner.store.evidence import add_evidence
from tuner.store.evidence import list_evidence
from tuner.testing.store_steps import confirm
from tuner.testing.store_values import BYTES_MOVED
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_report
from tuner.testing.store_values import make_source
from tuner.testing.store_values import WORKLOAD

# In the order of their bytes. A language puts a before B, and ignores the underscore at first.
NAMES = ("A_x", "Aa", "B", "_b", "a", "b", "á")
RECORD = EvidenceRecord(line=1, times=RecordedTimes(median="1.5"))


def test_texts_are_sorted_by_their_bytes(url: str) -> None:
    sources = {name: make_source(name) for name in NAMES}
    languages = dict.fromkeys(NAMES, "hip")
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        definition = make_definition(sources=sources, languages=languages)
        study_id = recorder.open_study(definition, fresh=False).study_id
        for name in reversed(NAMES):
            for word in ("b", "B"):
                point = TrialPoint(WORKLOAD, name, {"WORD": word})
                trial_id = recorder.start_trial(study_id, point, GEOMETRY)
                recorder.finish_trial(trial_id, make_report((5.0,)), bytes_moved=BYTES_MOVED)
                confirm(recorder, trial_id, (5.0,))
        with store.transaction() as connection:
            for name in reversed(NAMES):
                file = EvidenceFile(f"{name:0>64}", "f.csv", "csv", 1)
                add_evidence(connection, name, file, [RECORD], may_extend=False)
        with store.session() as session:
            best = queries.best_candidates(session, WORKLOAD)
            (exported,) = queries.iter_best(session)
            evidence = [each.name for each in list_evidence(session)]
    expected = [(name, word) for name in NAMES for word in ("B", "b")]
    assert [(each.implementation, each.config["WORD"]) for each in best] == expected
    assert (exported["implementation"], exported["config"]) == ("A_x", '{"WORD":"B"}')
    assert evidence == list(NAMES)


def test_texts_that_no_database_takes_are_stored_with_a_sign(url: str) -> None:
    name = "a\x00b\ud800c"
    definition = make_definition(
        name, environment=make_environment(clock="\x00"), device_id="cpu\x00"
    )
    with open_store(url, create=True, writable=True) as store:
        study_id = store.recorder().open_study(definition, fresh=False).study_id
        with store.session() as session:
            found = queries.find_study(session, name)  # as it was given
            assert queries.find_study(session, found.name).id == found.id == study_id
            with pytest.raises(NotFound):
                queries.find_study(session, "\x00")
        assert (found.name, found.device_id) == ("a␀b?c", "cpu␀")
    assert migrate.check(url) == []


def test_times_come_back_to_the_last_bit(url: str) -> None:
    chance = random.Random(20261202)
    samples = [0.1 + 0.2, 5e-324, 2.2250738585072014e-308, 1e22, 9.999999999999999e299, 1 / 3]
    while len(samples) < 300:
        (value,) = struct.unpack("<d", chance.randbytes(8))
        if 0.0 < value < 1e300:
            samples.append(value)
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(), fresh=False).study_id
        point = TrialPoint(WORKLOAD, "block", {"BLOCK": 64})
        trial_id = recorder.start_trial(study_id, point, GEOMETRY)
        recorder.finish_trial(trial_id, make_report(samples), bytes_moved=2**63 - 1)
        with store.session() as session:
            detail = queries.trial_detail(session, trial_id)
    report = detail.processes[0].report
    assert report is not None
    assert list(report.samples_us) == samples
    assert detail.bytes_moved == 2**63 - 1
    assert migrate.check(url) == []


@pytest.mark.parametrize("number", [2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30])
def test_an_id_beyond_all_rows_is_not_found(url: str, number: int) -> None:
    with open_store(url, create=True, writable=True) as store, store.session() as session:
        with pytest.raises(NotFound):
            queries.trial_detail(session, number)
        with pytest.raises(NotFound):
            queries.find_study(session, str(number))
