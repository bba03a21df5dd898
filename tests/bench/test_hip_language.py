"""The HIP language: what it hands a device, what it reports, and compiling for AMD offline."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.devices.cpu import find_compiler
from tuner.bench.languages.hip import hip_source
from tuner.bench.languages.hip import HipLanguage
from tuner.bench.languages.hip_offline import find_amd_compiler
from tuner.bench.languages.hip_offline import parse_resources
from tuner.domain.identity import bytes_hash
from tuner.domain.identity import Scalar
from tuner.domain.job import Kernel
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.errors import BuildFailed
from tuner.errors import MissingDependency
from tuner.operator import load_operator

KERNELS = Path(__file__).parents[2] / "kernels"
TEXT = """
extern "C" __global__ void fill(float* out) {
    __shared__ float value[4];
    value[threadIdx.x % 4] = VALUE;
    __syncthreads();
    out[threadIdx.x] = value[0];
}
"""

needs_host_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")
needs_amd_compiler = pytest.mark.skipif(
    find_amd_compiler() is None, reason="no clang with the amdgcn target"
)


def kernel(text: str = TEXT, entry: str = "fill", **options: Scalar) -> Kernel:
    return Kernel(
        language="hip",
        files={"fill.hip": text},
        main="fill.hip",
        entry=entry,
        constants={"VALUE": 2},
        options=options,
        arguments=(KernelArgument("out", "buffer"),),
        geometry=LaunchGeometry((1, 1, 1), threads=4, shared_bytes=64),
    )


def project_kernel(operator: str, entry: str) -> Kernel:
    found = load_operator(KERNELS / operator)
    [implementation] = [each for each in found.implementations if each.entry == entry]
    workload = found.workload((1024, 4096))
    return found.kernel(implementation, found.source(implementation), {"BLOCK": 256}, workload)


def test_constants_become_macros_and_flags_are_split() -> None:
    source = hip_source(kernel(flags="-O1 '-DNAME=a b'"))
    assert source.macros == {"VALUE": 2}
    assert source.flags == ("-O1", "-DNAME=a b")
    assert (source.main, source.entry) == ("fill.hip", "fill")


def test_unbalanced_flags_are_a_build_failure() -> None:
    with pytest.raises(BuildFailed, match="No closing quotation"):
        hip_source(kernel(flags="-DNAME='a"))


@needs_host_compiler
def test_build_reports_what_is_known_and_none_for_the_rest(tmp_path: Path) -> None:
    device = CpuDevice(cache_dir=tmp_path)
    first, second = (HipLanguage().build(kernel(), device) for _ in range(2))
    report = first.report
    assert report.shared_bytes == 16 + 64
    assert (report.registers, report.spills, report.spill_bytes) == (None, None, None)
    assert report.build_s > 0
    assert "-DVALUE=2" in report.options
    assert (report.cached, second.report.cached) == (False, True)
    assert report.binary_hash == second.report.binary_hash
    assert report.code_bytes
    assert device.identity()["compiler"] == report.compiler


@needs_host_compiler
def test_a_built_kernel_runs() -> None:
    device = CpuDevice()
    out = device.allocate(16)
    executable = HipLanguage().build(kernel(), device)
    [launch] = executable.bind({"out": out})
    device.launch(launch)
    values = np.empty(4, np.float32)
    device.read(out, values)
    assert values.tolist() == [2.0] * 4
    device.close()


def test_nvidia_is_not_compiled_offline() -> None:
    with pytest.raises(MissingDependency, match="NVRTC"):
        HipLanguage().compile_for(kernel(), "sm_90", 32)


def test_without_a_clang_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find_amd_compiler.cache_clear()
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("tuner.bench.languages.hip_offline._PROGRAMS", ("clang++",))
    try:
        with pytest.raises(MissingDependency, match="gfx1201") as caught:
            HipLanguage().compile_for(kernel(), "gfx1201", 32)
    finally:
        find_amd_compiler.cache_clear()
    assert "clang" in caught.value.hint


@needs_amd_compiler
@pytest.mark.parametrize(("architecture", "wave_size"), [("gfx1201", 32), ("gfx942", 64)])
def test_compiling_for_amd_reports_resources(architecture: str, wave_size: int) -> None:
    code = HipLanguage().compile_for(kernel(), architecture, wave_size)
    assert code.content.startswith(b"\x7fELF")
    assert code.entry == "fill"
    assert code.shared_bytes == 16
    assert code.registers
    assert (code.spills, code.spill_bytes) == (0, 0)
    assert architecture.encode() in code.content
    assert bytes_hash(HipLanguage().compile_for(kernel(), architecture, wave_size).content) == (
        bytes_hash(code.content)
    )


@needs_amd_compiler
def test_the_wave_size_reaches_the_compiler() -> None:
    text = TEXT.replace("VALUE;", "VALUE * warpSize;")
    wave32, wave64 = (HipLanguage().compile_for(kernel(text), "gfx1201", n) for n in (32, 64))
    assert wave32.content != wave64.content


@needs_amd_compiler
@pytest.mark.parametrize(
    ("operator", "entry"),
    [("rmsnorm", "rmsnorm_serial"), ("rmsnorm", "rmsnorm_block"), ("softmax", "softmax_block")],
)
def test_the_kernels_of_the_project_compile_for_amd(operator: str, entry: str) -> None:
    code = HipLanguage().compile_for(project_kernel(operator, entry), "gfx1201", 32)
    assert code.entry == entry
    assert code.spills == 0


@needs_amd_compiler
def test_wave_intrinsics_atomics_and_grid_size_compile_for_amd() -> None:
    text = """
    #include <hip/hip_runtime.h>
    __global__ void __launch_bounds__(256) reduce(float* out, const double* in) {
        double v = in[blockIdx.x * blockDim.x + threadIdx.x];
        for (int o = warpSize / 2; o > 0; o /= 2) v += __shfl_xor(v, o);
        v += __shfl_down_sync(~0ull, v, 1) + __shfl_up(v, 1) + __shfl(v, 0, 8);
        if (__any(v > 0) && __popc_like(v)) atomicAdd(out, (float)v * gridDim.x);
    }
    """
    text = text.replace("__popc_like(v)", "__ballot(v > 1) != 0")
    code = HipLanguage().compile_for(kernel(text, "reduce"), "gfx1100", 32)
    assert code.entry.startswith("_Z6reduce")


@needs_amd_compiler
def test_a_compile_error_for_amd_carries_the_log() -> None:
    with pytest.raises(BuildFailed, match=r"fill\.hip:4.*VALU") as caught:
        HipLanguage().compile_for(kernel(TEXT.replace("= VALUE", "= VALU")), "gfx1201", 32)
    assert "error:" in caught.value.log


@needs_amd_compiler
def test_a_missing_entry_names_what_there_is() -> None:
    with pytest.raises(BuildFailed, match="no kernel 'other'; it has: fill"):
        HipLanguage().compile_for(kernel(entry="other"), "gfx1201", 32)


@needs_amd_compiler
@pytest.mark.parametrize(("architecture", "wave_size"), [("gfx942", 32), ("gfx1201", 48)])
def test_a_wave_size_the_architecture_lacks_is_refused(architecture: str, wave_size: int) -> None:
    with pytest.raises(BuildFailed, match=f"no wave size {wave_size}"):
        HipLanguage().compile_for(kernel(), architecture, wave_size)


def test_resources_are_read_from_remarks_and_none_where_missing() -> None:
    tail = " [-Rpass-analysis=kernel-resource-usage]\n"
    lines = [
        "source/a.hip:3:1: remark: Function Name: a",
        "source/a.hip:3:1: remark:     SGPRs Spill: 3",
        "source/a.hip:3:1: remark:     VGPRs: 17",
        "source/a.hip:3:1: remark:     VGPRs Spill: 2",
        "source/a.hip:3:1: remark:     ScratchSize [bytes/lane]: 24",
        "source/a.hip:9:1: remark: Function Name: b",
        "source/a.hip:9:1: remark:     VGPRs: 5",
    ]
    found = parse_resources("".join(line + tail for line in lines))
    assert dataclasses.astuple(found["a"]) == ("a", 17, 2, 24, None)
    assert dataclasses.astuple(found["b"]) == ("b", 5, None, None, None)
