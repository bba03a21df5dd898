"""Kernels in FP16 and BF16 and with padded rows: inputs, tolerances, and what is caught."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from tuner.bench.devices.base import Device
from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.devices.cpu import find_compiler
from tuner.bench.inputs import array_bytes
from tuner.bench.inputs import make_inputs
from tuner.bench.inputs import padding_of
from tuner.bench.inputs import rows_of
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.validate import Checker
from tuner.domain.dtypes import ELEMENT_TYPES
from tuner.domain.dtypes import rounded_tolerance
from tuner.domain.job import Tolerance
from tuner.domain.space import first_violation
from tuner.domain.workload import Workload
from tuner.errors import UsageError
from tuner.operator import load_operator

RMSNORM = load_operator(Path(__file__).parents[2] / "kernels" / "rmsnorm")
DTYPES = ["float32", "float16", "bfloat16"]
SHORT = ["float16", "bfloat16"]
SHAPES = [(1, 1), (3, 13), (33, 257), (5, 1000), (1, 4096), (2, 20001)]
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


def messages(
    device: Device, name: str, workload: Workload, edit: tuple[str, str] | None = None
) -> dict[str, str]:
    """Return what is wrong with each input case's output, of a default config."""
    implementation = RMSNORM.implementation(name)
    dims = RMSNORM.dimensions(workload)
    config = implementation.default(dims, device.facts)
    if first_violation(config, dims, device.facts, implementation.constraints):
        return {}
    source = RMSNORM.source(implementation)
    kernel = RMSNORM.kernel(implementation, source, config, workload)
    if edit is not None:
        before, after = edit
        files = {file: text.replace(before, after) for file, text in kernel.files.items()}
        assert files != kernel.files
        kernel = replace(kernel, files=files)
    problem = RMSNORM.problem(workload)
    checker = Checker(device, problem)
    try:
        executable = HipLanguage().build(kernel, device)
        return {
            case.name: checker.check(executable, checker.case(case, 7), "before").message
            for case in problem.cases
        }
    finally:
        checker.close()


@pytest.mark.parametrize("padding", [0, 7])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["hip-serial", "hip-block"])
def test_textbook_kernels_are_right_in_every_dtype(
    device: Device, name: str, dtype: str, padding: int
) -> None:
    for shape in SHAPES:
        found = messages(device, name, RMSNORM.workload(shape, dtype, row_padding=padding))
        assert found == dict.fromkeys(found, ""), shape
        assert len(found) == len(RMSNORM.cases)


@needs_compiler
@pytest.mark.parametrize("dtype", SHORT)
def test_a_store_that_cuts_bits_off_is_wrong(dtype: str) -> None:
    kept_bits = {"float16": "0xffffe000u", "bfloat16": "0xffff0000u"}[dtype]
    result = "widen(row_in[col]) * scale * widen(w[col])"
    cut = f"__uint_as_float(__float_as_uint({result}) & {kept_bits})"
    workload = RMSNORM.workload((3, 257), dtype)
    found = messages(CpuDevice(), "hip-block", workload, (result, cut))
    assert "outside the tolerance" in found["normal"]


@needs_compiler
def test_a_sum_in_16_bits_is_wrong() -> None:
    edit = ("sum += value * value;", "sum = widen(narrow(sum + value * value));")
    workload = RMSNORM.workload((2, 4096), "bfloat16")
    found = messages(CpuDevice(), "hip-serial", workload, edit)
    assert "outside the tolerance" in found["normal"]
    # 4096 squared is beyond FP16: the sum overflows, and the row becomes 0.
    workload = RMSNORM.workload((2, 4096), "float16")
    found = messages(CpuDevice(), "hip-serial", workload, edit)
    assert "outside the tolerance" in found["large_magnitude"]


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kernel_that_writes_between_the_rows_is_wrong(dtype: str) -> None:
    edit = ("row_out[col] = narrow(", "row_out[cols] = row_out[col] = narrow(")
    workload = RMSNORM.workload((3, 13), dtype, row_padding=2)
    found = messages(CpuDevice(), "hip-block", workload, edit)
    assert set(found.values()) == {"the kernel wrote between the rows of its output y"}


@needs_compiler
def test_a_kernel_that_reads_between_the_rows_is_wrong() -> None:
    edit = ("sum / static_cast<float>(cols)", "(sum + 0.0f * widen(row_in[cols])) / cols")
    workload = RMSNORM.workload((3, 13), "bfloat16", row_padding=2)
    assert "non-finite" in messages(CpuDevice(), "hip-serial", workload, edit)["normal"]


