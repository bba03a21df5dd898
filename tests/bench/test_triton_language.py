"""Triton kernels: interpreted on the CPU, and compiled for AMD and NVIDIA without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.bench.devices.base import LoadedKernel
from tuner.bench.languages.triton import TritonLanguage
from tuner.bench.languages.triton_resources import amd_parameters
from tuner.bench.languages.triton_resources import amd_resources
from tuner.bench.languages.triton_resources import nvidia_parameters
from tuner.bench.languages.triton_resources import parse_resource_usage
from tuner.bench.languages.triton_resources import Resources
from tuner.domain.device import DeviceFacts
from tuner.domain.identity import bytes_hash
from tuner.domain.identity import Config
from tuner.domain.job import Kernel
from tuner.domain.job import KernelArgument
from tuner.domain.job import LaunchGeometry
from tuner.errors import BuildFailed
from tuner.errors import OutOfResources
from tuner.errors import UsageError
from tuner.operator import load_operator

pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]
RMSNORM = ROOT / "kernels" / "rmsnorm"
TARGETS = [("gfx1201", 32), ("gfx942", 64), ("sm_90", 32)]
LONG_ROW = "2x20001+3"
SHAPES = ["1x1", "3x13", "3x13+5", "33x257", "4x1000", LONG_ROW]

# Checks every Triton implementation through the interpreter and prints what is wrong. A process
# of its own, because Triton looks at TRITON_INTERPRET when it is imported.
INTERPRET = """
import json, sys
from pathlib import Path
from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.languages.triton import TritonLanguage
from tuner.bench.validate import Checker
from tuner.domain.space import first_violation
from tuner.domain.workload import parse_shape
from tuner.errors import TrialError
from tuner.operator import load_operator

def problems(operator, workload, cases):
    checker, dims = Checker(device, operator.problem(workload)), operator.dimensions(workload)
    for implementation in operator.implementations:
        config = implementation.default(dims, device.facts)
        refusal = first_violation(config, dims, device.facts, implementation.constraints)
        if implementation.language != "triton" or refusal and refusal.constraint == "long_row":
            continue
        source = operator.source(implementation)
        kernel = operator.kernel(implementation, source, config, workload)
        try:
            built = TritonLanguage().build(kernel, device)
            assert built.report.binary_hash is None and built.report.registers is None
            assert built.report.compiler.endswith(" interpreter")
            for case in cases:
                report = checker.check(built, checker.case(case, 7), "before")
                yield f"{implementation.name} {case.name}", report.message
        except TrialError as error:
            yield f"{implementation.name} {case.name}", f"{type(error).__name__}: {error.message}"
    checker.close()

device = CpuDevice()
found = {}
for folder in sys.argv[2:]:
    operator = load_operator(Path(folder))
    for text in json.loads(sys.argv[1]):
        shape, _, padding = text.partition("+")
        for dtype in operator.tolerances:
            workload = operator.workload(parse_shape(shape), dtype, None, int(padding or 0))
            cases = operator.cases if shape == "3x13" else operator.cases[:1]
            for name, message in problems(operator, workload, cases):
                found[f"{operator.name} {text} {dtype} {name}"] = message
