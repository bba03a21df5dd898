"""Runs every implementation of an operator as RDNA machine code on an instruction emulator.

It shows that the code the compilers make for a GPU nobody has here computes the right values,
under several wave schedules and with checks that hardware does not have. It says nothing of
speed, and is not a run on AMD hardware.

The emulator is not part of this project. ``--emulator DIR`` names a folder with a module
``rdna`` that offers::

    run_hsaco(
        code,
        kernel,
        grid,
        block,
        args,
        dynamic_lds_bytes,
        arch,
        schedule="forward" | "reverse" | "random",
        seed=N,
        race=True,
    )

``grid`` counts workgroups; arrays among ``args`` are changed in place; missing trailing
arguments are null. It raises on an out-of-bounds access, a race, a read of LDS that nobody
wrote or a diverging barrier, and returns an object with ``instructions`` and ``warnings``.
Where it reports a race, the config is run again without that check: waves that hold copies of
the same data may write the same value twice. Then the output must be right, and the same bit for
bit, in every order of the waves.

Results go to ``--records`` one by one, and what is there is not run again: the work can be
stopped, or split by ``--arch`` and ``--shape``. ``--render FILE`` writes the table of all records.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from datetime import datetime
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
from emulated_rdna_page import ARCHITECTURES
from emulated_rdna_page import INPUT_SEED
from emulated_rdna_page import POINTLESS
from emulated_rdna_page import read_records
from emulated_rdna_page import Record
from emulated_rdna_page import render
from emulated_rdna_page import SCHEDULE_SEED
from emulated_rdna_page import SCHEDULES

from tuner.bench.devices.base import Array
from tuner.bench.devices.base import CodeObject
from tuner.bench.inputs import make_inputs
from tuner.bench.languages.base import code_report
from tuner.bench.languages.base import Language
from tuner.bench.languages.base import report_of_steps
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.languages.triton import TritonLanguage
from tuner.bench.validate import load_reference
from tuner.domain.device import DeviceFacts
from tuner.domain.identity import bytes_hash
from tuner.domain.identity import config_text
from tuner.domain.identity import Scalar
from tuner.domain.job import Kernel
from tuner.domain.job import Problem
from tuner.domain.records import BuildReport
from tuner.domain.space import first_violation
from tuner.domain.space import grid_configs
from tuner.domain.workload import parse_shape
from tuner.domain.workload import shape_text
from tuner.domain.workload import Workload
from tuner.errors import TrialError
from tuner.errors import TunerError
from tuner.operator import Implementation
from tuner.operator import load_operator
from tuner.operator import Operator

WAVE_SIZE = 32
SHAPES = ("1x1", "3x13", "33x257", "5x1000", "1x4096", "1024x4096")
# An emulated wave runs some 100,000 instructions a second. Above this many elements only the
# default config runs in full; the others run this many elements' worth of rows.
MOST_ELEMENTS = 131_072


def facts(architecture: str) -> DeviceFacts:
    """Limits that hold for every RDNA GPU; sizes that differ between them are not used."""
    return DeviceFacts(
        device_id="emulated",
        kind="hip",
        architecture=architecture,
        name="emulated instruction set",
        compute_units=1,
        wave_size=WAVE_SIZE,
        max_threads_per_block=1024,
        max_grid=(2**31 - 1, 65535, 65535),
        max_grid_threads=2**32 - 1,
        max_shared_bytes=65536,
        max_registers_per_thread=256,
        memory_bytes=2**34,
        cache_bytes=0,
        timer="none",
    )


def some_configs(
    implementation: Implementation, dims: dict[str, int], device: DeviceFacts, spread: int
) -> list[dict[str, Scalar]]:
    """Return the default config, then ``spread`` others, from the space's first to its last.

    Nothing where the default is refused: the implementation is not for such a shape.
    """

    def allowed(config: dict[str, Scalar]) -> bool:
        found = first_violation(config, dims, device, implementation.constraints)
        return found is None or found.constraint in POINTLESS

    default = dict(implementation.default(dims, device))
    if not allowed(default):
        return []
    space = (dict(each) for each in grid_configs(implementation.parameters(dims)))
    others = [config for config in space if config != default and allowed(config)]
    if len(others) <= spread:
        return [default, *others]
    step = (len(others) - 1) / max(1, spread - 1)
    return [default, *(others[round(step * position)] for position in range(spread))]


def run_shape(shape: tuple[int, ...], *, is_default: bool) -> tuple[int, ...]:
    """Return the shape to run: fewer rows where the whole would take minutes per schedule."""
    if is_default or math.prod(shape) <= MOST_ELEMENTS:
        return shape
    columns = math.prod(shape[1:])
    return (max(1, MOST_ELEMENTS // columns), *shape[1:])


def emulate(
    emulator: Any, codes: list[CodeObject], kernel: Kernel, architecture: str,
    arrays: dict[str, Array], schedule: str, *, race: bool,
) -> tuple[int, list[str]]:  # fmt: skip
    """Run all launches of a kernel under one schedule; arrays change in place.

    Returns:
        Wave instructions, and what the emulator warns of.
    """
    instructions, warnings = 0, []
    for code, step in zip(codes, kernel.launches, strict=True):
        if step.language == "triton":
            threads = int(step.options["num_warps"]) * WAVE_SIZE
            dynamic_bytes = code.shared_bytes or 0
        else:
            threads, dynamic_bytes = step.geometry.threads, step.geometry.shared_bytes
        values = [_words(arrays[each.name]) if each.name in arrays else each.value
                  for each in step.arguments]  # fmt: skip
        result = emulator.run_hsaco(
            code.content, code.entry, step.geometry.grid, threads, values, dynamic_bytes,
            architecture, schedule=schedule, seed=SCHEDULE_SEED, race=race,
        )  # fmt: skip
        instructions += int(result.instructions)
        warnings += result.warnings
    return instructions, warnings


def _words(array: Array) -> Array:
    """Return an array's memory in a dtype that is NumPy's own: bfloat16 is not."""
    return array.view(np.uint16) if array.dtype.itemsize == 2 else array


def check(problem: Problem, output: Array, expected: Array) -> float:
    """Return the largest absolute error.

    Raises:
        ValueError: An element is outside the tolerance, or NaN.
    """
    error = np.abs(output.astype(np.float64) - expected)
    allowed = problem.tolerance.absolute + problem.tolerance.relative * np.abs(expected)
    wrong = ~(error <= allowed)
    if wrong.any():
        raise ValueError(f"{int(wrong.sum())} of {wrong.size} elements are wrong")
    return float(error.max())


@dataclass(slots=True)
class Attempt:
    """One kernel under the schedules, as far as it came; ``fault`` says why it ended."""

    passed: list[str] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    outputs: set[str] = field(default_factory=set)
    instructions: int | None = None
    fault: str = ""


class Runner:
    """Runs configs and remembers what is done."""

    def __init__(
        self, emulator: Any, operator: Operator, records: Path, names: list[str], spread: int,
        dtype: str,
    ) -> None:  # fmt: skip
        self._emulator = emulator
        self._spread = spread
        self._dtype = dtype
        self._implementations = [operator.implementation(name) for name in names]
        self._operator = operator
        self._path = records
        self._languages: dict[str, Language] = {"hip": HipLanguage(), "triton": TritonLanguage()}
        self._done = {each.key for each in read_records(records)}

    def run_all(self, architecture: str, shape: tuple[int, ...]) -> None:
        """Run the default and some other configs of each implementation on a shape."""
        device = facts(architecture)
        dims = self._operator.dimensions(self._operator.workload(shape, self._dtype))
        for implementation in self._implementations:
            configs = some_configs(implementation, dims, device, self._spread)
            for position, config in enumerate(configs):
                key = (
                    architecture, shape_text(shape), self._dtype, implementation.name,
                    config_text(config),
                )  # fmt: skip
                if key in self._done:
                    continue
                small = run_shape(shape, is_default=position == 0)
                workload = self._operator.workload(small, self._dtype)
                record = self._run(architecture, shape, workload, implementation, config)
                record = replace(record, is_default=position == 0)
                with self._path.open("a") as file:
                    file.write(json.dumps(asdict(record)) + "\n")
                print(*key, record.passed, f"{record.seconds:.1f} s", record.failure, flush=True)

    def _run(
        self, architecture: str, shape: tuple[int, ...], workload: Workload,
        implementation: Implementation, config: dict[str, Scalar],
    ) -> Record:  # fmt: skip
        started = time.perf_counter()
        source = self._operator.source(implementation)
        kernel = self._operator.kernel(implementation, source, config, workload)
        codes: list[CodeObject] = []
        attempt, race, failure = Attempt(), "", ""
        try:
            language = self._languages[kernel.language]
            codes = [
                language.compile_for(step, architecture, WAVE_SIZE) for step in kernel.launches
            ]
            attempt = self._run_schedules(codes, kernel, architecture, workload, race=True)
            if "race" in attempt.fault:
                race = attempt.fault
                attempt = self._run_schedules(codes, kernel, architecture, workload, race=False)
            failure = attempt.fault
            if race and not failure and len(attempt.outputs) > 1:
                failure = "the output depends on the order of the waves"
        except (TrialError, TunerError) as error:
            failure = error.message
        build = _build_report(kernel, codes)
        return Record(
            architecture, shape_text(shape), workload.shape_text, implementation.name,
            config_text(config), False, build.compiler if build else "",
            (build and build.binary_hash) or "", build.registers if build else None,
            build.shared_bytes if build else None, attempt.passed,
            max(attempt.errors, default=None), attempt.instructions,
            time.perf_counter() - started, race, failure, datetime.now(UTC).date().isoformat(),
            workload.dtype,
        )  # fmt: skip

    def _run_schedules(
        self, codes: list[CodeObject], kernel: Kernel, architecture: str, workload: Workload,
        *, race: bool,
    ) -> Attempt:  # fmt: skip
        """Run under each schedule until one fails."""
        problem = self._operator.problem(workload)
        arrays = make_inputs(problem, problem.cases[0], INPUT_SEED)
        doubles = [array.astype(np.float64) for array in arrays.values()]
        reference = load_reference(problem.reference_path, problem.reference_function)
        [expected] = reference(*doubles, **problem.scalars)
        [spec] = [spec for spec in problem.arrays if spec.role == "output"]
        attempt = Attempt()
        scratch = [spec for spec in problem.arrays if spec.role == "scratch"]
        between = [spec for spec in problem.arrays if spec.role == "intermediate"]
        for schedule in SCHEDULES:
            arrays[spec.name] = np.full(spec.shape, np.nan, spec.dtype)
            arrays.update({each.name: np.zeros(each.shape, each.dtype) for each in scratch})
            arrays.update({each.name: np.full(each.shape, np.nan, each.dtype) for each in between})
            try:
                instructions, warnings = emulate(
                    self._emulator, codes, kernel, architecture, arrays, schedule, race=race
                )
                attempt.errors.append(check(problem, arrays[spec.name], expected))
                if any(arrays[each.name].any() for each in scratch):
                    raise ValueError("the kernel left its scratch not zero")
            except Exception as error:  # the emulator reports faults by raising
                attempt.fault = f"{type(error).__name__}: {error}"
                return attempt
            if warnings:
                attempt.fault = f"emulator warns: {warnings[0]}"
                return attempt
            attempt.outputs.add(bytes_hash(arrays[spec.name].tobytes()))
            attempt.passed.append(schedule)
            attempt.instructions = instructions
        return attempt


def _build_report(kernel: Kernel, codes: list[CodeObject]) -> BuildReport | None:
    """Return what the compiler tells of all launches together; None where not all were built."""
    steps = kernel.launches
    if len(codes) < len(steps):
        return None
    return report_of_steps(
        [
            code_report(code, step.geometry.shared_bytes)
            for code, step in zip(codes, steps, strict=True)
        ]
    )


def main() -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--emulator", type=Path, help="folder with the module rdna")
    parser.add_argument("--operator", type=Path, default=Path("kernels/rmsnorm"))
    parser.add_argument("--records", type=Path, required=True, help="JSON lines, added to")
    parser.add_argument("--arch", choices=ARCHITECTURES, action="append")
    parser.add_argument("--shape", type=parse_shape, action="append")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--implementation", action="append", help="default: all")
    parser.add_argument("--spread", type=int, default=2, help="configs beside the default")
    parser.add_argument("--note", action="append", default=[], help="line to add to the page")
    parser.add_argument("--render", type=Path, help="Markdown file to write at the end")
    options = parser.parse_args()
    operator = load_operator(options.operator)
    if options.emulator:
        sys.path.insert(0, str(options.emulator))
        names = options.implementation or [each.name for each in operator.implementations]
        emulator = importlib.import_module("rdna")
        runner = Runner(emulator, operator, options.records, names, options.spread, options.dtype)
        for shape in options.shape or [parse_shape(text) for text in SHAPES]:
            for architecture in options.arch or ARCHITECTURES:
                runner.run_all(architecture, shape)
    if options.render:
        command = (
            "python benchmarks/emulated_rdna.py --emulator DIR "
            f"--operator kernels/{operator.name} --records FILE --render {options.render}"
        )
        records = list(read_records(options.records))
        options.render.write_text(render(operator, records, command, options.note))


if __name__ == "__main__":
    main()
