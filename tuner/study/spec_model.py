"""The format of study files as pydantic models, from which the published JSON Schema is made."""

from __future__ import annotations

from typing import Annotated
from typing import Any
from typing import Literal
from typing import TypeAlias

from pydantic import AfterValidator
from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import Field
from pydantic import PlainValidator
from pydantic import WithJsonSchema

from tuner.domain.device import DEVICE_NAMES
from tuner.domain.device import DEVICE_PATTERN
from tuner.domain.identity import Plain
from tuner.domain.identity import Scalar
from tuner.domain.patterns import PARAMETER_PATTERN
from tuner.domain.patterns import WORD_PATTERN
from tuner.domain.protocol import Limits
from tuner.domain.protocol import Protocol
from tuner.domain.protocol import QuickStage
from tuner.domain.workload import parse_shape
from tuner.errors import UsageError
from tuner.study.spec_errors import KeyPath
from tuner.study.spec_errors import problem
from tuner.study.spec_errors import shown

MAX_ROW_PADDING = 2**31 - 1
SCHEMA_VERSION = 1
MAX_INT = 2**63 - 1
MAX_FLOAT32 = 3.4028234663852886e38  # scalars reach kernels as float32
MAX_TEXT = 200

_PROTOCOL = Protocol()
_QUICK = QuickStage()
_LIMITS = Limits()


def _check_value(value: Any) -> Scalar:
    """Accept a parameter's value; a bool stays a bool, and 256.0 is not 256."""
    if type(value) is bool:
        return value
    if type(value) is int and abs(value) <= MAX_INT:
        return value
    if type(value) is float and abs(value) < float("inf"):
        return value
    if type(value) is str and len(value) <= MAX_TEXT and value.isprintable():
        return value
    raise problem(
        f"{shown(value)} can't be a parameter's value",
        "give a whole number, a finite number, true, false or a short string",
    )


def _check_schema(value: Any) -> int:
    if type(value) is int and value == SCHEMA_VERSION:
        return value
    raise problem(
        f"must be {SCHEMA_VERSION}, not {shown(value)}",
        f"this program reads version {SCHEMA_VERSION} of the format",
    )


def _check_shape(text: str) -> str:
    try:
        parse_shape(text)
    except UsageError as error:
        raise problem(error.message, error.hint) from error
    return text


def _check_shapes(texts: list[str]) -> list[str]:
    seen: dict[tuple[int, ...], str] = {}
    for text in texts:
        shape = parse_shape(text)
        if shape in seen:
            raise problem(f"{shown(text)} is listed twice", "list each shape once")
        seen[shape] = text
    return texts


def _check_values(values: list[Scalar]) -> list[Scalar]:
    seen: set[tuple[type, Scalar]] = set()
    for value in values:
        if (type(value), value) in seen:
            raise problem(f"{shown(value)} is listed twice", "list each value once")
        seen.add((type(value), value))
    return values


def _check_space(space: dict[str, Any]) -> dict[str, Any]:
    if not space:
        raise problem(
            "names no implementation", "leave [space] out to take all, or add [space.NAME]"
        )
    return space


def _check_launches(value: Any) -> int | None:
    if value == "auto":
        return None
    if type(value) is int and 1 <= value <= 1_000_000:
        return value
    raise problem(
        f'must be "auto" or a whole number from 1 to 1000000, not {shown(value)}',
        'with "auto" a sample is made long enough for the timer',
    )


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise problem("holds a control character", "write one line of plain text")
    return text


SchemaVersion: TypeAlias = Annotated[
    int, PlainValidator(_check_schema), WithJsonSchema({"const": SCHEMA_VERSION})
]
Value: TypeAlias = Annotated[
    Any,
    PlainValidator(_check_value),
    WithJsonSchema({"type": ["boolean", "integer", "number", "string"]}),
]
Values: TypeAlias = Annotated[
    list[Value],
    Field(min_length=1, max_length=4096, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_check_values),
]
Shape: TypeAlias = Annotated[
    str,
    Field(json_schema_extra={"pattern": r"^[0-9]{1,19}([xX][0-9]{1,19})*$"}),
    AfterValidator(_check_shape),
]
Launches: TypeAlias = Annotated[
    Any,
    PlainValidator(_check_launches),
    WithJsonSchema(
        {"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 1_000_000}]}
    ),
]
Word: TypeAlias = Annotated[str, Field(pattern=WORD_PATTERN)]
Parameter: TypeAlias = Annotated[str, Field(pattern=PARAMETER_PATTERN)]
Scalar32: TypeAlias = Annotated[float, Field(ge=-MAX_FLOAT32, le=MAX_FLOAT32)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=86_400)]


class _Table(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
    )


class SearchTable(_Table):
    """What proposes configs and how many."""

    sampler: Literal["auto", "exhaustive", "guided", "random", "tpe", "gp"] = Field(
        "auto",
        description="auto: exhaustive where exhaustive_limit allows it, else guided",
    )
    seed: int = Field(0, ge=0, le=2**32 - 1, description="Seed of the sampler")
    exhaustive_limit: int = Field(
        64,
        ge=0,
        le=100_000,
        description="auto tries every config where at most so many are allowed, "
        "per workload and implementation",
    )
    trials: int = Field(
        40,
        ge=1,
        le=100_000,
        description="Configs per workload and implementation where not all are tried",
    )
    finalists: int = Field(
        3,
        ge=1,
        le=100,
        description="Most configs per workload measured by the full protocol; each "
        "implementation's best is always one of them",
    )
    within: float = Field(
        1.25,
        ge=1,
        le=1000,
        description="How many times as long as the fastest a finalist may have taken in the "
        "quick stage",
    )


