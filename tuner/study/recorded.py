"""Evidence files: TOML with ``[[recorded]]`` rows in, records out, or one line that says why not.

What several rows share stands once, at the top. Figures are strings, so that every digit stays.
"""

from __future__ import annotations

import tomllib
from datetime import date
from typing import Annotated
from typing import Any
from typing import Literal
from typing import TypeAlias

from pydantic import AfterValidator
from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import Field
from pydantic import ValidationError

from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import exact_us
from tuner.domain.evidence import RecordedTimes
from tuner.domain.evidence import Statistic
from tuner.domain.evidence import Timer
from tuner.domain.evidence import Unit
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.patterns import EVIDENCE_PATTERN
from tuner.domain.workload import parse_shape
from tuner.domain.workload import shape_text
from tuner.errors import UsageError
from tuner.study.spec_errors import check_depth
from tuner.study.spec_errors import KeyPath
from tuner.study.spec_errors import line_of
from tuner.study.spec_errors import nearest
from tuner.study.spec_errors import problem
from tuner.study.spec_errors import shown
from tuner.study.spec_errors import SpecSource
from tuner.study.spec_errors import translate
from tuner.study.spec_model import Parameter
from tuner.study.spec_model import Scalar32
from tuner.study.spec_model import SchemaVersion
from tuner.study.spec_model import Shape
from tuner.study.spec_model import Value
from tuner.study.spec_model import Word

MAX_TEXT = 1000
# Scanning for the line of each row takes the most: a second for a file of this size.
MAX_FILE_CHARACTERS = 256_000


def _check_line(text: str) -> str:
    if not text.isprintable():
        raise problem("holds a control character", "write one line of plain text")
    return text


def _check_figure(text: str) -> str:
    try:
        exact_us(text, "us")
    except ValueError as error:
        raise problem(str(error), 'write it as the source does, such as "0.058440"') from error
    return text


def _check_day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise problem(f"{shown(text)} is no day", "write it as 2026-07-19") from error


