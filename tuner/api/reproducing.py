"""Running a stored result again and comparing it with what is stored."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.common import open_worker
from tuner.api.originals import is_folder
from tuner.api.originals import read_folder_subject
from tuner.api.originals import read_subject
from tuner.api.originals import Subject
from tuner.api.rerun_results import refused_rerun
from tuner.api.rerun_results import store_reproductions
from tuner.api.rerun_results import stored_rerun
from tuner.api.rerun_results import token_of
from tuner.domain.evidence import AGAIN
from tuner.domain.protocol import MEASUREMENT_VERSION
from tuner.domain.protocol import Protocol
from tuner.domain.study import REPRODUCES
from tuner.domain.study import RERUN_KEY
from tuner.domain.study import SourceText
from tuner.domain.study import StudyDefinition
from tuner.domain.workload import parse_shape
from tuner.domain.workload import shape_text
from tuner.errors import NotFound
from tuner.errors import TunerError
from tuner.operator import Operator
from tuner.report.controls import marks
from tuner.report.reproduce import build_changes
from tuner.report.reproduce import Entry
from tuner.report.reproduce import environment_differences
from tuner.report.reproduce import judge
from tuner.report.reproduce import merged
from tuner.report.reproduce import Original
from tuner.report.reproduce import Rerun
from tuner.report.reproduction import ReproductionReport
from tuner.report.reproduction import source_change
from tuner.report.reproduction import SourceChange
from tuner.report.verdict import overall
from tuner.settings import load_settings
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store import Store
    from tuner.study.events import Listener
    from tuner.study.rerun import PointKey
    from tuner.study.rerun import RerunPoint
    from tuner.worker.pool import DeviceWorker


@dataclass(frozen=True, slots=True)
class _Planned:
    """An original with what is run for it."""

    original: Original
    point: RerunPoint
    source: SourceText
    changes: tuple[str, ...]


def reproduce(
    record: str,
    *,
    device: str | None = None,
    shape: str | None = None,
    current_source: bool = False,
    stored_only: bool = False,
    go_on_from: int | None = None,
    listener: Listener | None = None,
    settings: Settings | None = None,
) -> ReproductionReport:
    """Run a stored result again, by the stored source, config and protocol, and compare.

    The rerun is stored as a study of its own, linked to the original, which never changes.

    Args:
        record: Id of a trial, name of a study or of a set of evidence, or a folder that
            ``tuner show --export`` wrote.
        device: Where to run; None takes the record's own device.
        shape: Run at this shape instead, such as ``"8x512"``.
        current_source: Run today's source instead of the stored one.
        stored_only: Take no folder, whatever is called as the record is: a folder brings code.
        go_on_from: A study of a rerun that was asked for in the same words and not ended: what
            its studies hold is not measured again.
        listener: Is told what happens.
        settings: None reads them from the environment and ``tuner.toml``.

    Raises:
        NotFound: There is no such record.
        UsageError: It holds nothing to compare with, or a folder's file was changed.
        DeviceUnavailable: The device can't be used.
        DatabaseProblem: The database can't be used.
    """
    settings = settings or load_settings()
    with ExitStack() as stack:
        if not stored_only and is_folder(record):
            subject = read_folder_subject(record, settings)
            store = stack.enter_context(open_database(settings, create=True, writable=True))
        else:
            store = stack.enter_context(open_database(settings, create=False, writable=True))
            with store.session() as snapshot:
                subject = read_subject(snapshot, record, settings)
        if shape is not None:
            parse_shape(shape)
        device_id = device or subject.device_id or settings.device
        worker = stack.enter_context(open_worker(device_id, settings))
        token = secrets.token_hex(8) if go_on_from is None else token_of(store, go_on_from)
        session = _Session(subject, store, worker, listener or _ignore_event, settings, token)
        report = _run(session, shape, current_source=current_source)
        store_reproductions(store, report)
    return report


@dataclass(frozen=True, slots=True)
class _Session:
    """What one reproduction works with."""

    subject: Subject
    store: Store
    worker: DeviceWorker
    listener: Listener
    settings: Settings
    token: str | None  # of this rerun

    @property
    def is_cpu(self) -> bool:
        """Whether the rerun is timed on a CPU."""
        return self.worker.facts.kind == "cpu"


def _run(session: _Session, shape: str | None, *, current_source: bool) -> ReproductionReport:
    subject, worker = session.subject, session.worker
    notes = list(subject.notes)
    if shape is not None:
        recorded = dict.fromkeys(each.workload.shape_text for each in subject.originals)
        notes.append(f"shape {shape} is run instead of the recorded {', '.join(recorded)}")
    changes, today = _today(subject)
    planned = []
    for original in subject.originals:
        one, more = _plan(subject, original, shape, worker, today, current_source=current_source)
        planned.append(one)
        notes += more
    if subject.kind == "record":
        notes.append("the record holds no source: today's was run")
    groups: dict[Protocol, list[_Planned]] = {}
    for each in planned:
        groups.setdefault(_protocol_now(each.original.protocol), []).append(each)
    entries: dict[int, Entry] = {}
    study_ids: list[int] = []
    for protocol, group in groups.items():
        suffix = f"-{protocol.input_case}" if len(groups) > 1 and protocol.input_case else ""
        found, used = _measure_group(session, protocol, group, suffix)
        entries |= {id(each): entry for each, entry in zip(group, found, strict=True)}
        study_ids += used
        if len(used) > 1:
            notes.append(
                f"what was not the same in study {used[0]} was measured again as study {used[1]}; "
                "both together are judged"
            )
    notes += _marks(session.store, study_ids)
    ordered = tuple(entries[id(each)] for each in planned)
    return ReproductionReport(
        record=subject.record,
        kind=subject.kind,
        original_id=subject.id,
        device_id=worker.facts.device_id,
        environment=worker.environment,
        protocols=tuple(groups),
        study_ids=tuple(study_ids),
        entries=ordered,
        judgement=overall(ordered, is_cpu=session.is_cpu),
        differences=tuple(environment_differences(subject.originals, worker.environment)),
        source_changes=tuple(changes),
        used_current_source=current_source,
        notes=tuple(dict.fromkeys(notes)),
    )


def _measure_group(
    session: _Session, protocol: Protocol, group: Sequence[_Planned], suffix: str
) -> tuple[list[Entry], list[int]]:
    """Run what shares a protocol; what does not come out the same is run once more.

    Returns:
        An entry for each, and the studies that hold the reruns.
    """
    study_id, trial_ids = _measure(session, protocol, group, suffix)
    study_ids = [study_id]
    entries = {}
    for each in group:
        rerun = _rerun(session, each, study_id, trial_ids)
        entries[id(each)] = _entry(session, each, rerun, protocol)
    unsure = [each for each in group if _needs_second_look(entries[id(each)])]
    if unsure:
        study_id, trial_ids = _measure(session, protocol, unsure, suffix + AGAIN)
        study_ids.append(study_id)
        for each in unsure:
            again = _rerun(session, each, study_id, trial_ids)
            both = merged(entries[id(each)].rerun, again)
            entries[id(each)] = _entry(session, each, both, protocol)
    return [entries[id(each)] for each in group], study_ids


def _marks(store: Store, study_ids: Sequence[int]) -> list[str]:
    """Return why the runs of the reruns are marked."""
    from tuner.store.controls import study_controls

    with store.session() as session:
        return [note for each in study_ids for note in marks(study_controls(session, each))]


def _needs_second_look(entry: Entry) -> bool:
    """Tell whether a verdict on times is other than ``same``: a second session may decide."""
    judgement = entry.judgement
    return judgement.low is not None and judgement.verdict != "same"


def _today(subject: Subject) -> tuple[list[SourceChange], Mapping[str, SourceText]]:
    """Return how today's sources differ from the stored ones, and those that can be read."""
    changes: list[SourceChange] = []
    today: dict[str, SourceText] = {}
    seen: set[tuple[str, str]] = set()
    for original in subject.originals:
        name, stored = original.rerun_implementation, original.source
        if (name, stored.source_hash if stored else "") in seen:
            continue
        seen.add((name, stored.source_hash if stored else ""))
        try:
            today[name] = _source_text(subject.operator, name)
        except TunerError as error:
            changes.append(SourceChange(name, (), problem=error.message))
            continue
        change = source_change(name, stored, today[name]) if stored else None
        if change is not None:
            changes.append(change)
    return changes, today


