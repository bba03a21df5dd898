"""A rerun says something of its record and never answers in its place: from its beginning."""

from __future__ import annotations

import pytest

from tuner.store import open_store
from tuner.store import queries
from tuner.store.export import iter_best
from tuner.store.reruns import is_rerun
from tuner.store.reruns import studies_of_rerun
from tuner.store.tuned import tuned_workloads
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import WORKLOAD

RERUN = {"name": "x-rerun", "reproduces": {"kind": "trial", "id": "1"}}
# A study that has the words in its text.
ABOUT_ONE = {"name": "x", "description": 'as "reproduces":{"kind": "trial"} says'}


@pytest.mark.parametrize(("spec", "counts"), [(RERUN, False), (ABOUT_ONE, True)])
def test_what_a_rerun_has_confirmed_is_nobody_s_best(
    url: str, spec: dict[str, object], counts: bool
) -> None:
    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(spec=spec), fresh=True).study_id
        confirm(recorder, run_trial(recorder, study_id, 64, 10.0), (10.0,), (10.0,))
        # No reproduction is stored: it is under way, or was cancelled.
        with store.session() as session:
            assert bool(queries.best_candidates(session, WORKLOAD)) == counts
            assert bool(list(iter_best(session))) == counts
            assert bool(tuned_workloads(session)) == counts
            assert (queries.newest_confirmed_study(session) is not None) == counts
            assert is_rerun(session, study_id) != counts
            with_reruns = queries.best_candidates(session, WORKLOAD, with_reruns=True)
            assert len(with_reruns) == 1


def test_the_studies_of_a_rerun_are_its_own(url: str) -> None:
    def begin(name: str, run: str | None) -> int:
        origin = {"kind": "trial", "id": "1", **({} if run is None else {"run": run})}
        spec = {"name": "x-rerun", "reproduces": origin, "of": name}
        return recorder.open_study(make_definition(name, spec=spec), fresh=True).study_id

    with open_store(url, create=True, writable=True) as store:
        recorder = store.recorder()
        first, other = begin("x-rerun", "aa"), begin("x-rerun", "bb")
        again, old = begin("x-rerun-again", "aa"), begin("x-rerun", None)
        with store.session() as session:
            assert studies_of_rerun(session, first) == studies_of_rerun(session, again)
            assert studies_of_rerun(session, again) == (first, again)
            assert studies_of_rerun(session, other) == (other,)
            assert studies_of_rerun(session, old) == (old,)
