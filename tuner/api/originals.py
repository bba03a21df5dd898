"""Finds out what a record named on the command line is, and reads what is needed to rerun it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.api.common import find_operator
from tuner.api.unconfirmed import no_confirmed_trial
from tuner.domain.environment import Environment
from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import OriginalKind
from tuner.domain.evidence import Statistic
from tuner.domain.evidence import StoredRecord
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.protocol import Limits
from tuner.domain.protocol import Protocol
from tuner.domain.protocol import QuickStage
from tuner.domain.workload import parse_shape
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.operator import Operator
from tuner.report.provenance import MANIFEST
from tuner.report.reproduce import Original
from tuner.settings import Settings
from tuner.ways import Way

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

# Fields of our fingerprint that identify machine and toolchain; a source may state others.
_IDENTITY = frozenset(
    (
        *("architecture", "compute_units", "pci_device_id", "memory_bytes", "wave_size"),
        *("driver", "runtime", "compiler", "triton", "triton_llvm", "os", "kernel"),
    )
)
_PROTOCOL_NUMBERS = ("warmup", "samples", "processes", "launches_per_sample", "input_seed")
_PROTOCOL_CHOICES = {"cache": ("hot", "cold"), "submission": ("auto", "graph", "stream")}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be reproduced.

    Attributes:
        record: As the user named it.
        kind: What it is.
        id: Row of a trial or study; name of a set of evidence; SHA-256 of a manifest.
        name: Of the rerun's study.
        operator: The operator, as it is today.
        originals: The results.
        device_id: Where it was measured; None where that names no device of this program.
        limits: Deadlines of a trial.
        quick: Quick stage.
        notes: What the reader must know.
    """

    record: str
    kind: OriginalKind
    id: str
    name: str
    operator: Operator
    originals: tuple[Original, ...]
    device_id: str | None = None
    limits: Limits = field(default_factory=Limits)
    quick: QuickStage = field(default_factory=QuickStage)
    notes: tuple[str, ...] = ()


def is_folder(record: str) -> bool:
    """Tell whether a record names a folder and not, beside a folder of its name, a study."""
    path = Path(record)
    return (path / MANIFEST).is_file() or ("/" in record and path.is_dir())


def read_folder_subject(record: str, settings: Settings) -> Subject:
    """Return what a folder of ``tuner show --export`` holds.

    Operators that the settings name win over the folder's own.

    Raises:
        NotFound: It is no such folder.
        UsageError: A file in it was changed.
    """
    from tuner.report.provenance import read_folder

    folder = read_folder(Path(record))
    within = settings.model_copy(update={"operators": (folder.operators, *settings.operators)})
    return Subject(
        record=record,
        kind="folder",
        id=folder.manifest_hash,
        name=_study_name(folder.study),
        operator=find_operator(folder.operator, within),
        originals=(folder.original,),
        device_id=folder.device_id,
        limits=folder.limits,
        quick=folder.quick,
        notes=(f"folder {folder.manifest_hash[:12]}: every file is as it was exported",),
    )


def read_subject(session: Session, record: str, settings: Settings) -> Subject:
    """Return what a trial id, study or set of evidence holds.

    A number is a trial; ``study:NAME``, ``study:ID`` and ``evidence:NAME`` say what is meant; a
    bare name is a study, or else a set of evidence.

    Raises:
        NotFound: There is nothing of that name.
        UsageError: It holds nothing that could be compared.
    """
    kind, colon, name = record.partition(":")
    if colon and kind == "study":
        return _study_subject(session, record, name, settings)
    if colon and kind == "evidence":
        return _evidence_subject(session, record, name, settings)
    if record.isascii() and record.isdecimal():
        return _trial_subject(session, record, settings)
    try:
        return _study_subject(session, record, record, settings)
    except NotFound:
        pass
    try:
        return _evidence_subject(session, record, record, settings)
    except NotFound as error:
        raise NotFound(
            f"no trial, study or evidence {record[:100]!r}", hint=Way.LIST_RECORDS
        ) from error


def _trial_subject(session: Session, record: str, settings: Settings) -> Subject:
    from tuner.report.provenance import limits_of
    from tuner.report.provenance import quick_of
    from tuner.store import queries

    original, notes = _trial_original(session, int(record))
    summary = queries.trial_detail(session, int(record)).summary
    study = queries.find_study(session, summary.study_id)
    return Subject(
        record=record,
        kind="trial",
        id=str(summary.id),
        name=_study_name(f"trial-{summary.id}"),
        operator=find_operator(study.operator, settings),
        originals=(original,),
        device_id=study.device_id,
        limits=limits_of(study),
        quick=quick_of(study),
        notes=tuple(notes),
    )


def _study_subject(session: Session, record: str, name: str, settings: Settings) -> Subject:
    from tuner.report.provenance import limits_of
    from tuner.report.provenance import quick_of
    from tuner.store import queries

    study = queries.find_study(session, name)
    trials = queries.list_trials(session, study.id, outcome=Outcome.OK)
    origins = [each.reused_from_id for each in trials if each.reused_from_id and not each.confirmed]
    confirmed = {each.id for each in trials if each.confirmed}
    for origin_id in origins:
        if queries.trial_detail(session, origin_id).summary.confirmed:
            confirmed.add(origin_id)
    if not confirmed:
        raise no_confirmed_trial(f"study {study.name}", [study])
    originals = [_trial_original(session, trial_id)[0] for trial_id in sorted(confirmed)]
    return Subject(
        record=record,
        kind="study",
        id=str(study.id),
        name=_study_name(study.name),
        operator=find_operator(study.operator, settings),
        originals=tuple(originals),
        device_id=study.device_id,
        limits=limits_of(study),
        quick=quick_of(study),
        notes=(f"study {study.name} (id {study.id}): its {len(originals)} confirmed trials",),
    )