Line: TypeAlias = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_check_line)]
Figure: TypeAlias = Annotated[
    str, Field(json_schema_extra={"pattern": r"^[0-9.eE+-]{1,64}$"}), AfterValidator(_check_figure)
]
Day: TypeAlias = Annotated[
    str,
    Field(json_schema_extra={"pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}),
    AfterValidator(_check_day),
]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class RerunTable(_Table):
    """Which of this program's implementations and configs does the same."""

    implementation: Word = Field(description="Name of the implementation")
    config: dict[Parameter, Value] = Field(description="Its parameters")


class _Shared(_Table):
    """What a row may state, and what the file may state for all its rows."""

    operator: Word | None = Field(None, description="Name of the operator")
    shape: Shape | None = Field(None, description="Sizes joined by x")
    dtype: Word | None = Field(None, description="Element type of all arrays")
    scalars: dict[Parameter, Scalar32] = Field(default_factory=dict, description="Scalar arguments")
    environment: dict[Word, Line] = Field(
        default_factory=dict,
        description="Machine and toolchain, as far as the source states them",
    )
    protocol: dict[Parameter, Value] = Field(
        default_factory=dict, description="Measurement, as far as the source states it"
    )
    measured_on: Day | None = Field(None, description="Day, as 2026-07-19")
    unit: Literal["s", "ms", "us", "ns"] | None = Field(None, description="Of all figures")
    timer: Literal["event", "kernel_trace", "unstated"] | None = Field(
        None, description="What the times were read from"
    )
    statistic: Literal["median", "median_of_process_medians", "mean"] | None = Field(
        None, description="What the figures are of the single times"
    )


class RecordedTable(_Shared):
    """One result."""

    implementation: Line = Field(min_length=1, description="The source's name of the kernel")
    language: Word | None = Field(None, description="hip, triton, ...")
    runtime: Word | None = Field(None, description="What launched it")
    config: dict[Parameter, Value] = Field(
        default_factory=dict, description="Parameters, with the source's own names"
    )
    median: Figure | None = Field(None, description="The figure, in quotes")
    low: Figure | None = Field(None, description="Smallest process median, in quotes")
    high: Figure | None = Field(None, description="Largest process median, in quotes")
    samples: list[Figure] = Field(
        default_factory=list, max_length=100_000, description="Single times, each in quotes"
    )
    outcome: Literal[tuple(each.value for each in Outcome)] = Field(  # type: ignore[valid-type]
        "ok", description="How it ended"
    )
    message: Line = Field("", description="Why it is not ok")
    max_abs_error: float | None = Field(None, ge=0, description="Largest absolute error")
    max_rel_error: float | None = Field(None, ge=0, description="Largest relative error")
    note: Line = Field("", description="Anything else the source says of it")
    rerun: RerunTable | None = Field(None, description="What to run to do it again")
    faster_than: list[Line] = Field(
        default_factory=list,
        max_length=100,
        description="Implementations of this file that it is compared with",
    )


class EvidenceTable(_Shared):
    """Results that others measured, as their source states them."""

    schema_version: SchemaVersion = Field(alias="schema", description="Version of this format")
    name: str = Field(pattern=EVIDENCE_PATTERN, description="Name of the set")
    description: Line = Field("", description="One line for people")
    source: Line = Field(min_length=1, description="Where the figures are published")
    recorded: list[RecordedTable] = Field(min_length=1, max_length=10_000, description="Rows")


def parse_recorded(text: str, origin: str) -> tuple[str, tuple[EvidenceRecord, ...]]:
    """Return the name of the set in an evidence file, and its records.

    Args:
        text: TOML.
        origin: What to call it in messages, usually its path.

    Raises:
        UsageError: ``FILE:LINE: key 'a.b': what is wrong``, with the remedy as its hint.
    """
    source = SpecSource(origin, text)
    if len(text) > MAX_FILE_CHARACTERS:
        raise UsageError(f"{origin}: larger than {MAX_FILE_CHARACTERS} characters")
    check_depth(source)
    try:
        plain = tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, and int() of more than 4300 digits
        raise source.syntax_fault(error) from error
    try:
        file = EvidenceTable.model_validate(plain)
    except ValidationError as error:
        raise translate(source, error.errors(include_url=False), _known_keys(plain)) from error
    lines = [line_of(text, ("recorded", index)) for index in range(len(file.recorded))]
    if len(set(lines)) < len(lines):
        raise source.fault(
            ("recorded",), "several rows are on one line", "write each under [[recorded]]"
        )
    _check_comparisons(file, source)
    return file.name, tuple(_record(file, index, line, source) for index, line in enumerate(lines))


def evidence_schema() -> dict[str, Plain]:
    """Return the JSON Schema of evidence files; ``studies/evidence.schema.json`` is a copy."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **EvidenceTable.model_json_schema(by_alias=True),
        "title": "tuner evidence",
    }


def _known_keys(plain: dict[str, Any]) -> dict[KeyPath, list[str]]:
    rows = plain.get("recorded")
    tables: dict[KeyPath, type[BaseModel]] = {(): EvidenceTable}
    for index in range(len(rows) if isinstance(rows, list) else 0):
        tables["recorded", index] = RecordedTable
        tables["recorded", index, "rerun"] = RerunTable
    return {
        path: [info.alias or name for name, info in table.model_fields.items()]
        for path, table in tables.items()
    }


def _check_comparisons(file: EvidenceTable, source: SpecSource) -> None:
    names = [row.implementation for row in file.recorded]
    for index, row in enumerate(file.recorded):
        for other in row.faster_than:
            path = ("recorded", index, "faster_than")
            if names.count(other) != 1:
                raise source.fault(
                    path,
                    f"{shown(other)} is the implementation of {names.count(other)} rows",
                    nearest(other, names),
                )


def _record(file: EvidenceTable, index: int, line: int, source: SpecSource) -> EvidenceRecord:
    row = file.recorded[index]
    is_ok = row.outcome == Outcome.OK.value
    times = _times(file, row)
    if is_ok and times.median is None and not times.samples:
        raise source.fault(("recorded", index), "no median and no samples", "add one, or outcome")
    if not is_ok and (times.median or times.samples or not row.message):
        raise source.fault(
            ("recorded", index), "not ok, so it needs a message and has no times", "see its rows"
        )
    range_us, median_us = times.range_us, times.median_us
    if (row.low is None) != (row.high is None) or (
        range_us and median_us and not range_us[0] <= median_us <= range_us[1]
    ):
        raise source.fault(
            ("recorded", index), "low, median and high do not go together", "check the figures"
        )
    shape = row.shape or file.shape
    return EvidenceRecord(
        line=line,
        outcome=Outcome(row.outcome),
        message=row.message,
        operator=row.operator or file.operator,
        implementation=row.implementation,
        language=row.language,
        runtime=row.runtime,
        shape=None if shape is None else shape_text(parse_shape(shape)),
        dtype=row.dtype or file.dtype,
        scalars={**file.scalars, **row.scalars},
        config=dict(row.config),
        protocol={**file.protocol, **row.protocol},
        environment={**file.environment, **row.environment},
        times=times,
        max_abs_error=row.max_abs_error,
        max_rel_error=row.max_rel_error,
        measured_on=row.measured_on or file.measured_on,
        extra=_extra(file, row),
    )


def _times(file: EvidenceTable, row: RecordedTable) -> RecordedTimes:
    unit: Unit = row.unit or file.unit or "ms"
    return RecordedTimes(
        unit=unit,
        timer=Timer(row.timer or file.timer or "unstated"),
        statistic=Statistic(row.statistic or file.statistic or "median"),
        median=row.median,
        low=row.low,
        high=row.high,
        samples=tuple(row.samples),
    )


def _extra(file: EvidenceTable, row: RecordedTable) -> dict[str, Plain]:
    extra: dict[str, Plain] = {"source": file.source}
    if file.description:
        extra["description"] = file.description
    if row.note:
        extra["note"] = row.note
    if row.rerun is not None:
        extra["rerun"] = row.rerun.model_dump()
    if row.faster_than:
        extra["faster_than"] = list(row.faster_than)
    return extra
