"""Reads all parts of one trial."""

from __future__ import annotations

import json

from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.device import Telemetry
from tuner.domain.outcome import Outcome
from tuner.domain.records import BuildReport
from tuner.domain.records import ProcessReport
from tuner.domain.records import ValidationReport
from tuner.domain.study import SourceText
from tuner.store import rows
from tuner.store.models import EnvironmentRow
from tuner.store.models import ProcessRow
from tuner.store.models import ProtocolRow
from tuner.store.models import SampleRow
from tuner.store.models import SourceRow
from tuner.store.models import TrialRow
from tuner.store.models import ValidationRow
from tuner.store.table import table_of
from tuner.store.views import StoredProcess
from tuner.store.views import TrialDetail
from tuner.store.views import TrialSummary


def trial_parts(session: Session, summary: TrialSummary, trial: TrialRow) -> TrialDetail:
    """Return a trial with its processes, samples, validations and what it refers to."""
    validations = _validations(session, trial.id)
    environment = session.get_one(EnvironmentRow, trial.environment_id)
    protocol = session.get_one(ProtocolRow, trial.protocol_id)
    source = session.get_one(SourceRow, trial.source_hash)
    return TrialDetail(
        summary=summary,
        log=trial.log,
        geometry=rows.read_geometry(trial.geometry),
        build=_build(trial),
        validate_s=trial.validate_s,
        measure_s=trial.measure_s,
        bytes_moved=trial.bytes_moved,
        processes=_processes(session, trial.id, validations),
        validations=tuple(validations.get(None, ())),
        environment=rows.read_environment(environment.identity, environment.context),
        protocol=rows.read_protocol(protocol.fields),
        source=SourceText(
            source.source_hash,
            source.language,
            source.entry,
            source.main,
            json.loads(source.files),
        ),
        origin=trial.origin,
    )


def _build(trial: TrialRow) -> BuildReport | None:
    if trial.build_s is None:
        return None
    return BuildReport(
        build_s=trial.build_s,
        binary_hash=trial.binary_hash,
        compiler=trial.compiler or "",
        options=rows.read_texts(trial.build_options or "[]"),
        registers=trial.registers,
        spills=trial.spills,
        spill_bytes=trial.spill_bytes,
        shared_bytes=trial.shared_bytes,
        code_bytes=trial.code_bytes,
        cached=bool(trial.build_cached),
    )


def _validations(session: Session, trial_id: int) -> dict[int | None, list[ValidationReport]]:
    table = table_of(ValidationRow)
    query = select(table).where(table.c.trial_id == trial_id).order_by(table.c.id)
    found: dict[int | None, list[ValidationReport]] = {}
    for row in session.execute(query).mappings():
        found.setdefault(row["process_id"], []).append(rows.read_validation(dict(row)))
    return found


def _processes(
    session: Session, trial_id: int, validations: dict[int | None, list[ValidationReport]]
) -> tuple[StoredProcess, ...]:
    samples: dict[int, list[float]] = {}
    timed = (
        select(SampleRow.process_id, SampleRow.time_us)
        .join(ProcessRow, ProcessRow.id == SampleRow.process_id)
        .where(ProcessRow.trial_id == trial_id)
        .order_by(SampleRow.process_id, SampleRow.position)
    )
    for process_id, time_us in session.execute(timed):
        samples.setdefault(process_id, []).append(time_us)
    table = table_of(ProcessRow)
    query = select(table).where(table.c.trial_id == trial_id)
    # "quick" comes after "confirm" in the alphabet and before it in time.
    found = session.execute(query.order_by(table.c.stage.desc(), table.c.position)).mappings()
    return tuple(
        StoredProcess(
            stage=row["stage"],
            position=row["position"],
            outcome=Outcome(row["outcome"]),
            message=row["message"],
            median_us=row["median_us"],
            report=_report(dict(row), samples.get(row["id"], [])),
            validations=tuple(validations.get(row["id"], ())),
            recorded_at=row["recorded_at"],
        )
        for row in found
    )


def _report(row: rows.Values, samples_us: list[float]) -> ProcessReport | None:
    if row["submission"] is None:
        return None
    return ProcessReport(
        samples_us=tuple(samples_us),
        launches_per_sample=row["launches_per_sample"],
        buffer_sets=row["buffer_sets"],
        submission=row["submission"],
        before=Telemetry(**rows.telemetry_columns(row, after=False)),
        after=Telemetry(**rows.telemetry_columns(row, after=True)),
    )
