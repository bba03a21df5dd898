"""Makes a record of named texts, as result lines and tables of the same family state them.

Times in them are read from pairs of device events and written in milliseconds. ``NA`` and an
empty cell mean that a field does not apply. Fields without a meaning here are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Mapping

from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import exact_us
from tuner.domain.evidence import RecordedTimes
from tuner.domain.evidence import Statistic
from tuner.domain.evidence import Timer
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.report.importers.parsed import BadEntry
from tuner.report.importers.parsed import checked_shape
from tuner.report.importers.parsed import checked_text
from tuner.report.importers.parsed import day_of
from tuner.report.importers.parsed import real_number
from tuner.report.importers.parsed import shown
from tuner.report.importers.parsed import typed
from tuner.report.importers.parsed import whole_number

NOT_APPLICABLE = ("NA", "")

_CONFIG = ("block", "block_threads", "block_size", "rows_per_program", "num_warps")
_SCALARS = ("epsilon",)
# By the names of our own protocol where they mean the same.
_COUNTS = {"warmup": "warmup", "repeat": "samples", "run_count": "processes", "seed": "input_seed"}
_CHOICES = (
    *("input", "input_mode", "input_precision", "reference", "atol", "rtol"),
    *("scope", "launches", "process"),
)
_ENVIRONMENT = {"gpu": "name", "torch": "package.torch"}
_CHECKS = ("correct", "precheck", "postcheck")
_PASSED = ("OK", "PASS", "1", "TRUE")
_ERRORS = ("max_abs_error", "max_rel_error")
_FIGURE = "median_ms"
_RANGE = ("median_ms_run_min", "median_ms_run_max")
_TEXTS = ("operator", "implementation", "language", "runtime", "dtype")
_SIZES = ("rows", "cols")


def stated_record(
    line: int,
    fields: Mapping[str, str],
    *,
    times: RecordedTimes | None = None,
    environment: Mapping[str, str] | None = None,
) -> EvidenceRecord:
    """Return the record that the fields of a line state.

    Args:
        line: Of the file.
        fields: Texts by name, without those of samples.
        times: Where they are known already; None takes them from the fields.
        environment: As ``stated_environment`` returns it.

    Raises:
        BadEntry: A field is not what its name says, or contradicts another.
    """
    left = {name: checked_text(name, text) for name, text in fields.items()}
    left = {name: text for name, text in left.items() if text not in NOT_APPLICABLE}
    outcome, message = _outcome(left)
    errors = _take_errors(left, is_ok=outcome is Outcome.OK)
    if outcome is not Outcome.OK:
        times = RecordedTimes()  # what it timed was wrong; the texts stay among the extras
    elif times is None:
        times = _take_times(left)
    texts = {name: left.pop(name, None) for name in _TEXTS}
    shape = _take_shape(left)
    date = left.get("date")
    measured_on = day_of(date) if date is not None else None
    if measured_on == date:
        left.pop("date", None)
    return EvidenceRecord(
        line=line,
        outcome=outcome,
        message=message,
        operator=texts["operator"],
        implementation=texts["implementation"],
        language=texts["language"],
        runtime=texts["runtime"],
        shape=shape,
        dtype=texts["dtype"],
        scalars={name: real_number(name, left.pop(name)) for name in _SCALARS if name in left},
        config={name: typed(left.pop(name)) for name in _CONFIG if name in left},
        protocol=_take_protocol(left),
        environment=dict(environment or {}),
        times=times,
        max_abs_error=errors.get("max_abs_error"),
        max_rel_error=errors.get("max_rel_error"),
        measured_on=measured_on,
        extra=dict(left),
    )


def stated_environment(fields: Mapping[str, str]) -> dict[str, str]:
    """Return what fields of an environment state, by the names of our fingerprint.

    Raises:
        BadEntry: A value is not plain text.
    """
    return {
        _ENVIRONMENT.get(name, name): checked_text(name, text)
        for name, text in fields.items()
        if text not in NOT_APPLICABLE
    }


def checked_times(times: RecordedTimes) -> RecordedTimes:
    """Return times that can be: above 0, the figure within its range.

    Raises:
        BadEntry: They can't be.
    """
    try:
        median_us, range_us = times.median_us, times.range_us
        _ = times.samples_us
    except ValueError as error:
        raise BadEntry(str(error)) from error
    if range_us and median_us and not range_us[0] <= median_us <= range_us[1]:
        raise BadEntry(
            f"the figure {times.median} is outside of its range, {times.low} to {times.high}"
        )
    return times


def require_fields(fields: Mapping[str, str], names: Iterable[str]) -> None:
    """Check that fields are there and apply.

    Raises:
        BadEntry: One is missing.
    """
    for name in names:
        if fields.get(name, "") in NOT_APPLICABLE:
            raise BadEntry(f"{name} is missing")


def _outcome(fields: dict[str, str]) -> tuple[Outcome, str]:
    """Return how it ended; the checks that passed say nothing more and are taken out."""
    failed = [name for name in _CHECKS if name in fields and fields[name].upper() not in _PASSED]
    timed = fields.pop("timed", "1")
    if timed not in ("0", "1"):
        raise BadEntry(f"timed is {shown(timed)}, not 0 or 1")
    message = " ".join(f"{name}={fields[name]}" for name in failed)
    for name in _CHECKS:
        fields.pop(name, None)
    if not failed:
        if timed == "0":
            return Outcome.SKIPPED, "timed=0: the source did not time it"
        return Outcome.OK, ""
    if any(not _is_finite(fields[name]) for name in _ERRORS if name in fields):
        return Outcome.NON_FINITE, message
    if "precheck" not in failed and "postcheck" in failed:
        return Outcome.UNSTABLE_RESULT, message
    return Outcome.WRONG_RESULT, message


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return True  # no number at all: refused where it is read


def _take_errors(fields: dict[str, str], *, is_ok: bool) -> dict[str, float]:
    """Return the known errors. A NaN of a failed check stays among the fields, as a text."""
    errors = {}
    for name in _ERRORS:
        if name in fields and (is_ok or _is_finite(fields[name])):
            errors[name] = real_number(name, fields.pop(name))
            if errors[name] < 0:
                raise BadEntry(f"{name} is negative")
    return errors


def _take_times(fields: dict[str, str]) -> RecordedTimes:
    require_fields(fields, [_FIGURE])
    low, high = (fields.pop(name, None) for name in _RANGE)
    if (low is None) != (high is None):
        raise BadEntry(f"of {_RANGE[0]} and {_RANGE[1]} only one is given")
    least = fields.get("min_ms")
    times = RecordedTimes(
        unit="ms",
        timer=Timer.EVENT,
        statistic=Statistic.MEDIAN if low is None else Statistic.MEDIAN_OF_PROCESS_MEDIANS,
        median=fields.pop(_FIGURE),
        low=low,
        high=high,
    )
    checked_times(times)
    if least is not None and times.median_us is not None:
        try:
            least_us = exact_us(least, "ms")
        except ValueError as error:
            raise BadEntry(f"min_ms: {error}") from error
        if least_us > times.median_us:
            raise BadEntry(f"min_ms {least} is above {_FIGURE} {times.median}")
    return times


def _take_shape(fields: dict[str, str]) -> str | None:
    text = fields.pop("shape", None)
    sizes = [str(whole_number(name, fields[name])) for name in _SIZES if name in fields]
    stated = "x".join(sizes) if len(sizes) == len(_SIZES) else None
    if text is None and stated is None:
        return None
    shape = checked_shape(text if text is not None else str(stated))
    if stated is not None:
        if checked_shape(stated) != shape:
            raise BadEntry(f"shape {shape} contradicts {' and '.join(_SIZES)}, {stated}")
        for name in _SIZES:
            del fields[name]
    return shape


def _take_protocol(fields: dict[str, str]) -> dict[str, Plain]:
    protocol: dict[str, Plain] = {}
    for name, ours in _COUNTS.items():
        if name in fields:
            protocol[ours] = whole_number(name, fields.pop(name))
            if protocol[ours] < 0:
                raise BadEntry(f"{name} is negative")
    protocol.update({name: typed(fields.pop(name)) for name in _CHOICES if name in fields})
    return protocol
