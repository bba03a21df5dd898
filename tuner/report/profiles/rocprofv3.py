"""Reads the kernel trace of rocprofv3: ``*_kernel_trace.csv``, one row a dispatch, times in ns.

Grids are in threads there; here they are in blocks. ``LDS_Block_Size`` is the kernel's static LDS
only: a kernel with 1 KiB of dynamic LDS shows 0, so that dynamic LDS is not known from a trace.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.profile import Dispatch
from tuner.domain.profile import KernelResources
from tuner.domain.profile import ProfilerName
from tuner.domain.profile import Size3
from tuner.domain.profile import Trace
from tuner.report.profiles.fields import Row

NEEDED = frozenset({"Kernel_Name", "Start_Timestamp", "End_Timestamp"})
KERNEL_KIND = "KERNEL_DISPATCH"
# ROCm before 6.3 named two columns after the packet's fields.
_LDS = ("LDS_Block_Size", "Group_Segment_Size")
_SCRATCH = ("Scratch_Size", "Private_Segment_Size")
_AXES = tuple(f"{name}_{axis}" for name in ("Workgroup_Size", "Grid_Size") for axis in "XYZ")
_KNOWN = frozenset(
    {
        *NEEDED,
        *_LDS,
        *_SCRATCH,
        *_AXES,
        *("Kind", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count"),
        # They number the rows of one trace and say nothing of the kernel.
        *("Dispatch_Id", "Correlation_Id"),
    }
)


def parse(rows: Sequence[Row]) -> Trace:
    """Return the dispatches of a kernel trace.

    Raises:
        UsageError: A row is malformed, or times are impossible; names the line.
    """
    found = [(row.number("Start_Timestamp"), _dispatch(row)) for row in rows if _is_kernel(row)]
    found.sort(key=lambda each: (each[0] or 0.0, each[1].line))  # rows come in any order
    dispatches = tuple(dispatch for _, dispatch in found)
    return Trace(ProfilerName.ROCPROFV3, dispatches, shows_copies=True)


def _is_kernel(row: Row) -> bool:
    return row.text("Kind") in (None, KERNEL_KIND)


def _dispatch(row: Row) -> Dispatch:
    name = row.text("Kernel_Name")
    if name is None:
        raise row.error("Kernel_Name is empty")
    block = row.axes("Workgroup_Size")
    return Dispatch(
        line=row.line,
        kernel_name=name,
        time_us=_time_us(row),
        grid=_blocks(row, block),
        block=block,
        resources=KernelResources(
            # No kernel runs without registers: a 0 says that they were not read.
            registers=row.whole("VGPR_Count") or None,
            accumulation_registers=row.whole("Accum_VGPR_Count"),
            scalar_registers=row.whole("SGPR_Count") or None,
            shared_static_bytes=row.whole(*_LDS),
            shared_dynamic_bytes=None,
            scratch_bytes=row.whole(*_SCRATCH),
        ),
        extra=row.rest(_KNOWN),
    )


def _time_us(row: Row) -> float | None:
    begin, end = row.whole("Start_Timestamp"), row.whole("End_Timestamp")
    if begin is None or end is None:
        return None
    if end <= begin:
        raise row.error(f"End_Timestamp {end} is not after Start_Timestamp {begin}")
    return (end - begin) / 1000


def _blocks(row: Row, block: Size3 | None) -> Size3 | None:
    threads = row.axes("Grid_Size")
    if threads is None or block is None:
        return None
    x, y, z = (-(-total // each) for total, each in zip(threads, block, strict=True))
    return (x, y, z)
