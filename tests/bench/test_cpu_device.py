"""The CPU device: building, caching and loading kernels, memory, time."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from cpu_kernels import INDICES
from cpu_kernels import nan
from cpu_kernels import run
from cpu_kernels import source

from tuner.bench.devices.base import HipSource
from tuner.bench.devices.base import Launch
from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.devices.cpu import find_compiler
from tuner.bench.devices.cpu_compiler import rewrite_shared_memory
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.errors import BuildFailed
from tuner.errors import LaunchFailed
from tuner.errors import MissingDependency
from tuner.errors import OutOfDeviceMemory
from tuner.errors import OutOfResources

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernel-cache")


@pytest.fixture
def cpu(cache: Path) -> Iterator[CpuDevice]:
    device = CpuDevice(cache_dir=cache)
    yield device
    device.close()


# ---- building -------------------------------------------------------------------------------


def test_a_compile_error_carries_line_and_log(cpu: CpuDevice) -> None:
    text = """\
    extern "C" __global__ void k(float* out) {
        extern __shared__ float
            part[];
        out[0] = undeclared;
    }
    """
    with pytest.raises(BuildFailed, match=r"k\.hip:4.*undeclared") as caught:
        cpu.compile_hip(source(text))
    assert "error" in caught.value.log
    assert "\n" not in caught.value.message


def test_a_missing_entry_is_a_build_failure(cpu: CpuDevice) -> None:
    with pytest.raises(BuildFailed, match=r"\bk\W was not declared|undeclared identifier 'k'"):
        cpu.compile_hip(source('extern "C" __global__ void other(float* out) { out[0] = 1; }'))


def test_a_long_log_is_cut(cpu: CpuDevice) -> None:
    lines = [f"#warning number {i}" for i in range(3000)]  # errors end clang at the 20th
    with pytest.raises(BuildFailed) as caught:
        cpu.compile_hip(source("\n".join([*lines, "#error the end"])))
    assert 10_000 < len(caught.value.log) <= 65_536


def test_includes_macros_and_flags_reach_the_compiler(cpu: CpuDevice) -> None:
    files = {
        "k.hip": '#include "parts/add.hpp"\n'
        'extern "C" __global__ void k(float* out) { out[0] = add(SCALE, FROM_FLAG, ON); }',
        "parts/add.hpp": '#include "deeper.hpp"\n',
        "parts/deeper.hpp": "__device__ float add(float a, float b, int c) { return a + b + c; }",
    }
    out = nan(1)
    kernel = HipSource(files, "k.hip", "k", {"SCALE": 0.5, "ON": True}, ("-DFROM_FLAG=2",))
    run(cpu, kernel, {"out": out})
    assert out[0] == 3.5


def test_equal_sources_give_equal_bytes_and_the_cache_says_so(tmp_path: Path) -> None:
    fresh = CpuDevice().compile_hip(source(INDICES))
    first, second = (CpuDevice(cache_dir=tmp_path).compile_hip(source(INDICES)) for _ in range(2))
    assert (fresh.cached, first.cached, second.cached) == (False, False, True)
    assert fresh.content == first.content == second.content
    other = CpuDevice(cache_dir=tmp_path).compile_hip(source(INDICES, {"BLOCK": 2}))
    assert not other.cached


def test_a_damaged_cache_entry_is_built_again(tmp_path: Path) -> None:
    first = CpuDevice(cache_dir=tmp_path).compile_hip(source(INDICES))
    (entry,) = tmp_path.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    again = CpuDevice(cache_dir=tmp_path).compile_hip(source(INDICES))
    assert (again.cached, again.content) == (False, first.content)


def test_two_processes_may_fill_the_cache_at_once(tmp_path: Path) -> None:
    script = f"""
    import sys
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from pathlib import Path
    from cpu_kernels import CpuDevice, INDICES, nan, run, source
    out = nan(1)
    run(CpuDevice(cache_dir=Path({str(tmp_path)!r})), source(INDICES), {{"out": out}})
    assert out[0] == 0
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_kernel_that_is_let_go_is_unloaded(cpu: CpuDevice) -> None:
    def mapped() -> set[str]:
        lines = Path("/proc/self/maps").read_text("utf-8").splitlines()
        return {line.split()[5] for line in lines if "tuner-kernel-" in line}

    before = mapped()
    loaded = cpu.load(cpu.compile_hip(source(INDICES)), 0)
    assert mapped() - before
    del loaded
    assert not mapped() - before