@pytest.mark.parametrize("dtype", SHORT)
def test_inputs_are_the_float32_values_rounded_to_nearest(dtype: str) -> None:
    kind = ELEMENT_TYPES[dtype]
    wide, short = (
        RMSNORM.problem(RMSNORM.workload((33, 257), each)) for each in ("float32", dtype)
    )
    for case in wide.cases:
        of_wide, of_short = make_inputs(wide, case, 7), make_inputs(short, case, 7)
        for name, array in of_short.items():
            assert array.dtype == np.dtype(dtype)
            exact = of_wide[name].astype(np.float64)
            if case.name == "large_magnitude" and name == "x":
                assert np.isfinite(array.astype(np.float64)).all()
                if dtype == "float16":
                    continue  # of a smaller scale, which FP16 can hold
            error = np.abs(array.astype(np.float64) - exact)
            limit = kind.unit_roundoff * np.abs(exact) + kind.subnormal_error
            assert (error <= limit).all(), (case.name, name)


def test_padding_of_inputs_is_nan_and_rows_are_those_without_it() -> None:
    plain = RMSNORM.problem(RMSNORM.workload((3, 13), "bfloat16"))
    padded = RMSNORM.problem(RMSNORM.workload((3, 13), "bfloat16", row_padding=5))
    spec = padded.arrays[0]
    stored = make_inputs(padded, padded.cases[0], 7)["x"]
    assert stored.nbytes == array_bytes(spec) == 3 * 18 * 2
    assert (stored.shape, rows_of(spec, stored).shape) == ((3, 18), (3, 13))
    assert np.isnan(padding_of(spec, stored).astype(np.float32)).all()
    same = make_inputs(plain, plain.cases[0], 7)["x"]
    assert rows_of(spec, stored).tobytes() == same.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_table_of_formats_is_that_of_numpy(dtype: str) -> None:
    kind, known = ELEMENT_TYPES[dtype], ml_dtypes.finfo(dtype)
    assert kind.item_bytes == np.dtype(dtype).itemsize
    assert 2 * kind.unit_roundoff == float(known.eps)
    assert 2 * kind.subnormal_error == float(known.smallest_subnormal)
    assert kind.largest == float(known.max)


@given(
    reference=st.floats(-60000, 60000),
    share=st.floats(-1, 1),
    dtype=st.sampled_from(SHORT),
    float32=st.builds(Tolerance, st.floats(0, 1e-3), st.floats(0, 1e-3)),
)
@settings(max_examples=300, deadline=None)
def test_rounding_a_good_value_stays_within_a_tolerance_no_looser_than_its_parts(
    reference: float, share: float, dtype: str, float32: Tolerance
) -> None:
    tolerance = rounded_tolerance(float32, dtype)
    limit = tolerance.absolute + tolerance.relative * abs(reference)
    value = reference + share * (float32.absolute + float32.relative * abs(reference))
    stored = float(np.float64(value).astype(dtype))
    if math.isfinite(stored):
        assert abs(stored - reference) <= limit * (1 + 1e-12)
    # It is no looser than its parts: float32's, grown by the rounding, and the rounding itself.
    kind = ELEMENT_TYPES[dtype]
    rounding = kind.unit_roundoff * abs(reference) + kind.subnormal_error
    of_float32 = float32.absolute + float32.relative * abs(reference)
    assert limit <= (of_float32 * (1 + kind.unit_roundoff) + rounding) * (1 + 1e-12)


def test_float32_keeps_its_tolerance() -> None:
    assert rounded_tolerance(Tolerance(1e-5, 2e-5), "float32") == Tolerance(1e-5, 2e-5)


@pytest.mark.parametrize(
    ("shape", "padding", "message"),
    [((3, 13), -1, "must be at least 0"), ((13,), 4, "is one row"), ((3, 2**62), 2**62, "below")],
)
def test_impossible_padding_is_refused(shape: tuple[int, ...], padding: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Workload("op", shape, row_padding=padding)


def test_padding_is_part_of_what_identifies_a_workload() -> None:
    plain, padded = Workload("op", (2, 3, 5)), Workload("op", (2, 3, 5), row_padding=4)
    assert padded.strides == (27, 9, 1)
    assert plain.key != padded.key
    assert plain.as_plain()["strides"] == [15, 5, 1]
