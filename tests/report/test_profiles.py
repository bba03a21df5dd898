"""Profilers' files: both documented formats, several kernels, missing cells, malformed files."""

from __future__ import annotations

import pytest

from tuner.domain.job import LaunchGeometry
from tuner.domain.profile import ProfilerName
from tuner.errors import UsageError
from tuner.report.profiles import is_kernel
from tuner.report.profiles import parse_trace
from tuner.report.profiles import profile_of
from tuner.report.profiles import rank_flips
from tuner.report.profiles import Target
from tuner.report.profiles import TimePair
from tuner.report.profiles.names import is_copy
from tuner.report.profiles.names import is_fill

TARGET = Target("add_block", LaunchGeometry((4, 1, 1), 256, 1024))

ROCPROF_HEADER = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id",'
    '"Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size",'
    '"Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X",'
    '"Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)
NCU_COLUMNS = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC"'
)
NCU_HEADER = (
    f'{NCU_COLUMNS},"gpu__time_duration.sum","launch__registers_per_thread",'
    '"launch__shared_mem_per_block_dynamic","launch__shared_mem_per_block_static",'
    '"launch__waves_per_multiprocessor"\n'
    '"","","","","","","","","","","","ns","register/thread","byte/block","byte/block",""\n'
)


def rocprof_row(
    name: str = "add_block", begin_ns: int = 1000, took_ns: int = 9140, **cells: object
) -> str:
    values = {
        "lds": 0, "scratch": 0, "vgpr": 32, "accum": 0, "sgpr": 16, "block": 256, "grid": 1024,
        "kind": "KERNEL_DISPATCH", "dispatch": 1,
    } | cells  # fmt: skip
    return (
        f'"{values["kind"]}","Agent 4",1,1,852831,{values["dispatch"]},10,"{name}",1,{begin_ns},'
        f"{begin_ns + took_ns},{values['lds']},{values['scratch']},{values['vgpr']},"
        f"{values['accum']},{values['sgpr']},{values['block']},1,1,{values['grid']},1,1\n"
    )


def ncu_row(
    number: int, name: str = "add_block", time_ns: str = "9,140", registers: str = "32"
) -> str:
    return (
        f'"{number}","77","python","127.0.0.1","{name}","1","7","(256, 1, 1)","(4, 1, 1)","0",'
        f'"9.0","{time_ns}","{registers}","1,024","0","n/a"\n'
    )


@pytest.mark.parametrize(
    "name",
    [
        "add_block",
        "add_block(float const*, float*, long, long)",
        "void add_block<float, 256>(float*, std::pair<int, int> const&)",
        "void (anonymous namespace)::add_block<(int)4>(float*)",
        "ns::inner::add_block(float*)",
        "_Z9add_blockPKfPfll",
        "_ZN2ns9add_blockIfEEvPT_",
        "_ZN12_GLOBAL__N_19add_blockEPf",
        "add_block.kd",
        "add_block(float*) [clone .kd]",
        "add_block_0d1d2d3de",
    ],
)
def test_a_kernel_is_known_by_any_form_of_its_name(name: str) -> None:
    assert is_kernel(name, "add_block")


@pytest.mark.parametrize(
    "name",
    ["add_blocks", "my_add_block", "add_block_2", "add", "_Z10add_blocksPf", "add_block::run()",
     "void other<add_block>(float*)", "_Z99add_block", ""],
)  # fmt: skip
def test_a_kernel_is_not_taken_for_one_of_a_similar_name(name: str) -> None:
    assert not is_kernel(name, "add_block")


def test_the_runtimes_own_kernels_are_copies_and_fills() -> None:
    assert is_copy("__amd_rocclr_copyBuffer.kd")
    assert is_fill("__amd_rocclr_fillBufferAligned")
    assert not is_copy("copy_rows(float*)")


def test_a_rocprof_trace_gives_the_targets_own_dispatches_and_counts_the_others() -> None:
    text = ROCPROF_HEADER + "".join(
        [
            rocprof_row(begin_ns=90_000, took_ns=7080, dispatch=4),  # rows come in any order
            rocprof_row("__amd_rocclr_fillBufferAligned", 100, 50, vgpr=8),
            rocprof_row("void add_block<float>(float*, int)", begin_ns=20_000),
            rocprof_row("__amd_rocclr_copyBuffer", 200, 50),
            rocprof_row("add_blocks(float*)", 300, 50, vgpr=99),
            rocprof_row(begin_ns=50_000, took_ns=8680, dispatch=3),
        ]
    )

    profile = profile_of(parse_trace(text, "1_kernel_trace.csv"), TARGET)

    assert profile.profiler is ProfilerName.ROCPROFV3
    assert profile.samples_us == (9.14, 8.68, 7.08)
    assert profile.median_us == 8.68
    assert (profile.dispatches, profile.excluded_dispatches) == (3, 0)
    counts = (profile.copy_dispatches, profile.fill_dispatches, profile.other_dispatches)
    assert counts == (1, 1, 1)
    assert profile.grid == (4, 1, 1)  # 1024 threads in blocks of 256
    assert profile.block == (256, 1, 1)
    resources = profile.resources
    assert (resources.registers, resources.scalar_registers) == (32, 16)
    # 0 there is no dynamic LDS seen, not none used.
    assert (resources.shared_static_bytes, resources.shared_dynamic_bytes) == (0, None)
    assert (resources.accumulation_registers, resources.scratch_bytes) == (0, 0)
    assert profile.extra["Agent_Id"] == "Agent 4"


