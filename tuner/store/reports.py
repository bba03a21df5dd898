"""Stores what a worker reported for a trial: processes, samples, validations, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from datetime import UTC
from typing import Any
from typing import Literal

from sqlalchemy import Connection
from sqlalchemy import select

from tuner.domain.identity import canonical_json
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import Stage
from tuner.domain.records import BuildReport
from tuner.domain.records import Failure
from tuner.domain.records import TrialReport
from tuner.domain.stats import median
from tuner.domain.stats import stability_warnings
from tuner.store import rows
from tuner.store.models import ProcessRow
from tuner.store.models import SampleRow
from tuner.store.models import TrialRow
from tuner.store.models import ValidationRow
from tuner.store.rows import Values
from tuner.store.table import insert_process
from tuner.store.table import insert_rows
from tuner.store.table import table_of

SAME_BINARY = "same_binary"


def sound_report(report: TrialReport) -> TrialReport:
    """Return a report whose samples can be stored.

    The bench half refuses senseless times itself. Should one come through, the trial ends as
    ``timer_error``: the database would refuse the row, and the trial would be lost.
    """
    samples = report.process.samples_us if report.process else ()
    bad = [value for value in samples if not (math.isfinite(value) and value > 0.0)]
    if bad:
        problem = f"sample {samples.index(bad[0])} of {len(samples)} is {bad[0]!r} us"
    elif report.failure is None and not samples:
        problem = "the worker reported no samples"
    else:
        return report
    failure = report.failure or Failure(Outcome.TIMER_ERROR, Stage.MEASURE, problem)
    return replace(report, failure=failure, process=None)


def store_report(
    connection: Connection,
    trial_id: int,
    report: TrialReport,
    *,
    stage: Literal["quick", "confirm"],
    position: int,
) -> Values:
    """Store a report's process, samples and validations; return the trial's derived columns."""
    process_id = None
    samples = report.process.samples_us if report.process else ()
    if report.process is not None or stage == "confirm":
        verdict = rows.failure_values(report.failure)
        values = {
            "trial_id": trial_id,
            "stage": stage,
            "position": position,
            "outcome": verdict["outcome"],
            "message": verdict["message"],
            "recorded_at": datetime.now(UTC),
        }
        values |= rows.process_values(report.process)
        process_id = insert_process(connection, values, samples)
    ids = {"trial_id": trial_id, "process_id": process_id}
    insert_rows(
        connection,
        ValidationRow,
        [ids | rows.validation_values(each) for each in report.validations],
    )
    return {
        "quick_median_us": median(samples) if report.failure is None else None,
        "max_abs_error": rows.largest(each.max_abs_error for each in report.validations),
        "max_rel_error": rows.largest(each.max_rel_error for each in report.validations),
    }


def confirm_trial(
    connection: Connection,
    trial: dict[str, Any],
    report: TrialReport,
    position: int,
    required: int,
) -> Values:
    """Store a confirming process; return how the trial's columns change.

    ``confirmed`` and what derives from it are set with the last of the required processes.
    """
    found = store_report(connection, trial["id"], report, stage="confirm", position=position)
    changes: Values = {
        name: rows.largest((trial[name], found[name]))
        for name in ("max_abs_error", "max_rel_error")
    }
    if report.failure is not None:
        return changes | rows.failure_values(report.failure)
    processes_us = confirming_samples(connection, trial["id"])
    if len(processes_us) < required:
        return changes
    earlier = rows.read_texts(trial["warnings"])
    kept = [text for text in earlier if text.startswith(SAME_BINARY)]
    return changes | confirmed_values(processes_us, trial["bytes_moved"], kept)


def confirmed_values(
    processes_us: Sequence[Sequence[float]],
    bytes_moved: int | None,
    kept_warnings: Sequence[str] = (),
) -> Values:
    """Return the columns that derive from the samples of all confirming processes.

    ``bandwidth_gb_s`` is the workload's fewest bytes over the median, in 10^9 bytes a second.
    """
    medians = [median(samples) for samples in processes_us]
    median_us = median(medians)
    return {
        "confirmed": True,
        "median_us": median_us,
        "low_us": min(medians),
        "high_us": max(medians),
        "bandwidth_gb_s": bytes_moved / median_us / 1e3 if bytes_moved else None,
        "warnings": canonical_json([*kept_warnings, *stability_warnings(processes_us)]),
    }


def same_binary_warning(
    connection: Connection, trial: dict[str, Any], build: BuildReport | None
) -> Values:
    """Warn where another config of the study gave the same binary: the sweep compared nothing.

    A parameter that only changes the launch does that rightly; a compile-time one whose value
    never reached the compiler does it too, and the times then differ by noise alone.
    """
    if build is None or build.binary_hash is None:
        return {}
    table = table_of(TrialRow)
    query = select(table.c.id).where(
        table.c.study_id == trial["study_id"],
        table.c.workload_id == trial["workload_id"],
        table.c.implementation_id == trial["implementation_id"],
        table.c.binary_hash == build.binary_hash,
        table.c.config_key != trial["config_key"],
    )
    other = connection.scalar(query.order_by(table.c.id).limit(1))
    if other is None:
        return {}
    text = (
        f"{SAME_BINARY}: trial {other} with another config has the same binary; "
        "unless the parameter only changes the launch, it did not reach the compiler"
    )
    return {"warnings": canonical_json([text])}


def confirming_samples(connection: Connection, trial_id: int) -> list[list[float]]:
    """Return the samples of a trial's valid confirming processes, in microseconds."""
    process, sample = table_of(ProcessRow), table_of(SampleRow)
    query = (
        select(process.c.position, sample.c.time_us)
        .join(sample, sample.c.process_id == process.c.id)
        .where(
            process.c.trial_id == trial_id,
            process.c.stage == "confirm",
            process.c.outcome == Outcome.OK.value,
        )
        .order_by(process.c.position, sample.c.position)
    )
    processes: dict[int, list[float]] = {}
    for position, time_us in connection.execute(query):
        processes.setdefault(position, []).append(time_us)
    return list(processes.values())