def _source_text(operator: Operator, name: str) -> SourceText:
    each = operator.source(operator.implementation(name))
    return SourceText(each.source_hash, each.language, each.entry, each.main, each.files)


def _plan(
    subject: Subject,
    original: Original,
    shape: str | None,
    worker: DeviceWorker,
    today: Mapping[str, SourceText],
    *,
    current_source: bool,
) -> tuple[_Planned, Sequence[str]]:
    """Return what to run for an original, and what was filled in."""
    from tuner.study.rerun import fitted_config
    from tuner.study.rerun import rebuild

    operator, name = subject.operator, original.rerun_implementation
    implementation = operator.implementation(name)
    stored = original.workload
    workload = stored
    if shape is not None:
        workload = operator.workload(
            parse_shape(shape), stored.dtype, dict(stored.scalars), stored.row_padding
        )
    config, notes = original.config, list[str]()
    if original.kind == "record" or workload != stored:
        recorded = original.config if original.rerun_config is None else original.rerun_config
        dims = operator.dimensions(workload)
        config, notes = fitted_config(implementation, recorded, dims, worker.facts)
    keep = not current_source and original.source is not None
    source = original.source if keep else today.get(name)
    if source is None:
        raise NotFound(
            f"today's source of {name} can't be read",
            hint="leave --current-source out, or name the operator's folder with --operators",
        )
    geometry = original.geometry if keep and workload == stored else None
    point = rebuild(operator, implementation, source, config, workload, worker.facts, geometry)
    changes: list[str] = []
    own = implementation.geometry(config, operator.dimensions(workload))
    if geometry is not None and geometry != own:
        changes.append(f"launch geometry: stored {geometry}; that was run, and not today's {own}")
    return _Planned(original, point, source, tuple(changes)), notes