def test_what_a_rocprof_trace_does_not_give_is_none_and_never_0() -> None:
    text = (
        '"Kernel_Name","Start_Timestamp","End_Timestamp","VGPR_Count","SGPR_Count"\n'
        '"add_block",10,20,0,""\n'
    )

    profile = profile_of(parse_trace(text, "t.csv"), TARGET)

    resources = profile.resources
    given = (resources.registers, resources.scalar_registers, resources.shared_static_bytes)
    assert given == (None, None, None)
    assert resources.scratch_bytes is None
    assert profile.grid is None
    assert profile.block is None
    assert profile.samples_us == (0.01,)


def test_older_rocm_names_its_columns_otherwise() -> None:
    text = (
        '"Kernel_Name","Start_Timestamp","End_Timestamp","Private_Segment_Size",'
        '"Group_Segment_Size"\n"add_block",10,20,16,512\n'
    )

    resources = profile_of(parse_trace(text, "t.csv"), TARGET).resources

    assert (resources.scratch_bytes, resources.shared_static_bytes) == (16, 512)


def test_ncu_raw_csv_with_units_grouped_numbers_and_other_output() -> None:
    text = (
        "==PROF== Connected to process 77 (/usr/bin/python3.12)\nloading, please wait, really\n"
        '==PROF== Profiling "add_block" - 0: 0%....50%....100% - 1 pass\n'
        + NCU_HEADER
        + ncu_row(0, time_ns="10,196,000")
        + "==PROF== Disconnected from process 77\n"
        + NCU_HEADER  # a second process: header and units again
        + ncu_row(0, "reference_kernel(float *)")
        + ncu_row(1, "add_block(const float *, float *)", time_ns="9140.5")
        + "12 warm launches, done, bye\n"
    )

    profile = profile_of(parse_trace(text, "ncu.csv"), TARGET)

    assert profile.profiler is ProfilerName.NCU
    assert profile.samples_us == (10196.0, 9.1405)
    assert profile.other_dispatches == 1
    assert profile.copy_dispatches is None  # ncu sees kernels only
    resources = profile.resources
    assert (resources.shared_static_bytes, resources.shared_dynamic_bytes) == (0, 1024)
    assert (resources.registers, resources.scalar_registers) == (32, None)
    assert resources.scratch_bytes is None
    assert (profile.grid, profile.block) == ((4, 1, 1), (256, 1, 1))
    assert "launch__waves_per_multiprocessor" not in profile.extra  # n/a
    assert profile.extra["CC"] == "9.0"


def test_ncu_details_csv_has_a_row_for_each_metric() -> None:
    prefix = '"0","77","python","h","add_block","1","7","(256, 1, 1)","(4, 1, 1)","0","9.0"'
    metrics = [
        ("GPU Speed Of Light Throughput", "Duration", "us", "9.14"),
        ("GPU Speed Of Light Throughput", "", "", ""),
        ("Launch Statistics", "Registers Per Thread", "register/thread", "32"),
        ("Launch Statistics", "Static Shared Memory Per Block", "byte/block", "0"),
        ("Launch Statistics", "Dynamic Shared Memory Per Block", "Kbyte/block", "1.02"),
    ]
    text = f'{NCU_COLUMNS},"Section Name","Metric Name","Metric Unit","Metric Value"\n' + "".join(
        f'{prefix},"{section}","{name}","{unit}","{value}"\n'
        for section, name, unit, value in metrics
    )

    profile = profile_of(parse_trace(text, "ncu.csv"), TARGET)

    assert profile.dispatches == 1
    assert profile.samples_us == (9.14,)
    assert profile.resources.registers == 32
    assert profile.resources.shared_static_bytes == 0
    # 1.02 Kbyte is rounded: 1020 would be made up.
    assert profile.resources.shared_dynamic_bytes is None
    assert profile.extra["Dynamic Shared Memory Per Block"] == "1.02 Kbyte/block"


@pytest.mark.parametrize("unit", ["ns", "nsecond", "us", "usecond", "ms", "msecond", "s", "second"])
def test_units_of_time(unit: str) -> None:
    text = NCU_HEADER.replace('"ns"', f'"{unit}"') + ncu_row(0, time_ns="2")

    (dispatch,) = parse_trace(text, "ncu.csv").dispatches

    power = {"n": -3, "u": 0, "m": 3}.get(unit[0], 6)
    assert dispatch.time_us == pytest.approx(2 * 10.0**power, rel=1e-15)


