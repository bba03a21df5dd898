"""HIP C++ on the CPU: right results of right kernels, and faults that must show."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from cpu_kernels import INDICES
from cpu_kernels import nan
from cpu_kernels import run
from cpu_kernels import source

from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.devices.cpu import find_compiler
from tuner.domain.identity import Scalar
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.errors import LaunchFailed
from tuner.kernel_source import read_kernel_source

KERNELS = Path(__file__).parents[2] / "kernels"
pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernel-cache")


@pytest.fixture
def cpu(cache: Path) -> Iterator[CpuDevice]:
    device = CpuDevice(cache_dir=cache)
    yield device
    device.close()


@pytest.fixture
def wave64(cache: Path) -> Iterator[CpuDevice]:
    device = CpuDevice(wave_size=64, cache_dir=cache)
    yield device
    device.close()


def of_project(operator: str, entry: str, macros: Mapping[str, Scalar]) -> HipSource:
    """A textbook kernel with the files that it includes."""
    main = f"{operator}.hip"
    files = read_kernel_source(KERNELS / operator, main, [entry], "hip").files
    return HipSource(files, main, entry, macros)


@pytest.mark.parametrize("shape", [(1, 1), (3, 13), (33, 257), (8, 1024)])
@pytest.mark.parametrize("block", [32, 64, 256, 1024])
@pytest.mark.parametrize("entry", ["rmsnorm_serial", "rmsnorm_block"])
def test_rmsnorm_agrees_with_float64(
    cpu: CpuDevice, entry: str, block: int, shape: tuple[int, int]
) -> None:
    rows, cols = shape
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape, np.float32)
    w = rng.standard_normal(cols, np.float32)
    y = nan(*shape)
    tree = entry == "rmsnorm_block"
    run(
        cpu,
        of_project("rmsnorm", entry, {}),  # one build for all blocks
        {"x": x, "w": w, "y": y},
        ("rows", rows),
        ("cols", cols),
        ("x_stride", cols),
        ("y_stride", cols),
        ("epsilon", 1e-5),
        grid=(rows if tree else -(-rows // block), 1, 1),
        threads=block,
        shared_bytes=4 * block if tree else 0,
    )
    exact = x.astype(np.float64)
    expected = exact / np.sqrt((exact**2).mean(axis=1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)


def test_block_as_macro_gives_the_same_bits(cpu: CpuDevice) -> None:
    x = np.random.default_rng(1).standard_normal((5, 77), np.float32)
    results = []
    for macros in ({}, {"BLOCK": 64}):
        y = nan(5, 77)
        run(
            cpu,
            of_project("rmsnorm", "rmsnorm_block", macros),
            {"x": x, "w": np.ones(77, np.float32), "y": y},
            ("rows", 5),
            ("cols", 77),
            ("x_stride", 77),
            ("y_stride", 77),
            ("epsilon", 1e-5),
            grid=(5, 1, 1),
            threads=64,
            shared_bytes=256,
        )
        results.append(y.tobytes())
    assert results[0] == results[1]


@pytest.mark.parametrize("shape", [(1, 1), (3, 13), (33, 257)])
def test_softmax_agrees_with_float64(cpu: CpuDevice, shape: tuple[int, int]) -> None:
    x = (30 * np.random.default_rng(3).standard_normal(shape)).astype(np.float32)
    y = nan(*shape)
    run(
        cpu,
        of_project("softmax", "softmax_block", {"BLOCK": 128}),
        {"x": x, "y": y},
        ("rows", shape[0]),
        ("cols", shape[1]),
        ("x_stride", shape[1]),
        ("y_stride", shape[1]),
        grid=(shape[0], 1, 1),
        threads=128,
        shared_bytes=512,
    )
    exact = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, exact / exact.sum(axis=1, keepdims=True), rtol=2e-5, atol=1e-7)


# ---- threads, grids, waves ------------------------------------------------------------------


def test_every_thread_of_every_block_runs_once(cpu: CpuDevice) -> None:
    out = nan(2 * 3 * 4, 5)
    run(cpu, source(INDICES), {"out": out}, grid=(4, 3, 2), threads=5)
    np.testing.assert_array_equal(out, np.arange(24)[:, None] * 1000 + np.arange(5))


WAVE_SUM = """
extern "C" __global__ void k(const float* x, float* out) {
    float sum = x[threadIdx.x];
    for (int offset = HALF; offset > 0; offset /= 2) sum += __shfl_down(sum, offset);
    if (threadIdx.x % warpSize == 0) out[threadIdx.x / warpSize] = sum;
}
"""


@pytest.mark.parametrize("half", ["warpSize / 2", "16"])
@pytest.mark.parametrize("wave", [32, 64])
def test_a_wave_reduction_is_right_unless_it_assumes_32_lanes(
    cpu: CpuDevice, wave64: CpuDevice, wave: int, half: str
) -> None:
    x = np.arange(1, 129, dtype=np.float32)
    out = nan(128 // wave)
    device = wave64 if wave == 64 else cpu
    run(device, source(WAVE_SUM.replace("HALF", half)), {"x": x, "out": out}, threads=128)
    right = np.array_equal(out, x.reshape(-1, wave).sum(axis=1))
    assert right == (half != "16" or wave == 32)


SHUFFLES = """
extern "C" __global__ void k(float* out) {
    const int lane = threadIdx.x;
    float* mine = out + lane * 8;
    mine[0] = __shfl(lane, 5);
    mine[1] = __shfl_up(lane, 3, 8);
    mine[2] = __shfl_down(lane, 3, 8);
    mine[3] = __shfl_xor(lane, 1);
    mine[4] = __shfl_xor_sync(~0ull, lane, 2);
    mine[5] = __popcll(__ballot(lane % 4 == 0));
    mine[6] = __any(lane == 7) + 10 * __all(lane >= 0);
    mine[7] = __any(lane == 99) + 10 * __all(lane > 0);
}
"""


def test_wave_intrinsics(cpu: CpuDevice) -> None:
    out = nan(32, 8)
    run(cpu, source(SHUFFLES), {"out": out}, threads=32)
    lane = np.arange(32)
    np.testing.assert_array_equal(out[:, 0], 5)
    np.testing.assert_array_equal(out[:, 1], np.where(lane % 8 < 3, lane, lane - 3))
    np.testing.assert_array_equal(out[:, 2], np.where(lane % 8 > 4, lane, lane + 3))
    np.testing.assert_array_equal(out[:, 3], lane ^ 1)
    np.testing.assert_array_equal(out[:, 4], lane ^ 2)
    np.testing.assert_array_equal(out[:, 5], 8)
    np.testing.assert_array_equal(out[:, 6], 11)
    np.testing.assert_array_equal(out[:, 7], 0)


def test_a_lane_that_has_left_gives_nan_to_a_shuffle(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out) {
        if (threadIdx.x >= 16) return;
        out[threadIdx.x] = __shfl_down(1.0f, 8);
    }
    """
    out = nan(16)
    run(cpu, source(text), {"out": out}, threads=32)
    np.testing.assert_array_equal(np.isnan(out), np.arange(16) >= 8)


