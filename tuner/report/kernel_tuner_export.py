"""Writes results as Kernel Tuner has them: cache files for its simulation mode, and T4 files.

Both are of one kernel on one problem, so there is a file for each implementation and workload.
Times are milliseconds there. A config that a constraint refused is left out: Kernel Tuner would
never propose it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.identity import Config
from tuner.domain.identity import Plain
from tuner.domain.identity import Scalar
from tuner.domain.outcome import Outcome
from tuner.errors import UsageError

T4_VERSION = "1.0.0"
_ERRORS = {
    Outcome.COMPILE_ERROR: "CompilationFailedConfig",
    Outcome.COMPILE_TIMEOUT: "CompilationFailedConfig",
}
_OTHER_ERROR = "RuntimeFailedConfig"
_INVALIDITY = {
    Outcome.OK: "correct",
    Outcome.COMPILE_ERROR: "compile",
    Outcome.COMPILE_TIMEOUT: "compile",
    Outcome.TIMEOUT: "timeout",
    Outcome.WRONG_RESULT: "correctness",
    Outcome.NON_FINITE: "correctness",
    Outcome.UNSTABLE_RESULT: "correctness",
}
_OTHER_INVALIDITY = "runtime"


@dataclass(frozen=True, slots=True)
class ExportedTrial:
    """One trial as it is written.

    Attributes:
        config: Its config.
        outcome: How it ended.
        samples_us: Times of the quick stage; empty unless it is ok.
        median_us: Their median; None unless it is ok.
        build_s: Of the build; None where there was none.
        validate_s: Of the checks.
        measure_s: Of the measurement.
        finished_at: ISO 8601, UTC.
    """

    config: Config
    outcome: Outcome
    samples_us: tuple[float, ...]
    median_us: float | None
    build_s: float | None
    validate_s: float | None
    measure_s: float | None
    finished_at: str


@dataclass(frozen=True, slots=True)
class ExportedSpace:
    """The trials of one implementation on one workload.

    Attributes:
        kernel_name: Names operator and implementation.
        device_name: Architecture of the device.
        problem_size: The shape.
        trials: One for each config.
    """

    kernel_name: str
    device_name: str
    problem_size: tuple[int, ...]
    trials: Sequence[ExportedTrial]


def cache_text(space: ExportedSpace) -> str:
    """Return a closed cache file, which ``kernel_tuner.tune_cache`` replays.

    Raises:
        UsageError: A value holds a comma, which separates values in its keys, or two configs
            have the same key, so that one would be lost.
    """
    values = _values(each.config for each in space.trials)
    header = {
        "device_name": space.device_name,
        "kernel_name": space.kernel_name,
        "problem_size": list(space.problem_size),
        "tune_params_keys": list(values),
        "tune_params": values,
        "objective": "time",
    }
    entries: dict[str, str] = {}
    for each in space.trials:
        key = _key(each.config, values)
        if key in entries:
            raise UsageError(
                f"two configs are written as {key!r}: Kernel Tuner can't tell them apart",
                hint="export them as t4",
            )
        entries[key] = f"{json.dumps(key)}: {json.dumps(_entry(each), allow_nan=False)}"
    # A line an entry, as Kernel Tuner writes it and reads it back when it goes on.
    head = json.dumps(header, indent=0)[:-2]
    return head + ',\n"cache": {\n' + ",\n".join(entries.values()) + "}\n}\n"


def t4_text(space: ExportedSpace) -> str:
    """Return results in the open T4 format of the autotuning community, version 1.0.0."""
    document = {
        "schema_version": T4_VERSION,
        "metadata": {
            "device_name": space.device_name,
            "kernel_name": space.kernel_name,
            "problem_size": list(space.problem_size),
        },
        "results": [_result(each) for each in space.trials],
    }
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def _values(configs: Iterable[Config]) -> dict[str, list[Scalar]]:
    values: dict[str, list[Scalar]] = {}
    for config in configs:
        for name, value in config.items():
            seen = values.setdefault(name, [])
            if not any(type(each) is type(value) and each == value for each in seen):
                seen.append(value)
    return values


def _key(config: Config, names: Iterable[str]) -> str:
    texts = [str(config[name]) for name in names]
    for name, text in zip(names, texts, strict=True):
        if "," in text:
            raise UsageError(
                f"the value {text!r} of {name} holds a comma: Kernel Tuner can't tell it apart",
                hint="export it as t4",
            )
    return ",".join(texts)


def _entry(trial: ExportedTrial) -> dict[str, Plain]:
    entry: dict[str, Plain] = dict(trial.config)
    if trial.outcome is Outcome.OK and trial.median_us is not None:
        entry["time"] = trial.median_us / 1000.0
        entry["times"] = [each / 1000.0 for each in trial.samples_us]
    else:
        entry["time"] = _ERRORS.get(trial.outcome, _OTHER_ERROR)
    entry |= {
        "compile_time": _milliseconds(trial.build_s),
        "verification_time": _milliseconds(trial.validate_s),
        "benchmark_time": _milliseconds(trial.measure_s),
        "strategy_time": 0.0,
        "framework_time": 0.0,
        "timestamp": trial.finished_at,
    }
    return entry


def _result(trial: ExportedTrial) -> dict[str, Plain]:
    is_ok = trial.outcome is Outcome.OK and trial.median_us is not None
    measurements: list[Mapping[str, Plain]] = []
    if trial.median_us is not None and is_ok:
        measurements = [{"name": "time", "value": trial.median_us / 1000.0, "unit": "ms"}]
    return {
        "timestamp": trial.finished_at,
        "configuration": dict(trial.config),
        "objectives": ["time"],
        "times": {
            "compilation_time": _milliseconds(trial.build_s),
            "runtimes": [each / 1000.0 for each in trial.samples_us] if is_ok else [],
            "framework": 0.0,
            "search_algorithm": 0.0,
            "validation": _milliseconds(trial.validate_s),
        },
        "invalidity": _INVALIDITY.get(trial.outcome, _OTHER_INVALIDITY),
        "correctness": int(is_ok),
        "measurements": measurements,
    }


def _milliseconds(seconds: float | None) -> float:
    return 0.0 if seconds is None else 1000.0 * seconds