class ProtocolTable(_Table):
    """The full measurement of the finalists."""

    warmup: int = Field(
        _PROTOCOL.warmup,
        ge=0,
        le=10_000,
        description="Untimed samples before the timed ones, per process",
    )
    samples: int = Field(
        _PROTOCOL.samples, ge=1, le=100_000, description="Timed samples per process"
    )
    processes: int = Field(_PROTOCOL.processes, ge=1, le=100, description="Fresh processes")
    launches_per_sample: Launches = Field(
        "auto",
        validate_default=True,
        description="Kernel launches between two timer readings; auto: the fewest with which a "
        "sample lasts target_sample_us",
    )
    target_sample_us: float = Field(
        _PROTOCOL.target_sample_us,
        gt=0,
        le=10_000_000,
        description="Length of a sample that launches_per_sample = auto aims at, microseconds",
    )
    cache: Literal["hot", "cold"] = Field(
        _PROTOCOL.cache,
        description="hot: the same buffers again and again; cold: the cache is flushed before "
        "each sample and its launches use different buffers",
    )
    submission: Literal["auto", "graph", "stream"] = Field(
        _PROTOCOL.submission,
        description="graph: launches are replayed from a device graph; stream: one by one; "
        "auto: graph where the device profits from it",
    )
    input_case: str = Field(
        _PROTOCOL.input_case,
        max_length=MAX_TEXT,
        description="Which of the operator's input cases is timed; empty: its first",
    )
    input_seed: int = Field(
        _PROTOCOL.input_seed, ge=0, le=MAX_INT, description="Seed of the inputs"
    )


class QuickTable(_Table):
    """The short measurement, in a warm worker, that ranks configs before the finals."""

    warmup: int = Field(_QUICK.warmup, ge=0, le=10_000, description="Untimed samples")
    samples: int = Field(_QUICK.samples, ge=1, le=100_000, description="Timed samples")
    target_sample_us: float = Field(
        _QUICK.target_sample_us,
        gt=0,
        le=10_000_000,
        description="Length of a sample that launches_per_sample = auto aims at, microseconds",
    )


class LimitsTable(_Table):
    """Deadlines of one trial, and when to stop the study early."""

    build_timeout_s: Seconds = Field(
        _LIMITS.build_timeout_s, description="Seconds a kernel may take to compile"
    )
    run_timeout_s: Seconds = Field(
        _LIMITS.run_timeout_s, description="Seconds a trial may take to validate and measure"
    )
    budget_trials: int | None = Field(
        None, ge=1, le=MAX_INT, description="Stop after so many trials of one run"
    )
    budget_s: float | None = Field(
        None, gt=0, le=31_536_000, description="Stop after so many seconds of one run"
    )


class StudyFile(_Table):
    """One question: which config of which implementation is best for these workloads."""

    schema_version: SchemaVersion = Field(alias="schema", description="Version of this format")
    name: Word = Field(description="Name of the study")
    description: Annotated[str, AfterValidator(_check_printable)] = Field(
        "", max_length=1000, description="One line for people"
    )
    operator: Word = Field(description="Name of the operator: a folder of kernels")
    device: str = Field(
        "auto",
        pattern=DEVICE_PATTERN,
        description=f"{DEVICE_NAMES}; --device wins over it",
    )
    shapes: Annotated[list[Shape], AfterValidator(_check_shapes)] = Field(
        min_length=1,
        max_length=1000,
        description="Shapes to tune, sizes joined by x, in the order of the operator's dimensions",
    )
    dtype: Word = Field("float32", description="Element type of all arrays")
    row_padding: int = Field(
        0,
        ge=0,
        le=MAX_ROW_PADDING,
        description="Elements between the end of a row and the next one, in arrays of rows",
    )
    scalars: dict[Parameter, Scalar32] = Field(
        default_factory=dict,
        description="Scalar arguments that differ from the operator's defaults",
    )
    space: Annotated[dict[Word, dict[Parameter, Values]], AfterValidator(_check_space)] | None = (
        Field(
            None,
            description="Which implementations take part, and values of their parameters that "
            "replace the operator's own; absent: all of them, with their own values",
        )
    )
    search: SearchTable = Field(default_factory=SearchTable)
    protocol: ProtocolTable = Field(default_factory=ProtocolTable)
    quick: QuickTable = Field(default_factory=QuickTable)
    limits: LimitsTable = Field(default_factory=LimitsTable)


def known_keys() -> dict[KeyPath, list[str]]:
    """Return the keys of each table that has a fixed set of them."""
    tables: dict[KeyPath, type[BaseModel]] = {
        (): StudyFile,
        ("search",): SearchTable,
        ("protocol",): ProtocolTable,
        ("quick",): QuickTable,
        ("limits",): LimitsTable,
    }
    return {
        path: [info.alias or name for name, info in table.model_fields.items()]
        for path, table in tables.items()
    }


def study_schema() -> dict[str, Plain]:
    """Return the JSON Schema of study files, for editors and other programs.

    It is published as ``studies/study.schema.json``. It can't say everything: that shapes are
    not listed twice in other spellings, and what only the operator knows.
    """
    schema = StudyFile.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "tuner study",
    }
