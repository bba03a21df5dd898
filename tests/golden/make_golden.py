"""Makes the golden database of this program's schema revision. Run once for each revision.

The files are kept for ever: later versions must open them and give the same best and exports.

    python tests/golden/make_golden.py
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.study import SkippedPoint
from tuner.domain.workload import Workload
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store
from tuner.store.schema import head
from tuner.testing.store_contract import confirm
from tuner.testing.store_contract import run_trial
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import WORKLOAD

FOLDER = Path(__file__).parent


def fill(store: Store) -> None:
    """Store every kind of row."""
    recorder = store.recorder()
    first = recorder.open_study(make_definition(), fresh=False).study_id
    recorder.skip_points(first, [SkippedPoint(make_point(4096), "threads: 4096 > 1024")])
    origin = run_trial(recorder, first, 64, 10.0, 10.5, 11.0)
    confirm(recorder, origin, (10.0, 10.1, 10.2, 10.1, 10.0), (10.3, 10.2, 10.4, 10.2, 10.3))
    confirm(recorder, run_trial(recorder, first, 128, 20.0), (19.5, 20.5), (20.0, 22.0))
    run_trial(recorder, first, 256, 30.0)
    for block, outcome in enumerate(each for each in Outcome if each not in _NOT_REPORTED):
        trial_id = recorder.start_trial(first, make_point(block, "serial"), GEOMETRY)
        report = make_failure(outcome, Stage.VALIDATE, f"planted: {outcome}", log="line 1\nline 2")
        recorder.finish_trial(trial_id, report, bytes_moved=1)
    small = Workload("vector_add", (33, 257), "float32", WORKLOAD.scalars)
    trial_id = recorder.start_trial(first, make_point(32, workload=small), GEOMETRY)
    recorder.finish_trial(trial_id, make_report((0.1 + 0.2,)), bytes_moved=101_772)
    confirm(recorder, trial_id, (0.30000000000000004, 0.25), (0.275,))
    recorder.finish_study(first)
    second = recorder.open_study(make_definition("second"), fresh=False).study_id
    recorder.reuse_trial(second, make_point(64), origin)
    recorder.start_trial(second, make_point(512), GEOMETRY)  # interrupted when the store closes
    newer = make_definition(environment=make_environment(driver="2.0"))
    third = recorder.open_study(newer, fresh=False).study_id
    confirm(recorder, run_trial(recorder, third, 64, 9.0), (9.0, 9.5), (9.25,))


def answers(store: Store) -> dict[str, object]:
    """Return what must stay the same: exports, best configs, counts."""
    with store.session() as session:
        candidates = queries.best_candidates(session, WORKLOAD, with_samples=True)
        return {
            "trials": list(queries.iter_trials(session)),
            "samples": list(queries.iter_samples(session)),
            "best": list(queries.iter_best(session)),
            "candidates": [
                [each.trial_id, dict(each.config), each.median_us, each.samples_us]
                for each in candidates
            ],
            "counts": {each.id: dict(each.counts) for each in queries.list_studies(session)},
        }


def main() -> None:
    """Write database and answers beside this file, unless they are there."""
    database = FOLDER / f"revision_{head()}.sqlite3"
    if database.exists():
        sys.exit(f"{database} exists; a golden database is never made again")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name) / "results.db"
        with open_store(str(scratch), create=True, writable=True) as store:
            fill(store)
        with open_store(str(scratch), create=False, writable=False) as store:
            found = answers(store)
        migrate.backup(str(scratch), database)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
    text = json.dumps(found, indent=1, allow_nan=False)
    database.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    print(f"wrote {database}")


_NOT_REPORTED = (Outcome.OK, Outcome.SKIPPED)

if __name__ == "__main__":
    main()