print(json.dumps(found))
"""


def interpret(shapes: list[str], *folders: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", INTERPRET, json.dumps(shapes), *map(str, folders)],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def facts(wave_size: int = 32) -> DeviceFacts:
    return DeviceFacts(
        "fake:0", "cuda", "sm_90", "", 1, wave_size, 1024, (2**31 - 1,) * 3, 2**32 - 1,
        65536, 255, 2**33, 0, "device-event",
    )  # fmt: skip


def rmsnorm_kernel(
    name: str, config: Config | None = None, shape: tuple[int, int] = (8, 1000)
) -> Kernel:
    operator = load_operator(RMSNORM)
    implementation = operator.implementation(name)
    workload = operator.workload(shape)
    chosen = config or implementation.default(operator.dimensions(workload), facts())
    return operator.kernel(implementation, operator.source(implementation), chosen, workload)


def kernel_of(text: str, **files: str) -> Kernel:
    """A kernel that copies x to y, from its source text."""
    return Kernel(
        language="triton",
        files={"k.py": text, **{f"{name}.py": content for name, content in files.items()}},
        main="k.py",
        entry="copy",
        constants={"BLOCK": 64},
        options={"num_warps": 1},
        arguments=(
            KernelArgument("x", "buffer", dtype="float32"),
            KernelArgument("y", "buffer", dtype="float32"),
            KernelArgument("n", "int32", 64),
        ),
        geometry=LaunchGeometry((1, 1, 1)),
    )


COPY = """
import triton
import triton.language as tl
{imports}

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, {value}, mask=i < n)
"""
PLAIN_COPY = COPY.format(imports="", value="tl.load(x + i, mask=i < n)")


class RecordingDevice:
    """A GPU device as far as the language sees it: takes code objects and remembers them."""

    def __init__(self, backend: str, arch: int | str, wave_size: int) -> None:
        self.facts = facts(wave_size)
        self.triton_target = SimpleNamespace(backend=backend, arch=arch, wave_size=wave_size)
        self.loaded: list[tuple[bytes, str, int]] = []

    def load(self, code: Any, dynamic_shared_bytes: int) -> LoadedKernel:
        self.loaded.append((code.content, code.entry, dynamic_shared_bytes))
        return LoadedKernel(object(), registers=41)


@pytest.fixture(scope="module")
def interpreted() -> dict[str, str]:
    return interpret(SHAPES, RMSNORM, ROOT / "kernels" / "softmax")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_interpreter_agrees_with_the_reference(
    interpreted: dict[str, str], shape: str, dtype: str
) -> None:
    of_this = {
        key: got for key, got in interpreted.items() if key.startswith(f"rmsnorm {shape} {dtype} ")
    }
    expected = {
        "triton-row", "triton-rows", "triton-turns", "triton-loop", "triton-unfused",
    }  # fmt: skip
    if shape == LONG_ROW:
        expected = expected | {"triton-split"}
    names = {key.split()[3] for key in of_this}
    assert names == expected
    assert len(of_this) == len(expected) * (7 if shape.startswith("3x13") else 1)
    assert not any(of_this.values()), of_this


def test_interpreter_agrees_with_the_reference_of_softmax(interpreted: dict[str, str]) -> None:
    of_this = {key: got for key, got in interpreted.items() if key.startswith("softmax ")}
    assert len(of_this) >= len(SHAPES)
    assert not any(of_this.values()), of_this


def test_a_fault_in_an_interpreted_kernel_is_a_launch_error(tmp_path: Path) -> None:
    folder = tmp_path / "rmsnorm"
    folder.mkdir()
    for file in RMSNORM.glob("*.py"):
        (folder / file.name).write_text(file.read_text())
    kernel = folder / "rmsnorm_triton.py"
    kernel.write_text(kernel.read_text().replace("tl.rsqrt(", "tl.no_such_function("))
    found = interpret(["1x1"], folder)
    assert found["rmsnorm 1x1 float32 triton-row normal"] == (
        "LaunchFailed: Triton interpreter: "
        "AttributeError: module 'triton.language' has no attribute 'no_such_function'"
    )


@pytest.mark.parametrize(("architecture", "wave_size"), TARGETS)
@pytest.mark.parametrize("name", ["triton-row", "triton-rows", "triton-loop"])
def test_compiles_without_a_gpu_and_tells_resources(
    name: str, architecture: str, wave_size: int
) -> None:
    code = TritonLanguage().compile_for(rmsnorm_kernel(name), architecture, wave_size)
    assert code.content[:4] == b"\x7fELF"
    assert code.entry == rmsnorm_kernel(name).entry
    assert code.registers is not None
    assert 8 <= code.registers <= 255
    assert code.spill_bytes == 0
    assert code.shared_bytes is not None
    assert code.shared_bytes > 0  # the reduction across warps goes through it
    assert (
        f"target={'cuda:90' if architecture == 'sm_90' else 'hip:' + architecture}:{wave_size}"
        in code.options
    )
    assert (code.spills is None) == (architecture == "sm_90")  # told on AMD only


def test_equal_text_gives_equal_binaries_and_warps_give_others() -> None:
    def binary(warps: int, text_edit: str = "") -> str:
        kernel = rmsnorm_kernel("triton-row", {"BLOCK_SIZE": 1024, "num_warps": warps})
        files = {name: text_edit + text for name, text in kernel.files.items()}
        code = TritonLanguage().compile_for(replace(kernel, files=files), "gfx1201", 32)
        return bytes_hash(code.content)

    hashes = [binary(warps) for warps in (1, 2, 4, 8)]
    assert len(set(hashes)) == 4
    assert binary(4, "# a comment moves every line below it\n") == hashes[2]


def test_second_compile_comes_from_tritons_cache() -> None:
    first = TritonLanguage().compile_for(rmsnorm_kernel("triton-row"), "gfx1201", 32)
    second = TritonLanguage().compile_for(rmsnorm_kernel("triton-row"), "gfx1201", 32)
    assert (first.cached, second.cached) == (False, True)
    assert first.content == second.content


def test_multiples_of_16_are_loaded_16_bytes_at_a_time() -> None:
    def binary(cols: int) -> bytes:
        config = {"BLOCK_SIZE": 1024, "num_warps": 4}
        kernel = rmsnorm_kernel("triton-row", config, (8, cols))
        return TritonLanguage().compile_for(kernel, "gfx1201", 32).content

    assert binary(1008) != binary(1000)  # 1000 is no multiple of 16
    assert binary(1008) == binary(992)


@pytest.mark.parametrize(
    ("backend", "arch", "wave_size"), [("hip", "gfx942", 64), ("cuda", 90, 32)]
)
def test_build_for_a_gpu_resolves_geometry_and_passes_null_scratch(
    backend: str, arch: int | str, wave_size: int
) -> None:
    device = RecordingDevice(backend, arch, wave_size)
    kernel = rmsnorm_kernel("triton-row", {"BLOCK_SIZE": 1024, "num_warps": 4})
    built = TritonLanguage().build(kernel, device)  # type: ignore[arg-type]
    [(content, entry, dynamic_shared_bytes)] = device.loaded
    assert entry == "rmsnorm_row"
    [step] = built.steps
    assert step.geometry == LaunchGeometry((8, 1, 1), 4 * wave_size, dynamic_shared_bytes)
    count = len(kernel.arguments)
    assert step.arguments[:count] == kernel.arguments
    assert [(each.type, each.value) for each in step.arguments[count:]] == [("int64", 0)] * 2
    assert built.report.binary_hash == bytes_hash(content)
    assert built.report.registers == 41  # what the driver tells wins
    assert built.report.code_bytes == len(content)


def test_too_many_threads_for_the_device_are_refused() -> None:
    kernel = rmsnorm_kernel("triton-row", {"BLOCK_SIZE": 4096, "num_warps": 32})
    device = RecordingDevice("hip", "gfx942", 64)
    with pytest.raises(OutOfResources, match="threads 2048 > 1024"):
        TritonLanguage().build(kernel, device)  # type: ignore[arg-type]
    assert not device.loaded


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": {"num_warps": 3}}, "num_warps must be a power of 2"),
        ({"options": {"num_warp": 4}}, "no option 'num_warp'"),
        ({"constants": {"BLOCK": 48}}, "arange's range must be a power of 2"),
        ({"constants": {"BLOK": 64}}, "no parameter 'BLOK'"),
        ({"constants": {}}, "the operator passes"),
        ({"entry": "cpy"}, "no @triton.jit function 'cpy'"),
        ({"files": {"k.py": "import no_such_module"}}, "No module named 'no_such_module'"),
        ({"files": {"k.py": PLAIN_COPY.replace("i < n", "i < m")}}, "m is not defined"),
    ],
)
def test_what_triton_refuses_is_a_build_failure_in_words(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(BuildFailed) as caught:
        TritonLanguage().compile_for(replace(kernel_of(PLAIN_COPY), **change), "gfx1201", 32)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("architecture", ["sm_", "sm_9x", "x86_64", ""])
def test_unknown_architecture_is_a_usage_error(architecture: str) -> None:
    with pytest.raises(UsageError, match="no target"):
        TritonLanguage().compile_for(kernel_of(PLAIN_COPY), architecture, 32)


def test_equally_named_helpers_of_two_operators_stay_apart() -> None:
    text = COPY.format(
        imports="from helper import change", value="change(tl.load(x + i, mask=i < n))"
    )
    helper = "import triton\n\n@triton.jit\ndef change(v):\n    return v {}\n"
    binaries = {
        TritonLanguage()
        .compile_for(kernel_of(text, helper=helper.format(change)), "gfx1201", 32)
        .content
        for change in ("+ 1", "* 2")
    }
    assert len(binaries) == 2
    assert "helper" not in sys.modules


def test_a_helper_in_a_folder_is_found() -> None:
    text = COPY.format(imports="from parts.helper import twice", value="twice(tl.load(x + i))")
    helper = "import triton\n\n@triton.jit\ndef twice(v):\n    return v * 2\n"
    kernel = kernel_of(text)
    kernel = replace(kernel, files={**kernel.files, "parts/helper.py": helper})
    assert TritonLanguage().compile_for(kernel, "gfx1201", 32).content[:4] == b"\x7fELF"


def test_amd_metadata_is_read_field_by_field() -> None:
    metadata = """
  - .args:
      - .offset: 0
        .value_kind: global_buffer
      - .value_kind: by_value
      - .value_kind: hidden_block_count_x
    .group_segment_fixed_size: 512
    .private_segment_fixed_size: 20
    .sgpr_spill_count: 7
    .vgpr_count:     96
    .vgpr_spill_count: 5
"""
    assert amd_parameters(metadata) == 2
    assert amd_resources(metadata) == Resources(96, 5, 20, 512)
    assert amd_resources("  .vgpr_count: many") == Resources()


def test_ptx_parameters_are_counted() -> None:
    ptx = ".visible .entry f(\n .param .u64 .ptr .global a,\n .param .u32 b\n)\n{ .param }"
    assert nvidia_parameters(ptx) == 2


def test_resource_usage_keeps_unknown_apart_from_zero() -> None:
    text = " Function f:\n  REG:38 STACK:16 SHARED:0 LOCAL:0 CONSTANT[0]:580 TEXTURE:0\n"
    usage = parse_resource_usage(text)
    assert (usage.registers, usage.spill_bytes, usage.spills) == (38, 16, None)
    assert parse_resource_usage("cuobjdump fatal").registers is None
