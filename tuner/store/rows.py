"""Turns domain values into the columns of rows, and rows back into domain values."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from typing import TypeAlias

from tuner.domain.environment import Environment
from tuner.domain.environment import unknown
from tuner.domain.identity import canonical_json
from tuner.domain.identity import Config
from tuner.domain.identity import content_hash
from tuner.domain.job import LaunchGeometry
from tuner.domain.protocol import Protocol
from tuner.domain.records import BuildReport
from tuner.domain.records import Failure
from tuner.domain.records import ProcessReport
from tuner.domain.records import ValidationReport
from tuner.domain.stats import median
from tuner.domain.study import SourceText
from tuner.domain.workload import parse_shape
from tuner.domain.workload import row_padding_of
from tuner.domain.workload import Workload
from tuner.store.problems import checked_integer
from tuner.store.texts import storable_text

Values: TypeAlias = dict[str, Any]

LOG_LIMIT_BYTES = 64 * 1024
MESSAGE_LIMIT_BYTES = 4 * 1024
_TELEMETRY = {
    "clock_mhz": ("clock_before_mhz", "clock_after_mhz"),
    "memory_clock_mhz": ("memory_clock_before_mhz", "memory_clock_after_mhz"),
    "temperature_c": ("temperature_before_c", "temperature_after_c"),
    "power_w": ("power_before_w", "power_after_w"),
}


def workload_values(workload: Workload) -> Values:
    """Return the columns of a workload."""
    return {
        "key": workload.key,
        "operator": workload.operator,
        "shape": workload.shape_text,
        "strides": canonical_json(list(workload.strides)),
        "dtype": workload.dtype,
        "scalars": canonical_json(dict(workload.scalars)),
    }


def read_workload(operator: str, shape: str, strides: str, dtype: str, scalars: str) -> Workload:
    """Return a workload from its columns."""
    sizes = parse_shape(shape)
    row_padding = row_padding_of(sizes, json.loads(strides))
    return Workload(operator, sizes, dtype, tuple(json.loads(scalars).items()), row_padding)


def environment_values(environment: Environment) -> Values:
    """Return the columns of an environment."""
    identity, context = dict(environment.identity), dict(environment.context)
    return {
        "key": environment.key,
        "fingerprint": content_hash({"identity": identity, "context": context}),
        "architecture": identity.get("architecture", unknown("not recorded")),
        "identity": canonical_json(identity),
        "context": canonical_json(context),
    }


def read_environment(identity: str, context: str) -> Environment:
    """Return an environment from its columns."""
    return Environment(json.loads(identity), json.loads(context))


def protocol_values(protocol: Protocol) -> Values:
    """Return the columns of a protocol."""
    return {"key": protocol.key, "fields": canonical_json(protocol.as_plain())}


def read_protocol(fields: str) -> Protocol:
    """Return a protocol from its column."""
    return Protocol(**json.loads(fields))


def source_values(source: SourceText) -> Values:
    """Return the columns of a source text."""
    return {
        "source_hash": source.source_hash,
        "language": source.language,
        "entry": source.entry,
        "main": source.main,
        "files": canonical_json(dict(source.files)),
    }


def geometry_json(geometry: LaunchGeometry) -> str:
    """Return a launch geometry as JSON."""
    return canonical_json(asdict(geometry))


def read_geometry(text: str | None) -> LaunchGeometry | None:
    """Return a launch geometry from its column."""
    if text is None:
        return None
    fields = json.loads(text)
    return LaunchGeometry(tuple(fields["grid"]), fields["threads"], fields["shared_bytes"])


def read_config(text: str) -> Config:
    """Return a config from its column."""
    config: dict[str, bool | int | float | str] = json.loads(text)
    return config


def read_texts(text: str) -> tuple[str, ...]:
    """Return a list of texts (warnings, options) from its column."""
    return tuple(json.loads(text))


def failure_values(failure: Failure | None) -> Values:
    """Return outcome, stage, message and log of a trial that ended."""
    if failure is None:
        return {"outcome": "ok", "stage": None, "message": "", "log": ""}
    return {
        "outcome": failure.outcome.value,
        "stage": failure.stage.value,
        "message": message_text(failure.message, failure.outcome.value),
        "log": clean_text(failure.log, LOG_LIMIT_BYTES),
    }


def message_text(message: str, otherwise: str) -> str:
    """Return a message fit for its column: never empty, so that a failure has a reason."""
    return clean_text(message, MESSAGE_LIMIT_BYTES).strip() or f"{otherwise} (no message)"


def clean_text(text: str, limit_bytes: int) -> str:
    """Return a text that every database takes, no longer than the limit.

    Of a longer one, three quarters of the limit from its start and one from its end are kept
    (compilers tell the first error first, crashes the last), with a line that says so.
    """
    content = storable_text(text).encode("utf-8")
    if len(content) > limit_bytes:
        note = f"\n[truncated: {len(content)} bytes in all]\n".encode("ascii")
        room = limit_bytes - len(note)
        tail = room // 4
        content = content[: room - tail] + note + content[-tail:]
    return content.decode("utf-8", "ignore")


def build_values(build: BuildReport | None) -> Values:
    """Return the columns that tell of a build."""
    if build is None:
        return {}
    sizes = ("registers", "spills", "spill_bytes", "shared_bytes", "code_bytes")
    values: Values = {name: getattr(build, name) for name in sizes}
    return values | {
        "build_s": finite(build.build_s),
        "binary_hash": build.binary_hash,
        "compiler": clean_text(build.compiler, MESSAGE_LIMIT_BYTES),
        "build_options": canonical_json(list(build.options)),
        "build_cached": build.cached,
    }


def process_values(process: ProcessReport | None) -> Values:
    """Return the columns that tell how a process measured, and its median."""
    if process is None:
        return {}
    values: Values = {
        "median_us": median(process.samples_us) if process.samples_us else None,
        "launches_per_sample": process.launches_per_sample,
        "buffer_sets": process.buffer_sets,
        "submission": process.submission,
    }
    for reading, (before, after) in _TELEMETRY.items():
        values[before] = finite(getattr(process.before, reading))
        values[after] = finite(getattr(process.after, reading))
    return values


def validation_values(report: ValidationReport) -> Values:
    """Return the columns of a validation."""
    index = report.first_bad_index
    return {
        "phase": report.phase,
        "input_case": report.case,
        "seed": checked_integer("input seed", report.seed),
        "passed": report.passed,
        "max_abs_error": finite(report.max_abs_error),
        "max_rel_error": finite(report.max_rel_error),
        "mismatches": checked_integer("mismatches", report.mismatches),
        "first_bad_index": None if index is None else canonical_json(list(index)),
        "message": clean_text(report.message, MESSAGE_LIMIT_BYTES),
    }


def read_validation(row: Mapping[str, Any]) -> ValidationReport:
    """Return a validation from its row."""
    index = row["first_bad_index"]
    return ValidationReport(
        phase=row["phase"],
        case=row["input_case"],
        seed=row["seed"],
        passed=row["passed"],
        max_abs_error=row["max_abs_error"],
        max_rel_error=row["max_rel_error"],
        mismatches=row["mismatches"],
        first_bad_index=None if index is None else tuple(json.loads(index)),
        message=row["message"],
    )


def telemetry_columns(row: Mapping[str, Any], *, after: bool) -> dict[str, float | None]:
    """Return a process row's readings by the names of ``Telemetry``."""
    return {reading: row[columns[after]] for reading, columns in _TELEMETRY.items()}


def finite(value: float | None) -> float | None:
    """Return a value, or None for a NaN or an infinity: nothing sensible was read."""
    return value if value is not None and math.isfinite(value) else None


def largest(values: Iterable[float | None]) -> float | None:
    """Return the largest of the known and finite values, or None."""
    return max((value for value in map(finite, values) if value is not None), default=None)
