"""Reads what Kernel Tuner writes: T4 results, and cache files that may have been left open.

Its ``time`` is the mean of a few runs in milliseconds; where the single runs are there, they are
taken as the samples. Which timer gave them is not stated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import get_args

from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import RecordedTimes
from tuner.domain.evidence import Statistic
from tuner.domain.evidence import Unit
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.report.importers.parsed import BadEntry
from tuner.report.importers.parsed import BadLine
from tuner.report.importers.parsed import checked_config
from tuner.report.importers.parsed import checked_text
from tuner.report.importers.parsed import day_of
from tuner.report.importers.parsed import LineProblem
from tuner.report.importers.parsed import ParsedFile
from tuner.report.importers.parsed import require_shallow
from tuner.report.importers.parsed import shown
from tuner.report.importers.parsed import text_of
from tuner.report.importers.stated import checked_times

_INVALIDITY = {
    "correct": Outcome.OK,
    "timeout": Outcome.TIMEOUT,
    "compile": Outcome.COMPILE_ERROR,
    "runtime": Outcome.LAUNCH_ERROR,
    "correctness": Outcome.WRONG_RESULT,
    "constraints": Outcome.SKIPPED,
}
_ERROR_CONFIGS = {
    "InvalidConfig": Outcome.SKIPPED,
    "CompilationFailedConfig": Outcome.COMPILE_ERROR,
    "RuntimeFailedConfig": Outcome.LAUNCH_ERROR,
}


class _Written(float):
    """A number that remembers how it was written."""

    __slots__ = ("text",)
    text: str


def read_results(content: bytes) -> ParsedFile:
    """Read results in the T4 format."""
    try:
        document = _load(text_of(content))
    except BadLine as error:
        return _unreadable(error)
    results = document.get("results")
    if not isinstance(results, list):
        return _unreadable(BadLine(1, "`results` is not a list"))
    return _entries(results, _result_record)


def read_cache(content: bytes) -> ParsedFile:
    """Read a cache file. While Kernel Tuner runs, or after a kill, its end is missing."""
    problems: list[LineProblem] = []
    try:
        text = text_of(content).strip()
        document, cut = _load_open(text)
    except BadLine as error:
        return _unreadable(error)
    cache, names = document.get("cache"), document.get("tune_params_keys")
    if not isinstance(cache, dict):
        return _unreadable(BadLine(1, "`cache` is not an object"))
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return _unreadable(BadLine(1, "`tune_params_keys` is not a list of names"))
    if cut:
        problems.append(LineProblem(len(cache) + 1, "the last entry is cut off"))
    found = _entries(
        cache.values(), lambda number, entry: _cache_record(number, entry, document, names)
    )
    return ParsedFile(found.records, (*found.problems, *problems), counts="entry")


def _entries(
    entries: Iterable[Plain], make: Callable[[int, dict[str, Plain]], EvidenceRecord]
) -> ParsedFile:
    records: list[EvidenceRecord] = []
    problems: list[LineProblem] = []
    for number, entry in enumerate(entries, start=1):
        try:
            if not isinstance(entry, dict):
                raise BadEntry("not an object")
            require_shallow(entry)
            records.append(make(number, dict(entry)))
        except BadEntry as error:
            problems.append(LineProblem(number, str(error)))
    return ParsedFile(tuple(records), tuple(problems), counts="entry")


def _unreadable(error: BadLine) -> ParsedFile:
    return ParsedFile((), (error.problem,))


def _result_record(number: int, entry: dict[str, Plain]) -> EvidenceRecord:
    config = entry.pop("configuration", None)
    if not isinstance(config, dict):
        raise BadEntry("`configuration` is not an object")
    invalidity = entry.pop("invalidity", None)
    if not isinstance(invalidity, str) or invalidity not in _INVALIDITY:
        raise BadEntry(f"invalidity is {shown(invalidity)}, not {', '.join(_INVALIDITY)}")
    outcome, message = _INVALIDITY[invalidity], f"invalidity: {invalidity}"
    if outcome is Outcome.OK and entry.get("correctness") in (0, False):
        outcome, message = Outcome.WRONG_RESULT, "correctness: 0"
    return EvidenceRecord(
        line=number,
        outcome=outcome,
        message="" if outcome is Outcome.OK else message,
        config=checked_config(config),
        times=_result_times(entry) if outcome is Outcome.OK else RecordedTimes(),
        measured_on=day_of(str(entry.get("timestamp", ""))),
        extra=_extra(entry),
    )


def _result_times(entry: dict[str, Plain]) -> RecordedTimes:
    """Return the times in the unit that the measurement of the objective states."""
    objectives, measurements = entry.get("objectives"), entry.get("measurements")
    names = [*(objectives if isinstance(objectives, list) else ()), "time"]
    listed = measurements if isinstance(measurements, list) else []
    for name in names:
        for each in listed:
            if isinstance(each, dict) and each.get("name") == name:
                unit = each.get("unit")
                if isinstance(unit, str) and unit in get_args(Unit):
                    times = entry.get("times")
                    runs = times.pop("runtimes", None) if isinstance(times, dict) else None
                    return _times(each.get("value"), runs, unit)  # type: ignore[arg-type]
    raise BadEntry("no measurement of the objective, or of `time`, with a unit of time")


def _cache_record(
    number: int, entry: dict[str, Plain], document: dict[str, Plain], names: list[str]
) -> EvidenceRecord:
    missing = next((name for name in names if name not in entry), None)
    if missing is not None:
        raise BadEntry(f"parameter {shown(missing)} has no value")
    config = checked_config({name: entry.pop(name) for name in names})
    # A failure stands where a number would: as the objective, the time, or under its own name.
    places = ("__error__", document.get("objective"), "time")
    stated = (entry.get(place) for place in places if isinstance(place, str))
    failure = next((each for each in stated if isinstance(each, str)), None)
    outcome = Outcome.OK if failure is None else _ERROR_CONFIGS.get(failure)
    if outcome is None:
        raise BadEntry(f"the result is {shown(failure)}")
    times = RecordedTimes()
    if outcome is Outcome.OK:
        times = _times(entry.pop("time", None), entry.pop("times", None), "ms")
    device, kernel = document.get("device_name"), document.get("kernel_name")
    extra = _extra(entry)
    if "problem_size" in document:
        extra["problem_size"] = _extra({"problem_size": document["problem_size"]})["problem_size"]
    return EvidenceRecord(
        line=number,
        outcome=outcome,
        message=failure or "",
        implementation=checked_text("kernel_name", kernel) if isinstance(kernel, str) else None,
        config=config,
        environment={"name": checked_text("device_name", device)}
        if isinstance(device, str)
        else {},
        times=times,
        measured_on=day_of(str(entry.get("timestamp", ""))),
        extra=extra,
    )


def _times(figure: Plain, runs: Plain, unit: Unit) -> RecordedTimes:
    if isinstance(runs, list) and runs:
        samples = tuple(_text("a run", each) for each in runs)
        return checked_times(RecordedTimes(unit, samples=samples))
    text = _text("the time", figure)
    return checked_times(RecordedTimes(unit, statistic=Statistic.MEAN, median=text))


def _text(name: str, value: Plain) -> str:
    """Return a number as it was written."""
    if isinstance(value, _Written):
        return value.text
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadEntry(f"{name} is {shown(value)}, not a number")


def _extra(entry: dict[str, Plain]) -> dict[str, Plain]:
    require_shallow(entry)
    if not _is_text_sound(entry):
        raise BadEntry("a text is not plain text")
    return entry


def _is_text_sound(value: Plain) -> bool:
    """Tell whether all texts can be stored: JSON's escapes can write half a character."""
    if isinstance(value, dict):
        return all(_is_text_sound(part) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return all(_is_text_sound(part) for part in value)
    return not isinstance(value, str) or value.isprintable()


def _load(text: str) -> dict[str, Plain]:
    """Load a JSON object.

    Raises:
        BadLine: It is none.
    """
    try:
        # NaN is no JSON, but Python writes it; as a text it is refused wherever it matters.
        document = json.loads(text, parse_float=_written, parse_constant=str)
    except json.JSONDecodeError as error:
        raise BadLine(error.lineno, f"not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise BadLine(1, "nested too deep") from error
    except ValueError as error:  # an int of more digits than Python converts
        raise BadLine(1, "a number is too long") from error
    if not isinstance(document, dict):
        raise BadLine(1, "not a JSON object")
    return document


def _load_open(text: str) -> tuple[dict[str, Any], bool]:
    """Load a cache file; also tell whether its last entry had to be cut off.

    Raises:
        BadLine: It is no cache file, whole or left open.
    """
    try:
        return _load(text), False
    except BadLine as error:
        whole = error
    last_line = text.rfind("\n")
    for end, cut in ((len(text), False), (max(last_line, 0), True)):
        body = text[:end].rstrip().removesuffix(",")
        for closing in ("}}", "}"):
            try:
                return _load(body + closing), cut
            except BadLine:
                continue
    raise whole


def _written(text: str) -> float | str:
    value = _Written(text)
    value.text = text
    return value if math.isfinite(value) else text