def test_checks_and_warm_up_of_a_run_are_not_timed() -> None:
    times = [900, 800, 10, 20, 30, 700]
    text = ROCPROF_HEADER + "".join(
        rocprof_row(begin_ns=1000 * each, took_ns=time) for each, time in enumerate(times, 1)
    )
    asked = Target("add_block", TARGET.geometry, 2, 3, 1)

    profile = profile_of(parse_trace(text, "t.csv"), asked)

    assert profile.samples_us == (0.01, 0.02, 0.03)
    assert (profile.dispatches, profile.excluded_dispatches) == (6, 3)
    with pytest.raises(UsageError, match="6 dispatches of 'add_block' of 7 launches"):
        profile_of(parse_trace(text, "t.csv"), Target("add_block", TARGET.geometry, 2, 4, 1))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no dispatch"),
        ("a,b\n1,2\n", "no dispatch"),
        ('{"json": 1}', "no dispatch"),
        (ROCPROF_HEADER, "no dispatch"),
        (ROCPROF_HEADER + rocprof_row(kind="MEMORY_COPY"), "no dispatch"),
        (NCU_HEADER, "no dispatch"),
        (ROCPROF_HEADER + rocprof_row(vgpr="many"), "t.csv:2: VGPR_Count is 'many'"),
        (ROCPROF_HEADER + rocprof_row(vgpr="-3"), "t.csv:2: VGPR_Count"),
        (ROCPROF_HEADER + rocprof_row(vgpr="1.5"), "not a whole number"),
        (ROCPROF_HEADER + rocprof_row(vgpr="9" * 30), "not a whole number"),
        (ROCPROF_HEADER + rocprof_row(vgpr="1e999"), "not a number"),
        (ROCPROF_HEADER + rocprof_row(vgpr="inf"), "not a number"),
        (ROCPROF_HEADER + rocprof_row(took_ns=0), "is not after"),
        (ROCPROF_HEADER + rocprof_row(took_ns=-5), "is not after"),
        (ROCPROF_HEADER + rocprof_row(block=0), "no axis can be 0"),
        (ROCPROF_HEADER + rocprof_row(""), "Kernel_Name is empty"),
        (ROCPROF_HEADER + rocprof_row() + rocprof_row()[:40], "t.csv:3: 6 cells"),
        (ROCPROF_HEADER.replace("Queue_Id", "Agent_Id") + rocprof_row(), "there twice"),
        (ROCPROF_HEADER + rocprof_row() + NCU_HEADER, "two profilers"),
        (NCU_HEADER + ncu_row(0, time_ns="fast"), "t.csv:3: gpu__time_duration.sum is 'fast'"),
        (NCU_HEADER + ncu_row(0, time_ns="1,2,3"), "not a number"),
        (NCU_HEADER + ncu_row(0, time_ns="0"), "is 0"),
        (NCU_HEADER.replace('"ns"', '"cycle"') + ncu_row(0), "no known unit"),
        (NCU_HEADER + ncu_row(0).replace("(4, 1, 1)", "4x1"), "not a size"),
        (NCU_HEADER + ncu_row(0) + ncu_row(1)[:60], "cells under a header"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_trace(text, "t.csv")

    assert says in caught.value.message
    assert "\n" not in caught.value.message


def test_a_profile_of_something_else_is_refused() -> None:
    other_kernel = parse_trace(ROCPROF_HEADER + rocprof_row("add_serial(float*)"), "t.csv")
    other_grid = parse_trace(ROCPROF_HEADER + rocprof_row(grid=2048), "t.csv")
    other_block = parse_trace(ROCPROF_HEADER + rocprof_row(block=128, grid=512), "t.csv")
    two_configs = parse_trace(NCU_HEADER + ncu_row(0) + ncu_row(1, registers="40"), "t.csv")

    for trace, says in (
        (other_kernel, "there are 'add_serial'"),
        (other_grid, "grid 8x1x1"),
        (other_block, "block 128x1x1"),
        (two_configs, "several configs: lines 3 and 4"),
    ):
        with pytest.raises(UsageError, match=says):
            profile_of(trace, TARGET)


def test_launches_of_another_geometry_count_as_others() -> None:
    text = ROCPROF_HEADER + rocprof_row() + rocprof_row(begin_ns=50_000, grid=2048)

    profile = profile_of(parse_trace(text, "t.csv"), TARGET)

    assert (profile.dispatches, profile.other_dispatches) == (1, 1)


def test_only_times_that_can_be_told_apart_are_ranked() -> None:
    fast = TimePair(1, "1 row", (15.0, 15.8, 16.0), (7.9, 8.0, 8.1))
    slow = TimePair(2, "2 rows", (26.0, 26.3, 27.0), (7.0, 7.1, 7.2))
    unsure = TimePair(3, "4 rows", (26.0, 26.3, 27.0), (7.0, 7.1, 8.0))

    assert rank_flips([slow, fast, unsure]) == [(fast, slow)]
    assert rank_flips([fast, unsure]) == []
    assert rank_flips([fast]) == []