def _trial_original(session: Session, trial_id: int) -> tuple[Original, list[str]]:
    """Return a trial's result; of one that took over another's verdict, that one's."""
    from tuner.report.provenance import original_of
    from tuner.store import queries

    detail = queries.trial_detail(session, trial_id)
    notes = []
    origin_id = detail.summary.reused_from_id
    if origin_id is not None and not detail.summary.confirmed:
        notes.append(f"trial {trial_id} took over the verdict of trial {origin_id}")
        detail = queries.trial_detail(session, origin_id)
    original = original_of(detail)
    if original.is_quick:
        notes.append(
            f"trial {original.id} was never confirmed: the quick stages are compared, one process "
            "each"
        )
    return original, notes


def _study_name(name: str) -> str:
    """Return the name of a rerun's study: a name that a study file could have."""
    clean = "".join(each if each.isalnum() or each in "_-" else "-" for each in name.lower())
    return clean[: 63 - len("-rerun")] + "-rerun"


def _evidence_subject(session: Session, record: str, name: str, settings: Settings) -> Subject:
    from tuner.store import evidence

    stored = evidence.find_records(session, name)
    operators = {each.record.operator for each in stored if each.record.operator}
    if len(operators) != 1:
        listed = ", ".join(sorted(operators)) or "none"
        raise UsageError(
            f"evidence {name} is of {len(operators)} operators ({listed}), one is needed",
            hint="import the records of each operator as a set of its own",
        )
    operator = find_operator(operators.pop(), settings)
    notes = [f"evidence {name}: imported from {', '.join(sorted({e.file.name for e in stored}))}"]
    originals = []
    for each in stored:
        original, more = _record_original(each, operator)
        notes += more
        if original is not None:
            originals.append(original)
    if not originals:
        raise UsageError(
            f"evidence {name} has no record that can be run", hint="; ".join(notes[1:])
        )
    return Subject(
        record=record,
        kind="record",
        id=name,
        name=_study_name(name),
        operator=operator,
        originals=tuple(originals),
        notes=tuple(dict.fromkeys(notes)),
    )


def _record_original(
    stored: StoredRecord, operator: Operator
) -> tuple[Original | None, Sequence[str]]:
    """Return a record as an original, or None where it can't be run, and what was assumed."""
    record = stored.record
    where = f"{stored.file.name}:{record.line}"
    runs_as, rerun_config = record.rerun or (record.implementation, None)
    known = [each.name for each in operator.implementations]
    median_us = record.times.median_us
    if record.outcome is not Outcome.OK or median_us is None:
        return None, [f"{where}: {record.outcome}, nothing to compare"]
    if runs_as not in known:
        return None, [f"{where}: {operator.name} has no implementation {runs_as!r}"]
    if record.shape is None:
        return None, [f"{where}: states no shape"]
    protocol, notes = _protocol(record, [each.name for each in operator.cases])
    faster_than = record.extra.get("faster_than")
    original = Original(
        kind="record",
        id=str(stored.id),
        workload=operator.workload(
            parse_shape(record.shape), record.dtype or "float32", record.scalars
        ),
        implementation=record.implementation or str(runs_as),
        config=record.config,
        processes_us=_process_medians(record, protocol),
        median_us=median_us,
        environment=_environment(record.environment),
        protocol=protocol,
        recorded=record.times,
        runs_as=str(runs_as),
        rerun_config=rerun_config,
        faster_than=tuple(map(str, faster_than)) if isinstance(faster_than, list) else (),
    )
    return original, [f"{where}: {each}" for each in notes]


def _process_medians(record: EvidenceRecord, protocol: Protocol) -> tuple[tuple[float, ...], ...]:
    """Return what a record tells of its processes.

    The range of the medians of three processes, with their median, is all three of them.
    """
    times = record.times
    if times.samples:
        return (times.samples_us,)
    median_us, range_us = times.median_us, times.range_us
    is_of_processes = times.statistic is Statistic.MEDIAN_OF_PROCESS_MEDIANS
    if median_us is None or range_us is None or not is_of_processes or protocol.processes != 3:
        return ()
    return ((range_us[0],), (median_us,), (range_us[1],))


def _environment(stated: Mapping[str, str]) -> Environment:
    identity = {name: value for name, value in stated.items() if name in _IDENTITY}
    context = {name: value for name, value in stated.items() if name not in _IDENTITY}
    return Environment(identity, context)


def _protocol(record: EvidenceRecord, cases: Sequence[str]) -> tuple[Protocol, list[str]]:
    """Return the protocol a record states, and what was taken where it states nothing."""
    stated = record.protocol
    changes: dict[str, Plain] = {}
    for name in _PROTOCOL_NUMBERS:
        value = stated.get(name)
        least = 0 if name in ("warmup", "input_seed") else 1
        if type(value) is int and value >= least:
            changes[name] = value
    for name, choices in _PROTOCOL_CHOICES.items():
        if stated.get(name) in choices:
            changes[name] = stated[name]
    if stated.get("input_case") in cases:
        changes["input_case"] = stated["input_case"]
    # One launch between two readings is what a time of "a launch" means unless more is said, and
    # then the launch itself is timed, not a replayed graph of it.
    usual = {"launches_per_sample": 1, "submission": "stream"}
    protocol = replace(Protocol(), **{**usual, **changes})
    assumed = [
        f"{each.name} {getattr(protocol, each.name) or 'the first'}"
        for each in fields(Protocol)
        if each.name not in changes and each.name not in ("version", "target_sample_us")
    ]
    return protocol, [f"not stated, taken: {', '.join(assumed)}"] if assumed else []
