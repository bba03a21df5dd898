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
from dataclasses import asdict
from datetime import datetime
from datetime import timedelta
from datetime import UTC
from pathlib import Path

from sqlalchemy import Connection

from tuner.api.plain import plain
from tuner.domain.evidence import EvidenceFile
from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import RecordedTimes
from tuner.domain.evidence import Reproduction
from tuner.domain.evidence import Statistic
from tuner.domain.evidence import Timer
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.profile import KernelProfile
from tuner.domain.profile import KernelResources
from tuner.domain.profile import ProfilerName
from tuner.domain.profile import ProfileSource
from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.domain.study import SkippedPoint
from tuner.domain.workload import Workload
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store
from tuner.store.controls import study_controls
from tuner.store.evidence import add_evidence
from tuner.store.evidence import find_records
from tuner.store.evidence import list_evidence
from tuner.store.job_devices import list_devices
from tuner.store.job_devices import register_device
from tuner.store.job_running import claim_next
from tuner.store.job_running import end_job
from tuner.store.job_running import set_study
from tuner.store.job_wishes import cancel_job
from tuner.store.job_wishes import pause_job
from tuner.store.jobs import add_job
from tuner.store.jobs import list_jobs
from tuner.store.owner import Owner
from tuner.store.profiles import add_profile
from tuner.store.profiles import profiles_of
from tuner.store.reproductions import add_reproduction
from tuner.store.reproductions import list_reproductions
from tuner.store.schema import head
from tuner.store.writer import StudyRecorder
from tuner.testing.store_steps import confirm
from tuner.testing.store_steps import measure_controls
from tuner.testing.store_steps import run_trial
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report
from tuner.testing.store_values import WORKLOAD

# The one that runs comes when no other waits; the device is busy from then on.
JOB_STATES = (
    *(JobState.FINISHED, JobState.FAILED, JobState.CANCELLED, JobState.PAUSED),
    *(JobState.RUNNING, JobState.QUEUED),
)
FOLDER = Path(__file__).parent


def fill(store: Store) -> None:
    """Store every kind of row."""
    recorder, began = store.recorder(), datetime.now(UTC)
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
    fill_controls(recorder, first, origin, began)
    recorder.finish_study(first)
    second = recorder.open_study(make_definition("second"), fresh=False).study_id
    recorder.reuse_trial(second, make_point(64), origin)
    recorder.start_trial(second, make_point(512), GEOMETRY)  # interrupted when the store closes
    newer = make_definition(environment=make_environment(driver="2.0"))
    third = recorder.open_study(newer, fresh=False).study_id
    confirm(recorder, run_trial(recorder, third, 64, 9.0), (9.0, 9.5), (9.25,))
    fill_evidence(store, third)
    fill_profiles(store, origin)
    fill_queue(store, third)


def fill_controls(
    recorder: StudyRecorder, study_id: int, sentinel_id: int, began: datetime
) -> None:
    """Store two runs: the trials' own, whose sentinel drifts, and one with a failed copy."""
    measure_controls(recorder, study_id, sentinel_id, 10.0, 10.5, started_at=began)
    failed = make_failure(Outcome.OUT_OF_MEMORY, Stage.MEASURE, "no room", log="line 1")
    later = began + timedelta(hours=1)
    measure_controls(recorder, study_id, sentinel_id, 10.25, started_at=later, failure=failed)


def fill_evidence(store: Store, study_id: int) -> None:
    """Store imported records and what reruns gave."""
    good = EvidenceRecord(
        line=3,
        operator="vector_add",
        implementation="block",
        language="hip",
        shape="1024x4096",
        dtype="float32",
        scalars={"scale": 0.1},
        config={"BLOCK": 256},
        protocol={"warmup": 10, "samples": 50},
        environment={"architecture": "gfx1201"},
        times=RecordedTimes(
            "ms",
            Timer.EVENT,
            Statistic.MEDIAN_OF_PROCESS_MEDIANS,
            *("0.058440", "0.058041", "0.0590205"),
        ),
        max_abs_error=2e-5,
        measured_on="2026-07-19",
        extra={"grid": "1024"},
    )
    sampled = EvidenceRecord(line=4, times=RecordedTimes("us", samples=("10.10", "1.2e1")))
    failed = EvidenceRecord(line=5, outcome=Outcome.WRONG_RESULT, message="postcheck=FAIL")
    file = EvidenceFile("ab" * 32, "run.log", "log", 1234)
    rerun = Reproduction(
        *("record", "1", "slower"), study_id, None, 1.25, 1.2, 1.3, 0.03, [{"name": "driver"}]
    )
    with store.transaction() as connection:
        add_evidence(connection, "others", file, [good, sampled, failed], may_extend=False)
        add_reproduction(connection, rerun)
        add_reproduction(connection, Reproduction("study", "1", "not_comparable"))


