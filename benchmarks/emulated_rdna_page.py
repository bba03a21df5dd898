"""The page about emulated runs: what ``emulated_rdna.py`` records, and its Markdown table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.workload import parse_shape
from tuner.operator import Operator

ARCHITECTURES = ("gfx1201", "gfx1100")
SCHEDULES = ("forward", "reverse", "random")
INPUT_SEED = 20260719
SCHEDULE_SEED = 1
# These constraints say that a config is pointless, not that it is wrong: it is run here.
POINTLESS = frozenset({"loop_needed"})


@dataclass(frozen=True, slots=True)
class Record:
    """One config on one shape: which schedules passed, or what went wrong."""

    architecture: str
    shape: str
    run_shape: str
    implementation: str
    config: str
    is_default: bool
    compiler: str
    binary_hash: str
    registers: int | None
    shared_bytes: int | None
    passed: list[str]
    max_abs_error: float | None
    instructions: int | None
    seconds: float
    race: str
    failure: str
    date: str
    dtype: str = "float32"  # records from before there were others have no such field

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two records the same work."""
        return (self.architecture, self.shape, self.dtype, self.implementation, self.config)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of earlier runs; a half-written last line is left out."""
    if path.is_file():
        for line in path.read_text().splitlines():
            if line.endswith("}"):
                yield Record(**json.loads(line))


PAGE = """\
# {operator} on an emulated RDNA instruction set

**This is not a run on AMD hardware, and it says nothing of speed.** The machine code that the
compilers make for gfx1201 and gfx1100 was executed by an instruction emulator on a CPU. What it
shows: the code computes the right values under three wave schedules, with checks for accesses
out of bounds, races, reads of LDS that nobody wrote, and diverging barriers. What it can't show:
times, caches, occupancy, missing waits for memory, and the approximations of real hardware.

- Date: {dates} (UTC)
- Command: `{command}`
- Compilers: {compilers}
- HIP went through clang with the project's own header in place of ROCm's headers and device
  libraries: the code is close to hiprtc's, not equal to it. A HIP code object holds all kernels
  of its file.
- Input: case `{case}`, seed {seed}. The output is filled with NaN before each run, and all of it
  is compared with the float64 reference, within the operator's tolerance: {tolerances}.
- Schedules: {schedules} order of a workgroup's waves between barriers (random seed {order_seed}).
- Configs: the default (first of each group), then some from the space's first to its last. The
  constraint {pointless} is set aside: it tells that a config is pointless, not that it is wrong.
- An implementation is run where its default is allowed. Scratch is 0 before and after each run.
- Where "run" has fewer rows than "shape", the other rows were not run.
- Result: {good} of {total} configs passed all schedules, {clean} of them with all checks on.
{races}{notes}
Max abs error is the largest of all schedules. Wave instructions are those of one run. VGPRs are
the compiler's figure. LDS is that of a workgroup, static and dynamic. "binary" is the start of
the code object's SHA-256. Of an implementation of several launches, instructions are summed,
VGPRs and LDS are the most of them, and the hash is that of all their hashes.
"""

RACES = """\
- "race check off": the emulator saw two waves write one LDS location with no barrier between.
  In these configs a workgroup has more threads than an array of it has elements; Triton then keeps
  copies of an element in several waves, and these write what the first wave writes. The table
  shows the run without that check; the output was the same bit for bit in every order.
"""

HEADER = """
## {architecture}

| shape | run | dtype | implementation | config | passed | max abs error | wave instructions | VGPRs | LDS bytes | binary |
|---|---|---|---|---|---|---|---|---|---|---|
"""  # noqa: E501 - one line of the table


def render(operator: Operator, records: list[Record], command: str, notes: list[str]) -> str:
    """Return the Markdown page."""
    names = [each.name for each in operator.implementations]
    records = sorted(
        records,
        key=lambda each: (
            ARCHITECTURES.index(each.architecture), math.prod(parse_shape(each.shape)),
            list(operator.tolerances).index(each.dtype), names.index(each.implementation),
            not each.is_default,
        ),
    )  # fmt: skip
    good = [each for each in records if not each.failure]
    dates = sorted({each.date for each in records})
    page = PAGE.format(
        operator=operator.name,
        dates=" to ".join(sorted({dates[0], dates[-1]})),
        command=command,
        compilers="; ".join(sorted({each.compiler for each in records if each.compiler})),
        case=operator.cases[0].name,
        seed=INPUT_SEED,
        tolerances="; ".join(
            f"{dtype}: absolute {each.absolute:.3g}, relative {each.relative:.3g}"
            for dtype, each in operator.tolerances.items()
        ),
        schedules=", ".join(SCHEDULES),
        order_seed=SCHEDULE_SEED,
        pointless=", ".join(sorted(POINTLESS)),
        good=len(good),
        total=len(records),
        clean=sum(not each.race for each in good),
        notes="".join(f"- {each}\n" for each in notes),
        races=RACES if any(each.race for each in records) else "",
    )
    for architecture in ARCHITECTURES:
        page += HEADER.format(architecture=architecture)
        page += "".join(_row(each) for each in records if each.architecture == architecture)
    return page


def _row(record: Record) -> str:
    passed = f"{len(record.passed)} of {len(SCHEDULES)}"
    passed += ", race check off" if record.race else ""
    passed += f": {record.failure}" if record.failure else ""
    cells = (
        record.shape, record.run_shape, record.dtype, record.implementation, record.config, passed,
        _cell(record.max_abs_error, ".2g"), _cell(record.instructions, "d"),
        _cell(record.registers, "d"), _cell(record.shared_bytes, "d"),
        record.binary_hash[:12] or "unavailable",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |\n"


def _cell(value: float | None, form: str) -> str:
    return "unavailable" if value is None else format(value, form)