def test_branches_of_a_wave_shuffle_one_side_at_a_time(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out) {
        if (threadIdx.x < 16) out[threadIdx.x] = __shfl(1.0f, 0);
        else out[threadIdx.x] = __shfl(2.0f, 31);
    }
    """
    out = nan(32)
    run(cpu, source(text), {"out": out}, threads=32)
    np.testing.assert_array_equal(out, np.repeat([1.0, 2.0], 16))


def test_the_block_reduction_of_textbooks_in_a_template(cpu: CpuDevice) -> None:
    text = """
    #include <hip/hip_runtime.h>
    template <typename T> __inline__ __device__ T wave_sum(T v) {
        for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down(v, o);
        return v;
    }
    template <typename T> __inline__ __device__ T block_sum(T v) {
        static __shared__ T partial[32];
        const int lane = threadIdx.x % warpSize, wave = threadIdx.x / warpSize;
        v = wave_sum(v);
        if (lane == 0) partial[wave] = v;
        __syncthreads();
        v = threadIdx.x < blockDim.x / warpSize ? partial[lane] : T(0);
        if (wave == 0) v = wave_sum(v);
        return v;
    }
    extern "C" __global__ void __launch_bounds__(256) k(const float* x, float* out) {
        const float sum = block_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
        if (threadIdx.x == 0) out[blockIdx.x] = sum;
    }
    """
    x = np.arange(3 * 256, dtype=np.float32)
    out = nan(3)
    run(cpu, source(text), {"x": x, "out": out}, grid=(3, 1, 1), threads=256)
    np.testing.assert_array_equal(out, x.reshape(3, 256).sum(axis=1))


def test_atomics_and_vector_types(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(const float* x, float* out) {
        const float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];
        atomicAdd(out, v.x + v.y + v.z + v.w);
    }
    """
    x = np.arange(64, dtype=np.float32)
    out = np.zeros(1, np.float32)
    run(cpu, source(text), {"x": x, "out": out}, threads=16)
    assert out[0] == x.sum()


# ---- faults that must show ------------------------------------------------------------------

TREE = """
extern "C" __global__ void k(float* out) {
    extern __shared__ float part[];
    part[threadIdx.x] = 1.0f;
    FIRST
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
"""


