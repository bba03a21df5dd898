"""What parent and worker say to each other: JSON lines on a private pipe, versioned.

Strict JSON both ways: a NaN in a message is an error here, not a surprise in a database.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from dataclasses import dataclass
from functools import cache
from typing import Any
from typing import Literal
from typing import TypeAlias

from pydantic import TypeAdapter

from tuner.domain.device import DeviceFacts
from tuner.domain.device import DeviceListing
from tuner.domain.environment import Environment
from tuner.domain.job import BuildJob
from tuner.domain.job import CompileJob
from tuner.domain.job import ConfirmJob
from tuner.domain.job import ControlJob
from tuner.domain.job import ScreenJob
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Stage
from tuner.domain.records import BuiltAhead
from tuner.domain.records import CompileReport
from tuner.domain.records import TrialReport

MESSAGE_VERSION = 1


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker must know besides its device.

    Attributes:
        cache_dir: Folder of compiled kernels.
        cpu_wave_size: Wave size of HIP kernels on the CPU.
        cpu_compiler: C++ compiler of the CPU device; "" finds one.
    """

    cache_dir: str
    cpu_wave_size: int = 32
    cpu_compiler: str = ""


@dataclass(frozen=True, slots=True)
class OpenDevice:
    """Open a device; answered by ``Ready`` or ``WorkerError``."""

    device_id: str
    options: WorkerOptions
    kind: Literal["open"] = "open"


@dataclass(frozen=True, slots=True)
class LoadLanguages:
    """Load what builds kernels of these languages, before one is asked for. Not answered."""

    languages: tuple[str, ...]
    kind: Literal["load"] = "load"


@dataclass(frozen=True, slots=True)
class ListDevices:
    """List all devices; answered by ``Devices``."""

    options: WorkerOptions
    kind: Literal["list"] = "list"


@dataclass(frozen=True, slots=True)
class RunTrial:
    """Answered by ``StageBegun`` messages, then ``Done`` with one report."""

    job: TrialJob
    kind: Literal["trial"] = "trial"


@dataclass(frozen=True, slots=True)
class RunConfirmation:
    """Answered by ``StageBegun`` messages, then ``Done`` with a report for each kernel."""

    job: ConfirmJob
    kind: Literal["confirm"] = "confirm"


@dataclass(frozen=True, slots=True)
class RunCompile:
    """Answered by ``Compiled``. Needs no open device."""

    job: CompileJob
    kind: Literal["compile"] = "compile"


@dataclass(frozen=True, slots=True)
class Prepare:
    """Make ready for a job, or for screenings of its problem; answered by ``Prepared``."""

    job: ConfirmJob
    screening: bool = False
    kind: Literal["prepare"] = "prepare"


@dataclass(frozen=True, slots=True)
class RunScreening:
    """Answered by ``StageBegun`` messages, then ``Done`` with a report for each kernel."""

    job: ScreenJob
    kind: Literal["screen"] = "screen"


@dataclass(frozen=True, slots=True)
class MeasureControls:
    """Answered by ``StageBegun`` messages, then ``Done`` with a report for each control."""

    job: ControlJob
    kind: Literal["controls"] = "controls"


@dataclass(frozen=True, slots=True)
class RunBuild:
    """Answered by ``Built``. Needs no open device."""

    job: BuildJob
    options: WorkerOptions
    kind: Literal["build"] = "build"


@dataclass(frozen=True, slots=True)
class Ready:
    """The device is open."""

    facts: DeviceFacts
    environment: Environment
    kind: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True)
class Devices:
    """All devices, usable or not."""

    listings: tuple[DeviceListing, ...]
    kind: Literal["devices"] = "devices"


@dataclass(frozen=True, slots=True)
class StageBegun:
    """A stage of a kernel (by position in its job) is under way from now."""

    stage: Stage
    position: int
    kind: Literal["stage"] = "stage"


@dataclass(frozen=True, slots=True)
class Done:
    """The job is done. ``device_lost``: this worker is of no more use."""

    reports: tuple[TrialReport, ...]
    device_lost: bool = False
    kind: Literal["done"] = "done"


@dataclass(frozen=True, slots=True)
class Compiled:
    """Answer to ``RunCompile``."""

    report: CompileReport
    kind: Literal["compiled"] = "compiled"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Answer to ``Prepare``."""

    kind: Literal["prepared"] = "prepared"


@dataclass(frozen=True, slots=True)
class Built:
    """Answer to ``RunBuild``."""

    report: BuiltAhead
    kind: Literal["built"] = "built"


@dataclass(frozen=True, slots=True)
class WorkerError:
    """The environment is wrong (no device, no package): the study must stop."""

    error: str
    message: str
    hint: str
    kind: Literal["error"] = "error"


Request: TypeAlias = (
    OpenDevice
    | LoadLanguages
    | ListDevices
    | RunTrial
    | Prepare
    | RunConfirmation
    | RunScreening
    | MeasureControls
    | RunCompile
    | RunBuild
)
Reply: TypeAlias = Ready | Devices | StageBegun | Done | Prepared | Compiled | Built | WorkerError

_KINDS: dict[str, type] = {
    "open": OpenDevice, "load": LoadLanguages, "list": ListDevices, "trial": RunTrial,
    "confirm": RunConfirmation, "screen": RunScreening, "prepare": Prepare,
    "controls": MeasureControls, "compile": RunCompile, "build": RunBuild,
    "ready": Ready, "devices": Devices, "stage": StageBegun, "done": Done, "prepared": Prepared,
    "compiled": Compiled, "built": Built, "error": WorkerError,
}  # fmt: skip


class BadMessage(Exception):
    """A line on the pipe is not a message of this version."""


def encode(message: Request | Reply) -> bytes:
    """Return a message as one line of strict JSON.

    Raises:
        ValueError: The message holds a NaN or an infinity.
    """
    fields = {"version": MESSAGE_VERSION, **asdict(message)}
    return json.dumps(fields, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Any:
    """Read one line.

    Raises:
        BadMessage: It is not JSON, of another version, or not of the stated kind's form.
    """
    try:
        fields = json.loads(line)
        version, kind = fields.pop("version"), fields["kind"]
        adapter = _adapter(_KINDS[kind])
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise BadMessage(f"not a worker message: {line[:80]!r}") from error
    if version != MESSAGE_VERSION:
        raise BadMessage(f"worker message version {version}, this program speaks {MESSAGE_VERSION}")
    try:
        return adapter.validate_python(fields)
    except ValueError as error:
        raise BadMessage(f"malformed {kind} message: {error}") from error


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
