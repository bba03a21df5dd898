"""Writes a trial as a folder that another person can rerun without our database.

``tuner.report.provenance`` reads it back.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from tuner.domain.identity import bytes_hash
from tuner.domain.identity import Plain
from tuner.domain.identity import Scalar
from tuner.errors import UsageError
from tuner.report.csv_text import write_csv
from tuner.report.provenance import check_inside
from tuner.report.provenance import limits_of
from tuner.report.provenance import MANIFEST
from tuner.report.provenance import MANIFEST_SCHEMA
from tuner.report.provenance import original_of
from tuner.report.provenance import quick_of
from tuner.report.provenance import TRIAL_SCHEMA
from tuner.store.views import StudySummary
from tuner.store.views import TrialDetail

SAMPLE_COLUMNS = ("stage", "process", "sample", "time_us")
MAX_NAME_CHARACTERS = 63  # of a study


def folder_files(
    detail: TrialDetail, study: StudySummary, operator_files: Mapping[str, str]
) -> dict[str, str]:
    """Return the text of every file of a trial's folder, by path, the manifest among them.

    Args:
        detail: The trial.
        study: The study it is part of.
        operator_files: Today's files of the operator, by path relative to its folder. Where a
            file is part of the stored source, the stored text is written.

    Raises:
        UsageError: The trial has no samples, or a stored name would leave the folder.
    """
    original_of(detail)
    operator = detail.summary.workload.operator
    sources = {**operator_files, **detail.source.files}
    files = {f"operators/{operator}/{name}": text for name, text in sources.items()}
    for name in files:
        check_inside(name)
    files["study.toml"] = _study_toml(detail, study)
    files["trial.json"] = _json(_trial_plain(detail, study))
    files["environment.json"] = _json(
        {
            "schema": "tuner.environment/1",
            "key": detail.environment.key,
            "identity": dict(detail.environment.identity),
            "context": dict(detail.environment.context),
        }
    )
    files["samples.csv"] = _samples_csv(detail)
    files["README.md"] = _readme(detail, study)
    files[MANIFEST] = _json(
        {
            "schema": MANIFEST_SCHEMA,
            "files": {name: bytes_hash(files[name].encode()) for name in sorted(files)},
        }
    )
    return files


def write_folder(target: Path, files: Mapping[str, str]) -> None:
    """Write a folder's files; the manifest comes last, so that a broken export has none.

    Raises:
        UsageError: The folder exists and is not empty, or can't be written.
    """
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"{target} is not an empty folder", hint="give a new --export DIR")
        for name in (*(name for name in files if name != MANIFEST), MANIFEST):
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name].encode())
    except OSError as error:
        raise UsageError(f"can't write to {target}: {error.strerror or error}") from error


def _samples_csv(detail: TrialDetail) -> str:
    target = io.StringIO(newline="")
    rows = (
        {"stage": each.stage, "process": each.position, "sample": number, "time_us": time_us}
        for each in detail.processes
        if each.report is not None
        for number, time_us in enumerate(each.report.samples_us)
    )
    write_csv(rows, SAMPLE_COLUMNS, target)
    return target.getvalue()


def _trial_plain(detail: TrialDetail, study: StudySummary) -> dict[str, Plain]:
    summary, original = detail.summary, original_of(detail)
    return {
        "schema": TRIAL_SCHEMA,
        "trial_id": summary.id,
        "study": summary.study_name,
        "study_id": summary.study_id,
        "device_id": study.device_id,
        "implementation": summary.implementation,
        "language": summary.language,
        "workload": summary.workload.as_plain(),
        "config": dict(summary.config),
        "stage": "quick" if original.is_quick else "confirm",
        "median_us": original.median_us,
        "launches_per_sample": list(original.launches_per_sample),
        "submissions": list(original.submissions),
        "geometry": None if detail.geometry is None else asdict(detail.geometry),
        "protocol": detail.protocol.as_plain(),
        "limits": asdict(limits_of(study)),
        "quick": asdict(quick_of(study)),
        "source": {
            "source_hash": detail.source.source_hash,
            "language": detail.source.language,
            "entry": detail.source.entry,
            "main": detail.source.main,
            "files": sorted(detail.source.files),
        },
        "build": None if detail.build is None else asdict(detail.build),
        "validations": [
            {**asdict(check), "stage": each.stage, "process": each.position}
            for each in detail.processes
            for check in each.validations
        ],
        "started_at": summary.started_at.isoformat(),
        "finished_at": summary.finished_at and summary.finished_at.isoformat(),
    }


def _study_toml(detail: TrialDetail, study: StudySummary) -> str:
    """Return a study file with this one workload and config."""
    summary = detail.summary
    workload = summary.workload
    protocol = detail.protocol.as_plain()
    del protocol["version"]  # of the measuring code, not a choice
    if protocol["launches_per_sample"] is None:
        protocol["launches_per_sample"] = "auto"
    suffix = f"-trial-{summary.id}"
    name = summary.study_name[: MAX_NAME_CHARACTERS - len(suffix)] + suffix
    tables: list[tuple[str, Mapping[str, Scalar]]] = [
        ("scalars", dict(workload.scalars)),
        (f"space.{summary.implementation}", {}),
        ("search", {"sampler": "exhaustive", "finalists": 1}),
        ("protocol", protocol),
        ("quick", asdict(quick_of(study))),
        ("limits", asdict(limits_of(study))),
    ]
    lines = [
        "schema = 1",
        f"name = {_toml(name)}",
        f"operator = {_toml(workload.operator)}",
        f"device = {_toml(study.device_id)}",
        f"shapes = [{_toml(workload.shape_text)}]",
        f"dtype = {_toml(workload.dtype)}",
    ]
    if workload.row_padding:
        lines.append(f"row_padding = {workload.row_padding}")
    for table, values in tables:
        lines += ["", f"[{table}]", *(f"{key} = {_toml(each)}" for key, each in values.items())]
        if table.startswith("space."):
            lines += [f"{key} = [{_toml(each)}]" for key, each in summary.config.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Scalar) -> str:
    """Return a scalar as TOML: JSON's strings, booleans and numbers are TOML's too."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _json(value: Plain) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def _readme(detail: TrialDetail, study: StudySummary) -> str:
    summary, original = detail.summary, original_of(detail)
    config = json.dumps(dict(summary.config), sort_keys=True)
    return f"""# Trial {summary.id} of study {summary.study_name}

{summary.workload.operator} {summary.workload.shape_text} {summary.workload.dtype}, \
{summary.implementation} {config}: {original.median_us!r} us
on {study.device_id} ({study.architecture}), {summary.started_at.isoformat(timespec="seconds")}.

Run it again and compare, here or on another machine, in this folder's parent:

    tuner reproduce ./FOLDER
    tuner reproduce ./FOLDER --device cpu

Or run it as a study of one config:

    tuner run FOLDER/study.toml --operators FOLDER/operators

Both run the code in `operators/`: read it first if you don't know where the folder is from.

| file | what it is |
|---|---|
| `trial.json` | the config, launch geometry, protocol, build and checks |
| `samples.csv` | every sample, microseconds a launch |
| `environment.json` | machine and toolchain; identity fields must match to compare times |
| `study.toml` | a study with this one workload and config |
| `operators/` | the kernel as it was measured; the other Python files as of the export |
| `manifest.json` | SHA-256 of each file; `tuner reproduce` refuses a folder with a changed one |
"""