@pytest.mark.parametrize(("first", "right"), [("__syncthreads();", True), ("", False)])
def test_a_missing_barrier_shows_as_nan(cpu: CpuDevice, first: str, right: bool) -> None:
    out = np.zeros(2, np.float32)
    run(
        cpu,
        source(TREE.replace("FIRST", first)),
        {"out": out},
        grid=(2, 1, 1),
        threads=64,
        shared_bytes=256,
    )
    assert (out.tolist() == [64.0, 64.0]) == right
    assert np.isnan(out).any() != right


@pytest.mark.parametrize("kind", ["dynamic", "static", "template"])
def test_shared_memory_nobody_wrote_is_nan_in_every_block(cpu: CpuDevice, kind: str) -> None:
    declaration = {
        "dynamic": "extern __shared__ __align__(16) float part[];",
        "static": "__shared__ float part[8];",
        "template": "T* part = shared_of<T>();",
    }[kind]
    text = """
    template <typename T> __device__ T* shared_of() { __shared__ T part[8]; return part; }
    template <typename T> __device__ void body(float* out) {
        DECLARATION
        out[blockIdx.x] = part[3];
        part[3] = 1.0f;
    }
    extern "C" __global__ void k(float* out) { body<float>(out); }
    """
    out = np.zeros(3, np.float32)
    run(
        cpu,
        source(text.replace("DECLARATION", declaration)),
        {"out": out},
        grid=(3, 1, 1),
        shared_bytes=32,
    )
    assert np.isnan(out).all()


def test_a_shared_variable_that_no_thread_ever_writes_is_nan(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out) {
        __shared__ float never[8];
        out[threadIdx.x] = never[threadIdx.x];
    }
    """
    out = np.zeros(8, np.float32)
    run(cpu, source(text), {"out": out}, threads=8)
    assert np.isnan(out).all()


def test_barriers_of_two_branches_are_reported_with_their_lines(cpu: CpuDevice) -> None:
    text = """\
    extern "C" __global__ void k(float* out) {
        if (threadIdx.x < 16) {
            __syncthreads();
        } else {
            __syncthreads();
        }
        out[threadIdx.x] = 1.0f;
    }
    """
    with pytest.raises(LaunchFailed, match=r"kernel k: block \(0, 0, 0\).*:3.*:5") as caught:
        run(cpu, source(text), {"out": nan(32)}, threads=32)
    assert "thread 0" in caught.value.message
    assert "thread 16" in caught.value.message
    out = nan(32)  # the device goes on after it
    run(cpu, source(INDICES), {"out": out}, threads=32)
    assert out[31] == 31


def test_a_kernel_stopped_at_a_barrier_starts_anew_in_the_next_launch(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out, long long diverge) {
        out[threadIdx.x] = 1.0f;
        if (diverge && threadIdx.x < 16) __syncthreads();
        else
            __syncthreads();
    }
    """
    loaded = cpu.load(cpu.compile_hip(source(text)), 0)
    out, values = cpu.allocate(128), nan(32)

    def launch(diverge: int) -> None:
        cpu.fill(out, 0)
        arguments = (KernelArgument("out", "buffer"), KernelArgument("diverge", "int64", diverge))
        cpu.launch(Launch(loaded, LaunchGeometry((1, 1, 1), 32), arguments, {"out": out}))

    with pytest.raises(LaunchFailed):
        launch(diverge=1)
    launch(diverge=0)
    cpu.read(out, values)
    assert values.sum() == 32


def test_a_shuffle_that_half_a_wave_skips_for_a_barrier_is_reported(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out) {
        float v = 1.0f;
        if (threadIdx.x < 16) v += __shfl_xor(v, 8);
        __syncthreads();
        out[threadIdx.x] = v;
    }
    """
    with pytest.raises(LaunchFailed, match="wave intrinsic"):
        run(cpu, source(text), {"out": nan(32)}, threads=32)


def test_a_mask_that_leaves_the_caller_out_is_reported(wave64: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out) {
        out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
    }
    """
    with pytest.raises(LaunchFailed, match=r"thread 32 .*mask 0xffffffff"):
        run(wave64, source(text), {"out": nan(64)}, threads=64)


def test_threads_that_have_left_do_not_count_at_a_barrier(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out) {
        if (threadIdx.x >= 20) return;
        __syncthreads();
        out[threadIdx.x] = 1.0f;
    }
    """
    out = np.zeros(32, np.float32)
    run(cpu, source(text), {"out": out}, threads=32)
    assert out.sum() == 20


def test_writing_past_dynamic_shared_memory_is_reported(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out) {
        extern __shared__ float part[];
        part[threadIdx.x] = 0.0f;
        out[threadIdx.x] = 0.0f;
    }
    """
    with pytest.raises(LaunchFailed, match="past the 64 bytes of dynamic shared memory"):
        run(cpu, source(text), {"out": nan(17)}, threads=17, shared_bytes=64)
