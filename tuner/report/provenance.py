"""Reads a trial back from a folder that ``tuner show --export`` wrote, and checks it.

``manifest.json`` holds the SHA-256 of every file; nothing of a folder is used before all of them
are checked.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pathlib import PurePosixPath

from tuner.domain.environment import Environment
from tuner.domain.identity import bytes_hash
from tuner.domain.identity import Plain
from tuner.domain.job import LaunchGeometry
from tuner.domain.outcome import Outcome
from tuner.domain.protocol import Limits
from tuner.domain.protocol import Protocol
from tuner.domain.protocol import QuickStage
from tuner.domain.records import BuildReport
from tuner.domain.stats import result_median
from tuner.domain.study import SourceText
from tuner.domain.workload import make_workload
from tuner.domain.workload import row_padding_of
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.report.reproduce import Original
from tuner.store.views import StudySummary
from tuner.store.views import TrialDetail
from tuner.ways import Way

MANIFEST = "manifest.json"
MANIFEST_SCHEMA = "tuner.provenance/1"
TRIAL_SCHEMA = "tuner.provenance.trial/1"
MAX_FOLDER_BYTES = 256_000_000


@dataclass(frozen=True, slots=True)
class ProvenanceFolder:
    """A checked folder.

    Attributes:
        manifest_hash: SHA-256 of its manifest: names the folder's content.
        study: Name of the study the trial was part of.
        operator: Name of the operator.
        operators: Folder to give as ``--operators``.
        device_id: Where it was measured.
        limits: Deadlines of the study.
        quick: Quick stage of the study.
        original: The result.
    """

    manifest_hash: str
    study: str
    operator: str
    operators: Path
    device_id: str
    limits: Limits
    quick: QuickStage
    original: Original


def original_of(detail: TrialDetail) -> Original:
    """Return a stored trial's result as it can be compared with a rerun.

    Raises:
        UsageError: It has no samples: it failed, was skipped, or is still running.
    """
    summary = detail.summary
    confirmed = [each for each in detail.processes if each.stage == "confirm"]
    chosen = [
        each.report
        for each in (confirmed if summary.confirmed else detail.processes)
        if each.outcome is Outcome.OK and each.report is not None and each.report.samples_us
    ]
    if summary.outcome is not Outcome.OK or not chosen:
        raise UsageError(
            f"trial {summary.id} has no samples to compare with ({summary.outcome or 'running'})",
            hint=f"{Way.LIST_OK_TRIALS} lists trials that have",
        )
    reports = chosen if summary.confirmed else chosen[:1]
    processes_us = tuple(each.samples_us for each in reports)
    return Original(
        kind="trial",
        id=str(summary.id),
        workload=summary.workload,
        implementation=summary.implementation,
        config=summary.config,
        processes_us=processes_us,
        median_us=result_median(processes_us),
        environment=detail.environment,
        protocol=detail.protocol,
        is_quick=not summary.confirmed,
        source=detail.source,
        geometry=detail.geometry,
        build=detail.build,
        launches_per_sample=tuple(each.launches_per_sample for each in reports),
        submissions=tuple(each.submission for each in reports),
    )


def limits_of(study: StudySummary) -> Limits:
    """Return the deadlines of a study; the defaults where its stored file has none."""
    return Limits(**study.spec.get("limits", {}))


def quick_of(study: StudySummary) -> QuickStage:
    """Return the quick stage of a study; the default where its stored file has none."""
    return QuickStage(**study.spec.get("quick", {}))


def read_folder(folder: Path) -> ProvenanceFolder:
    """Check a folder against its manifest and read it.

    Raises:
        NotFound: It has no manifest.
        UsageError: A file was changed, is missing, or is not what ``show --export`` writes.
    """
    content = _checked_files(folder)
    try:
        trial = json.loads(content["trial.json"])
        environment = json.loads(content["environment.json"])
        if trial["schema"] != TRIAL_SCHEMA:
            raise ValueError(f"schema {trial['schema']!r} is not {TRIAL_SCHEMA!r}")
        return _folder(folder, content, trial, environment)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{folder}: not what `tuner show --export` writes: {type(error).__name__}: {error}",
            hint="export the trial again",
        ) from error


def _folder(
    folder: Path, content: Mapping[str, bytes], trial: Plain, environment: Plain
) -> ProvenanceFolder:
    problem = trial["workload"]
    operator = str(problem["operator"])
    source = trial["source"]
    prefix = f"operators/{operator}/"
    files = {name: content[prefix + name].decode("utf-8") for name in source["files"]}
    processes_us = _read_samples(content["samples.csv"].decode("utf-8"), trial["stage"])
    geometry, build = trial["geometry"], trial["build"]
    original = Original(
        kind="folder",
        id=bytes_hash(content[MANIFEST]),
        workload=make_workload(
            operator,
            problem["shape"],
            problem["dtype"],
            problem["scalars"],
            row_padding_of(problem["shape"], problem["strides"]),
        ),
        implementation=str(trial["implementation"]),
        config=dict(trial["config"]),
        processes_us=processes_us,
        median_us=result_median(processes_us),
        environment=Environment(dict(environment["identity"]), dict(environment["context"])),
        protocol=Protocol(**trial["protocol"]),
        is_quick=trial["stage"] == "quick",
        source=SourceText(
            source["source_hash"], source["language"], source["entry"], source["main"], files
        ),
        geometry=None
        if geometry is None
        else LaunchGeometry(tuple(geometry["grid"]), geometry["threads"], geometry["shared_bytes"]),
        build=None
        if build is None
        else BuildReport(**{**build, "options": tuple(build["options"])}),
        launches_per_sample=tuple(trial["launches_per_sample"]),
        submissions=tuple(trial["submissions"]),
    )
    return ProvenanceFolder(
        manifest_hash=original.id,
        study=str(trial["study"]),
        operator=operator,
        operators=folder / "operators",
        device_id=str(trial["device_id"]),
        limits=Limits(**trial["limits"]),
        quick=QuickStage(**trial["quick"]),
        original=original,
    )


def _checked_files(folder: Path) -> dict[str, bytes]:
    """Return the content of every listed file after comparing all with the manifest."""
    path = folder / MANIFEST
    if not path.is_file():
        raise NotFound(
            f"{folder} has no {MANIFEST}",
            hint="`tuner show TRIAL --export DIR` writes such folders",
        )
    try:
        manifest_bytes = path.read_bytes()
        manifest = json.loads(manifest_bytes)
        listed = dict(manifest["files"])
        schema = manifest["schema"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: not a manifest", hint="export the trial again") from error
    if schema != MANIFEST_SCHEMA:
        raise UsageError(f"{path}: schema {schema!r} is not {MANIFEST_SCHEMA!r}")
    content = {MANIFEST: manifest_bytes}
    total_bytes = 0
    for name, digest in sorted(listed.items()):
        check_inside(name)
        file = folder / name
        if not file.resolve().is_relative_to(folder.resolve()) or not file.is_file():
            raise UsageError(f"{file}: missing", hint="the folder is not whole; export it again")
        total_bytes += file.stat().st_size
        if total_bytes > MAX_FOLDER_BYTES:
            raise UsageError(f"{folder}: larger than {MAX_FOLDER_BYTES} bytes")
        content[name] = file.read_bytes()
        if bytes_hash(content[name]) != digest:
            raise UsageError(
                f"{file}: changed since it was exported: SHA-256 differs from {MANIFEST}",
                hint="export the trial again; to try a changed kernel, give its operator with "
                "--operators and --current-source",
            )
    return content


def check_inside(name: str) -> None:
    """Refuse a file name that leads out of the folder.

    Raises:
        UsageError: It does.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\x00" in name:
        raise UsageError(f"file name {name[:100]!r} leads out of the folder")


def _read_samples(text: str, stage: str) -> tuple[tuple[float, ...], ...]:
    processes: dict[str, list[float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        if row["stage"] == stage:
            processes.setdefault(row["process"], []).append(float(row["time_us"]))
    if not processes or not all(0 < each < 1e300 for one in processes.values() for each in one):
        raise ValueError(f"samples.csv has no sound samples of stage {stage!r}")
    return tuple(tuple(samples) for samples in processes.values())