def fill_profiles(store: Store, trial_id: int) -> None:
    """Store a profile of each origin: one with all there is, one with next to nothing."""
    full = KernelProfile(
        profiler=ProfilerName.ROCPROFV3,
        profiler_version="1.1.0",
        kernel_name="void add<float>(float*, int)",
        dispatches=8,
        excluded_dispatches=3,
        samples_us=(9.14, 8.68, 7.08, 9.0, 8.5),
        copy_dispatches=2,
        fill_dispatches=1,
        other_dispatches=4,
        grid=(16, 1, 1),
        block=(256, 1, 1),
        resources=KernelResources(32, 0, 16, 0, None, 0),
        extra={"Agent_Id": "Agent 4", "Queue_Id": ["1", "2"]},
    )
    bare = KernelProfile(
        *(ProfilerName.NCU, None, "add", 1, 0, (), None, None, 0, None, None),
        *(KernelResources(), {}),
    )
    with store.transaction() as connection:
        add_profile(connection, trial_id, full, ProfileSource("run"), make_environment())
        add_profile(connection, trial_id, bare, ProfileSource("file", "a.csv", "cd" * 32), None)


def fill_queue(store: Store, study_id: int) -> None:
    """Store a device, and a job in each state; studies have left their leases."""
    runner = Owner("0123456789abcdef", 4711, "abcdef01-2345")
    request = {
        "study": "first",
        "shapes": ["33x257"],
        "budget": "30m",
        "device": None,
        "fresh": False,
    }
    with store.transaction() as connection:
        register_device(connection, runner, "cpu", "a CPU", make_environment())
        for state in JOB_STATES:
            key = f"key of the {state} one"
            job, _ = add_job(connection, JobKind.STUDY, request, "cpu", key)
            bring_to(connection, job.id, runner, study_id, state)
        rerun = {"record": "1", "device": "cuda:0", "shape": None}
        add_job(connection, JobKind.REPRODUCE, rerun, "cuda:0")


def bring_to(
    connection: Connection, job_id: int, runner: Owner, study_id: int, state: JobState
) -> None:
    """Do with a queued job what brings it to a state."""
    if state is JobState.PAUSED:
        pause_job(connection, job_id)
    if state is JobState.CANCELLED:
        cancel_job(connection, job_id)
    if state in (JobState.RUNNING, JobState.FINISHED, JobState.FAILED):
        claim_next(connection, runner, "cpu")
        set_study(connection, job_id, runner, study_id)
    if state is JobState.FINISHED:
        end_job(connection, job_id, runner, state, result={"finished": True})
    if state is JobState.FAILED:
        end_job(connection, job_id, runner, state, message="the device is gone")


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
            "records": [
                [each.id, each.evidence, asdict(each.record), each.record.times.samples_us]
                for summary in list_evidence(session)
                for each in find_records(session, summary.name)
            ],
            "reproductions": [asdict(each.reproduction) for each in list_reproductions(session)],
            "profiles": [
                [each.id, trial_id, asdict(each.profile), asdict(each.source), each.environment_key]
                for trial_id in range(1, 20)
                for each in profiles_of(session, trial_id)
            ],
            "controls": [
                [plain(run), run.drift, run.is_marked, run.copy_gb_s]
                for study in queries.list_studies(session)
                for run in study_controls(session, study.id)
            ],
            "jobs": plain(list_jobs(session)),
            "devices": [
                [each.host, each.device_id, each.name, each.environment_key, each.job_id]
                for each in list_devices(session)
            ],
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