def _protocol_now(stored: Protocol) -> Protocol:
    """Return the protocol to run by: the stored one, by the measuring code there is."""
    return replace(stored, version=MEASUREMENT_VERSION)


def _measure(
    session: _Session, protocol: Protocol, group: Sequence[_Planned], suffix: str
) -> tuple[int, dict[PointKey, int]]:
    """Run what shares a protocol as one study; return it and the trial of each point."""
    from tuner.study.rerun import RerunRunner

    subject, worker = session.subject, session.worker
    points = list({each.point.point.key: each.point for each in group}.values())
    sources = {each.point.point.implementation: each.source for each in group}
    definition = StudyDefinition(
        name=subject.name + suffix,
        operator=subject.operator.name,
        spec=_spec(session, protocol, group),
        device_id=worker.facts.device_id,
        environment=worker.environment,
        protocol=protocol,
        sources=sources,
        languages={name: each.language for name, each in sources.items()},
        sampler="exhaustive",
        sampler_seed=0,
        planned=len(points),
    )
    runner = RerunRunner(
        operator=subject.operator,
        definition=definition,
        points=points,
        recorder=session.store.recorder(),
        worker=worker,
        start_worker=lambda: open_worker(worker.facts.device_id, session.settings),
        listener=session.listener,
        limits=subject.limits,
        quick=subject.quick,
    )
    return runner.run()


def _spec(session: _Session, protocol: Protocol, group: Sequence[_Planned]) -> dict[str, object]:
    """Return what is stored as the study's file: a study of the same fields, and its origin."""
    subject = session.subject
    workloads = list(dict.fromkeys(each.point.point.workload for each in group))
    return {
        "schema": 1,
        "name": subject.name,
        "description": f"Rerun of {subject.kind} {subject.id}",
        "operator": subject.operator.name,
        "device": session.worker.facts.device_id,
        "shapes": [shape_text(each.shape) for each in workloads],
        "dtype": workloads[0].dtype,
        "scalars": dict(workloads[0].scalars),
        "space": {each.point.point.implementation: {} for each in group},
        "protocol": protocol.as_plain(),
        "quick": asdict(subject.quick),
        "limits": asdict(subject.limits),
        REPRODUCES: {
            "kind": subject.kind,
            "id": subject.id,
            **({} if session.token is None else {RERUN_KEY: session.token}),
        },
    }


def _rerun(
    session: _Session, planned: _Planned, study_id: int, trial_ids: Mapping[PointKey, int]
) -> Rerun:
    """Return what came out of an original, as it is stored."""
    point = planned.point.point
    if planned.point.violation:
        return refused_rerun(point, planned.point.violation, study_id)
    is_quick = planned.original.is_quick
    return stored_rerun(session.store, point, trial_ids[point.key], is_quick=is_quick)


def _entry(session: _Session, planned: _Planned, rerun: Rerun, protocol: Protocol) -> Entry:
    environment, is_cpu = session.worker.environment, session.is_cpu
    judgement = judge(planned.original, rerun, environment, protocol, is_cpu=is_cpu)
    changes = (*planned.changes, *build_changes(planned.original, rerun))
    return Entry(planned.original, rerun, judgement, changes)


def _ignore_event(_event: object) -> None:
    return None
