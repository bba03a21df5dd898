"""Exporting a study for Kernel Tuner: a file for each implementation and workload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.workload import parse_shape
from tuner.errors import UsageError
from tuner.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from tuner.report.kernel_tuner_export import ExportedSpace
    from tuner.report.kernel_tuner_export import ExportedTrial

_NOT_EXPORTED = (None, Outcome.SKIPPED.value, Outcome.INTERRUPTED.value)


def export_for_kernel_tuner(
    study: str, folder: Path, kind: Literal["kernel-tuner", "t4"], settings: Settings
) -> list[Path]:
    """Write a study's quick-stage results as Kernel Tuner reads them, and return the files.

    Args:
        study: Name or id.
        folder: Where the files go; made where it is missing.
        kind: Cache files, or files in the T4 format.
        settings: Say which database.

    Raises:
        NotFound: There is no such study, or no database.
        UsageError: Nothing of it can be exported, or the folder can't be written.
    """
    from tuner.report.export import write_lines
    from tuner.report.kernel_tuner_export import cache_text
    from tuner.report.kernel_tuner_export import t4_text
    from tuner.store import queries

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = queries.find_study(session, study)
        spaces = _spaces(session, found.id)
    if not spaces:
        raise UsageError(f"study {found.name} (id {found.id}) has no finished trial to export")
    text = cache_text if kind == "kernel-tuner" else t4_text
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"can't make {folder}: {error.strerror}") from error
    files = []
    for name, space in spaces.items():
        files.append(folder / f"{found.name}-{name}.json")
        write_lines([text(space)], files[-1])
    return files


def _spaces(session: Session, study_id: int) -> dict[str, ExportedSpace]:
    """Return spaces by the name of their file."""
    from tuner.report.kernel_tuner_export import ExportedSpace
    from tuner.store import queries

    samples_us: dict[int, list[float]] = {}
    for row in queries.iter_samples(session, study_id=study_id):
        if row["stage"] == "quick":
            samples_us.setdefault(row["trial_id"], []).append(row["time_us"])
    trials: dict[str, dict[str, ExportedTrial]] = {}
    heads: dict[str, Mapping[str, Plain]] = {}
    for row in queries.iter_trials(session, study_id=study_id):
        if row["outcome"] in _NOT_EXPORTED:
            continue
        name = _name(row)
        heads.setdefault(name, row)
        # Of several attempts the last one counts.
        samples = tuple(samples_us.get(row["trial_id"], ()))
        trials.setdefault(name, {})[row["config"]] = _trial(row, samples)
    return {
        name: ExportedSpace(
            kernel_name=f"{heads[name]['operator']} {heads[name]['implementation']}",
            device_name=str(heads[name]["architecture"]),
            problem_size=parse_shape(str(heads[name]["shape"])),
            trials=tuple(by_config.values()),
        )
        for name, by_config in trials.items()
    }


def _name(row: Mapping[str, Plain]) -> str:
    """Return what tells a space from the others of its study; scalars are the same in all."""
    return f"{row['implementation']}-{row['shape']}-{row['dtype']}"


def _trial(row: Mapping[str, Plain], samples_us: tuple[float, ...]) -> ExportedTrial:
    from tuner.report.kernel_tuner_export import ExportedTrial

    median_us = row["quick_median_us"]
    return ExportedTrial(
        config=json.loads(row["config"]),
        outcome=Outcome(row["outcome"]),
        # A trial that was taken over has none of its own.
        samples_us=samples_us if samples_us or median_us is None else (median_us,),
        median_us=median_us,
        build_s=row["build_s"],
        validate_s=row["validate_s"],
        measure_s=row["measure_s"],
        finished_at=str(row["finished_at"]),
    )
