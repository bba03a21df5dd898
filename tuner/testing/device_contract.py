"""What every device must do, as pytest tests over a ``device`` fixture.

Subclass `DeviceContract` and give it a fixture named ``device``. Tests that need HIP C++ skip
with the device's own reason where it has none. Nothing here breaks a device's context.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from collections.abc import Sequence

import numpy as np
import pytest

from tuner.bench.devices.base import Array
from tuner.bench.devices.base import Buffer
from tuner.bench.devices.base import Device
from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.domain.identity import bytes_hash
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.errors import BuildFailed
from tuner.errors import LaunchFailed
from tuner.errors import OutOfDeviceMemory
from tuner.errors import OutOfResources
from tuner.testing.fake_device import FakeCall
from tuner.testing.fake_device import FakeKernel

# One argument of every type, a macro, and an element that is computed from the block's index.
SCALE = """
#include "shift.h"
extern "C" __global__ void scale(float* out, const float* in, long long count, float factor,
                                 int offset)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i] * factor + shifted(offset);
}
"""
SHIFT_H = "static __device__ float shifted(int offset) { return (float)(offset + SHIFT); }\n"

# Dynamic shared memory, barriers and a wave shuffle: the sum of each block's elements.
BLOCK_SUM = """
extern "C" __global__ void block_sum(float* out, const float* in)
{
    extern __shared__ float parts[];
    float sum = in[(long long)blockIdx.x * blockDim.x + threadIdx.x];
    for (int step = warpSize / 2; step > 0; step /= 2) sum += __shfl_xor(sum, step);
    if (threadIdx.x % warpSize == 0) parts[threadIdx.x / warpSize] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int wave = 0; wave < (int)blockDim.x / warpSize; ++wave) total += parts[wave];
        out[blockIdx.x] = total;
    }
}
"""
SHIFT = 2
COUNT = 1000
THREADS = 64


def _fake_scale(call: FakeCall) -> None:
    count = min(int(call.scalars["count"]), call.geometry.grid[0] * call.geometry.threads)
    shifted = np.float32(call.scalars["offset"] + call.macros["SHIFT"])
    factor = np.float32(call.scalars["factor"])
    call.array("out")[:count] = call.array("in")[:count] * factor + shifted


def _fake_block_sum(call: FakeCall) -> None:
    blocks, threads = call.geometry.grid[0], call.geometry.threads
    elements = call.array("in")[: blocks * threads].reshape(blocks, threads)
    call.array("out")[:blocks] = elements.sum(axis=1)


# The same kernels for `FakeDevice`.
FAKE_KERNELS: dict[str, FakeKernel] = {"scale": _fake_scale, "block_sum": _fake_block_sum}


class DeviceContract:
    """The suite."""

    @pytest.fixture
    def device(self) -> Device:
        """Return the device under test; the subclass overrides this."""
        raise NotImplementedError

    @pytest.fixture
    def hip(self, device: Device) -> Device:
        """Return the device if it compiles HIP C++, else skip."""
        reason = device.facts.languages.get("hip", "the device has no HIP")
        if reason:
            pytest.skip(reason)
        return device

    def test_facts_are_sane(self, device: Device) -> None:
        facts = device.facts
        assert facts.device_id.partition(":")[0] == facts.kind
        assert facts.architecture
        assert facts.compute_units >= 1
        assert facts.wave_size in (32, 64)
        assert facts.max_threads_per_block >= facts.wave_size
        assert min(facts.max_grid) >= 1
        assert facts.max_grid_threads >= 2**31
        assert facts.max_shared_bytes >= 16 * 1024
        assert facts.memory_bytes >= 2**20
        assert facts.timer in ("device-event", "host-clock")
        assert set(facts.languages) == {"hip", "triton"}

    def test_identity_is_stable_text(self, device: Device) -> None:
        first = device.identity()
        assert first == device.identity()
        assert {"architecture", "compute_units", "compiler", "wave_size"} <= set(first)
        for fields in (first, device.context()):
            assert all(isinstance(value, str) and value for value in fields.values()), fields

    def test_telemetry_is_plausible_or_none(self, device: Device) -> None:
        reading = device.telemetry()
        assert reading.clock_mhz is None or 1 <= reading.clock_mhz <= 20_000
        assert reading.memory_clock_mhz is None or 1 <= reading.memory_clock_mhz <= 50_000
        assert reading.temperature_c is None or -40 <= reading.temperature_c <= 150
        assert reading.power_w is None or 0 <= reading.power_w <= 5_000

    @pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "int64"])
    @pytest.mark.parametrize("count", [1, 3, 257, 100_003])
    def test_write_and_read_round_trip(self, device: Device, dtype: str, count: int) -> None:
        sent = (np.arange(count) % 251).astype(dtype)
        with _buffer(device, sent.nbytes) as buffer:
            device.write(buffer, sent)
            received = np.empty_like(sent)
            device.read(buffer, received)
        np.testing.assert_array_equal(received, sent)

    def test_a_part_can_be_written_and_read(self, device: Device) -> None:
        with _buffer(device, 16) as buffer:
            device.fill(buffer, 7)
            device.write(buffer, np.array([1, 2], np.uint8))
            received = np.empty(4, np.uint8)
            device.read(buffer, received)
        assert received.tolist() == [1, 2, 7, 7]

    def test_an_array_larger_than_its_buffer_is_refused(self, device: Device) -> None:
        with _buffer(device, 8) as buffer, pytest.raises(ValueError, match="fit"):
            device.write(buffer, np.zeros(3, np.float32))

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    def test_filling_with_0xff_makes_nan(self, device: Device, dtype: str) -> None:
        received = np.zeros(1001, dtype)
        with _buffer(device, received.nbytes) as buffer:
            device.fill(buffer, 0xFF)
            device.read(buffer, received)
        assert np.isnan(received).all()

    def test_an_absurd_allocation_is_refused(self, device: Device) -> None:
        for size_bytes in (1 << 50, 1 << 62, 1 << 70):
            with pytest.raises(OutOfDeviceMemory):
                device.allocate(size_bytes)
        self.test_a_part_can_be_written_and_read(device)

    def test_the_cache_can_be_flushed(self, device: Device) -> None:
        with _buffer(device, 4) as buffer:
            device.write(buffer, np.array([5], np.int32))
            device.flush_cache()
            device.flush_cache()
            received = np.zeros(1, np.int32)
            device.read(buffer, received)
        assert received[0] == 5

    def test_a_kernel_computes(self, hip: Device) -> None:
        with _scaling(hip) as (launch, given):
            hip.fill(launch.buffers["out"], 0xFF)
            hip.launch(launch)
            received = _received(hip, launch)
        np.testing.assert_array_equal(received, given * np.float32(1.5) + np.float32(-3 + SHIFT))

    def test_shared_memory_barriers_and_shuffles(self, hip: Device) -> None:
        threads, blocks = 4 * hip.facts.wave_size, 3
        given = np.arange(threads * blocks, dtype=np.float32) % 17
        shared = (LaunchGeometry((blocks, 1, 1), threads, 4 * 4),)
        np.testing.assert_array_equal(
            _block_sums(hip, given, shared), given.reshape(blocks, threads).sum(axis=1)
        )

    def test_all_shared_memory_of_a_block_can_be_used(self, hip: Device) -> None:
        threads = hip.facts.wave_size
        given = np.ones(threads, np.float32)
        most = LaunchGeometry((1, 1, 1), threads, hip.facts.max_shared_bytes)
        assert _block_sums(hip, given, (most,)).tolist() == [threads]
        code = hip.compile_hip(HipSource({"sum.hip": BLOCK_SUM}, "sum.hip", "block_sum", {}))
        with pytest.raises(OutOfResources, match=r"shared|LDS"):
            hip.load(code, hip.facts.max_shared_bytes + 4)

    def test_a_compile_error_has_a_log(self, hip: Device) -> None:
        broken = "#error deliberately broken\n" + SCALE
        with pytest.raises(BuildFailed) as failure:
            hip.compile_hip(_scale_source(broken))
        assert "deliberately broken" in failure.value.log
        self.test_a_kernel_computes(hip)

    def test_a_missing_entry_is_a_build_error(self, hip: Device) -> None:
        source = HipSource({"sum.hip": BLOCK_SUM}, "sum.hip", "no_such_kernel", {})
        with pytest.raises(BuildFailed):
            hip.load(hip.compile_hip(source), 0)
        self.test_a_kernel_computes(hip)

    def test_equal_sources_build_equal_binaries(self, hip: Device) -> None:
        first = hip.compile_hip(_scale_source())
        again = hip.compile_hip(_scale_source())
        other = hip.compile_hip(_scale_source(shift=SHIFT + 1))
        assert bytes_hash(first.content) == bytes_hash(again.content)
        assert bytes_hash(first.content) != bytes_hash(other.content)
        assert first.compiler

    def test_impossible_geometry_is_refused(self, hip: Device) -> None:
        facts = hip.facts
        impossible = [
            LaunchGeometry((1, 1, 1), facts.max_threads_per_block + 1),
            LaunchGeometry((1, 1, 1), 0),
            LaunchGeometry((0, 1, 1), THREADS),
            LaunchGeometry((facts.max_grid[0] + 1, 1, 1), THREADS),
        ]
        with _scaling(hip) as (launch, _):
            for geometry in impossible:
                bad = Launch(launch.kernel, geometry, launch.arguments, launch.buffers)
                with pytest.raises(LaunchFailed):
                    hip.launch(bad)
                with pytest.raises(LaunchFailed):
                    hip.prepare([bad], "stream")
        self.test_a_kernel_computes(hip)

    def test_an_integer_too_large_for_its_argument_is_refused(self, hip: Device) -> None:
        with _scaling(hip) as (launch, _):
            arguments = (*launch.arguments[:-1], KernelArgument("offset", "int32", 2**31))
            bad = Launch(launch.kernel, launch.geometry, arguments, launch.buffers)
            with pytest.raises(LaunchFailed, match="offset"):
                hip.launch(bad)

    def test_elapsed_time_grows_with_the_launches(self, hip: Device) -> None:
        with _scaling(hip, count=20_000) as (launch, _):
            few_us = _fastest_us(hip, [launch] * 10)
            many_us = _fastest_us(hip, [launch] * 100)
        assert math.isfinite(few_us)
        assert few_us > 0
        assert many_us >= 2 * few_us

    @pytest.mark.parametrize("submission", ["auto", "graph", "stream"])
    def test_prepared_launches_compute(self, hip: Device, submission: str) -> None:
        with _scaling(hip) as (launch, given):
            hip.fill(launch.buffers["out"], 0xFF)
            try:
                prepared = hip.prepare([launch] * 3, submission)  # type: ignore[arg-type]
            except LaunchFailed as error:
                assert submission == "graph"
                pytest.skip(error.message)
            assert prepared.submission in ("graph", "stream")
            assert submission in ("auto", prepared.submission)
            for _ in range(2):
                assert prepared.elapsed_us() > 0
            prepared.close()
            prepared.close()
            received = _received(hip, launch)
        np.testing.assert_array_equal(received, given * np.float32(1.5) + np.float32(-3 + SHIFT))

    def test_prepared_launches_keep_their_arguments(self, hip: Device) -> None:
        """Launches with different buffers in one sample each write their own."""
        with _scaling(hip) as (first, given), _scaling(hip) as (second, _):
            for launch in (first, second):
                hip.fill(launch.buffers["out"], 0xFF)
            prepared = hip.prepare([first, second], "auto")
            prepared.elapsed_us()
            prepared.close()
            expected = given * np.float32(1.5) + np.float32(-3 + SHIFT)
            for launch in (first, second):
                np.testing.assert_array_equal(_received(hip, launch), expected)

    def test_close_may_be_called_twice(self, device: Device) -> None:
        device.allocate(64)
        device.close()
        device.close()


def _scale_source(text: str = SCALE, shift: int = SHIFT) -> HipSource:
    files = {"scale.hip": text, "shift.h": SHIFT_H}
    return HipSource(files, "scale.hip", "scale", {"SHIFT": shift})


@contextlib.contextmanager
def _buffer(device: Device, size_bytes: int) -> Iterator[Buffer]:
    buffer = device.allocate(size_bytes)
    try:
        yield buffer
    finally:
        device.free(buffer)


@contextlib.contextmanager
def _scaling(device: Device, count: int = COUNT) -> Iterator[tuple[Launch, Array]]:
    # Exact in float32 with and without a fused multiply-add, which compilers may use.
    given = ((np.arange(count) % 257 - 128) / 64).astype(np.float32)
    kernel = device.load(device.compile_hip(_scale_source()), 0)
    with _buffer(device, given.nbytes) as out, _buffer(device, given.nbytes) as source:
        device.write(source, given)
        arguments = (
            KernelArgument("out", "buffer"),
            KernelArgument("in", "buffer"),
            KernelArgument("count", "int64", count),
            KernelArgument("factor", "float32", 1.5),
            KernelArgument("offset", "int32", -3),
        )
        geometry = LaunchGeometry((-(-count // THREADS), 1, 1), THREADS)
        yield Launch(kernel, geometry, arguments, {"out": out, "in": source}), given


def _received(device: Device, launch: Launch) -> Array:
    received = np.zeros(COUNT, np.float32)
    device.read(launch.buffers["out"], received)
    return received


def _block_sums(device: Device, given: Array, geometries: Sequence[LaunchGeometry]) -> Array:
    """Return what the last of the launches wrote."""
    source = HipSource({"sum.hip": BLOCK_SUM}, "sum.hip", "block_sum", {})
    kernel = device.load(device.compile_hip(source), max(g.shared_bytes for g in geometries))
    received = np.zeros(geometries[-1].grid[0], np.float32)
    arguments = (KernelArgument("out", "buffer"), KernelArgument("in", "buffer"))
    with _buffer(device, received.nbytes) as out, _buffer(device, given.nbytes) as elements:
        device.write(elements, given)
        for geometry in geometries:
            device.fill(out, 0xFF)
            device.launch(Launch(kernel, geometry, arguments, {"out": out, "in": elements}))
        device.read(out, received)
    return received


def _fastest_us(device: Device, launches: Sequence[Launch]) -> float:
    """Return the least of a few samples, which is the least disturbed one."""
    prepared = device.prepare(launches, "auto")
    try:
        return min(prepared.elapsed_us() for _ in range(3))
    finally:
        prepared.close()