def test_without_a_compiler_hip_is_unavailable_with_the_reason() -> None:
    device = CpuDevice(compiler="no-such-compiler")
    assert "no-such-compiler" in device.facts.languages["hip"]
    assert device.identity()["compiler"].startswith("unknown: ")
    with pytest.raises(MissingDependency):
        device.compile_hip(source(INDICES))


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        (
            "extern __shared__ float s[];",
            "float* const s = reinterpret_cast<float*>(tuner_hip::dynamic_shared);",
        ),
        (
            "extern  __shared__ volatile unsigned char raw [ ] ;",
            "volatile unsigned char* const raw = "
            "reinterpret_cast<volatile unsigned char*>(tuner_hip::dynamic_shared);",
        ),
        ("static __shared__ int n;", "__shared__ int n;"),
        ("__shared__ float tile[32];", "__shared__ float tile[32];"),
        ("extern float table[];", "extern float table[];"),
    ],
)
def test_rewriting_of_shared_memory(text: str, rewritten: str) -> None:
    assert rewrite_shared_memory(text) == rewritten


# ---- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((("n", 1.0),), "declares n as int64, it is given as float32"),
        ((), "takes 2 arguments, 1 given"),
    ],
)
def test_arguments_are_checked_against_the_declaration(
    cpu: CpuDevice, arguments: tuple[tuple[str, float], ...], message: str
) -> None:
    kernel = source('extern "C" __global__ void k(float* out, long long n) { out[0] = n; }')
    with pytest.raises(LaunchFailed, match=message):
        run(cpu, kernel, {"out": nan(1)}, *arguments)


@pytest.mark.parametrize(
    ("grid", "threads"), [((1, 1, 1), 1025), ((1, 1, 1), 0), ((1, 70_000, 1), 1), ((0, 1, 1), 1)]
)
def test_impossible_geometry_is_refused(
    cpu: CpuDevice, grid: tuple[int, int, int], threads: int
) -> None:
    with pytest.raises(LaunchFailed):
        run(cpu, source(INDICES), {"out": nan(1)}, grid=grid, threads=threads)


def test_too_much_shared_memory_is_refused_at_load(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out) { __shared__ float a[8192]; a[0] = 1; out[0] = a[0]; }
    """
    code = cpu.compile_hip(source(text))
    assert cpu.load(code, 32_768).shared_bytes == 32_768
    with pytest.raises(OutOfResources, match="LDS 65537 > 65536"):
        cpu.load(code, 32_769)


# ---- device ---------------------------------------------------------------------------------


def test_absurd_sizes_are_out_of_memory(cpu: CpuDevice) -> None:
    for size_bytes in (2**46, 2**63, 2**70):
        with pytest.raises(OutOfDeviceMemory):
            cpu.allocate(size_bytes)


@pytest.mark.parametrize(("access", "returncode"), [("n - 1", 0), ("n", -signal.SIGSEGV)])
def test_one_element_past_a_buffer_is_a_segmentation_fault(
    tmp_path: Path, access: str, returncode: int
) -> None:
    script = f"""
    import sys
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from pathlib import Path
    from cpu_kernels import CpuDevice, nan, run, source
    text = '''extern "C" __global__ void k(const float* x, float* out, long long n) {{
        out[0] = x[{access}];
    }}'''
    cpu = CpuDevice(cache_dir=Path({str(tmp_path)!r}))
    run(cpu, source(text), {{"x": nan(39), "out": nan(1)}}, ("n", 39))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == returncode


def test_buffers_are_aligned_to_16_bytes_where_their_size_is(cpu: CpuDevice) -> None:
    assert cpu.allocate(48).address % 16 == 0
    assert cpu.allocate(13 * 4).address % 4 == 0


def test_elapsed_time_is_that_of_the_launches(cpu: CpuDevice) -> None:
    text = """
    extern "C" __global__ void k(float* out) {
        for (int i = 0; i < 100000; ++i) out[0] += 1.0f / (1.0f + out[0]);
    }
    """
    loaded = cpu.load(cpu.compile_hip(source(text)), 0)
    out = cpu.allocate(4)
    cpu.fill(out, 0)
    launch = Launch(
        loaded, LaunchGeometry((1, 1, 1), 1), (KernelArgument("out", "buffer"),), {"out": out}
    )
    one, ten = cpu.prepare([launch], "auto"), cpu.prepare([launch] * 10, "stream")
    single_us = min(one.elapsed_us() for _ in range(5))
    assert one.submission == "stream"
    assert single_us > 100
    assert 5 * single_us < min(ten.elapsed_us() for _ in range(5))
    with pytest.raises(LaunchFailed, match="no graphs"):
        cpu.prepare([launch], "graph")
