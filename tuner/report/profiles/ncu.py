"""Reads the CSV of Nsight Compute (``ncu --csv``): page ``raw`` and page ``details``.

``raw`` has one row a dispatch, metrics as columns, and a row of units under the header;
``details`` has one row a metric. Numbers are quoted and grouped (``53,261,312``), what a device
doesn't have is ``n/a``, and the profiled program's own output stands before and between.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.profile import Dispatch
from tuner.domain.profile import KernelResources
from tuner.domain.profile import NcuMetric
from tuner.domain.profile import ProfilerName
from tuner.domain.profile import Trace
from tuner.report.profiles.fields import Row

NEEDED = frozenset({"ID", "Kernel Name"})
_LONG = frozenset({"Metric Name", "Metric Unit", "Metric Value"})

# How page ``details`` names the same metrics when whole sections were collected.
_TITLES = {
    NcuMetric.DURATION: "Duration",
    NcuMetric.REGISTERS: "Registers Per Thread",
    NcuMetric.STATIC_SHARED: "Static Shared Memory Per Block",
    NcuMetric.DYNAMIC_SHARED: "Dynamic Shared Memory Per Block",
}
_KNOWN_COLUMNS = frozenset({*NEEDED, "Process ID", "Host Name", "Block Size", "Grid Size"})
_TO_US = {
    "ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0,
    "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6,
}  # fmt: skip
# A size in Kbyte is rounded to 10 bytes: 1024 bytes are printed as 1.02 Kbyte. It is no size here,
# but kept as written with the other columns; `--print-units base` prints bytes.
_EXACT_SIZES = frozenset({"", "byte", "byte/block"})


@dataclass(frozen=True, slots=True)
class _Launch:
    """The metrics of one dispatch: value and unit by name, as cells of their first row."""

    row: Row
    units: Mapping[str, str]


def parse(rows: Sequence[Row]) -> Trace:
    """Return the dispatches of a file.

    Raises:
        UsageError: A row is malformed or a unit is not known; names the line.
    """
    is_long = [row.cells.keys() >= _LONG for row in rows]
    if any(is_long) and not all(is_long):
        raise rows[is_long.index(not is_long[0])].error("two pages of ncu in one file")
    launches = _pivoted(rows) if all(is_long) else _wide(rows)
    dispatches = tuple(_dispatch(each) for each in launches)
    return Trace(ProfilerName.NCU, dispatches, shows_copies=False)


def _wide(rows: Sequence[Row]) -> list[_Launch]:
    launches: list[_Launch] = []
    units: Mapping[str, str] = {}
    for row in rows:
        if row.text("ID") is None and row.text("Kernel Name") is None:
            units = row.cells  # the row under a header
        else:
            launches.append(_Launch(row, units))
    return launches


def _pivoted(rows: Sequence[Row]) -> list[_Launch]:
    """Join the rows of each dispatch: same process and same id."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.cells.get("Process ID", ""), row.cells["ID"]), []).append(row)
    launches = []
    for group in found.values():
        first = group[0]
        cells = {name: text for name, text in first.cells.items() if name in _KNOWN_COLUMNS}
        units: dict[str, str] = {}
        for row in group:
            name = row.text("Metric Name")
            if name is not None:  # advice of a rule has none
                # Two sections may give one title in two units, as %, then as a rate.
                key = name if name not in cells else f"{name} ({row.cells['Metric Unit']})"
                cells[key] = row.cells["Metric Value"]
                units[key] = row.cells["Metric Unit"]
        launches.append(_Launch(Row(first.file, first.line, cells), units))
    return launches


def _dispatch(launch: _Launch) -> Dispatch:
    row = launch.row
    name = row.text("Kernel Name")
    if name is None:
        raise row.error("Kernel Name is empty")
    static, dynamic = (
        _bytes(launch, NcuMetric.STATIC_SHARED),
        _bytes(launch, NcuMetric.DYNAMIC_SHARED),
    )
    used = [NcuMetric.DURATION, NcuMetric.REGISTERS]
    used += [NcuMetric.STATIC_SHARED] if static is not None else []
    used += [NcuMetric.DYNAMIC_SHARED] if dynamic is not None else []
    known = frozenset({*_KNOWN_COLUMNS, *used, *(_TITLES[each] for each in used)})
    return Dispatch(
        line=row.line,
        kernel_name=name,
        time_us=_time_us(launch),
        grid=row.size3("Grid Size"),
        block=row.size3("Block Size"),
        resources=KernelResources(
            registers=row.whole(NcuMetric.REGISTERS, _TITLES[NcuMetric.REGISTERS]) or None,
            shared_static_bytes=static,
            shared_dynamic_bytes=dynamic,
        ),
        extra={
            column: f"{text} {launch.units.get(column, '')}".strip()
            for column, text in row.rest(known).items()
        },
    )


def _time_us(launch: _Launch) -> float | None:
    value, unit = _measured(launch, NcuMetric.DURATION)
    if value is None:
        return None
    if unit not in _TO_US:
        raise launch.row.error(
            f"{NcuMetric.DURATION} is in {unit[:20]!r}, which is no known unit of time"
        )
    if value == 0:
        raise launch.row.error(f"{NcuMetric.DURATION} is 0")
    return value * _TO_US[unit]


def _bytes(launch: _Launch, metric: NcuMetric) -> int | None:
    value, unit = _measured(launch, metric)
    return round(value) if value is not None and unit in _EXACT_SIZES else None


def _measured(launch: _Launch, metric: NcuMetric) -> tuple[float | None, str]:
    """Return a metric's value and its unit, under its own name or its title."""
    for column in (metric, _TITLES[metric]):
        value = launch.row.number(column)
        if value is not None:
            return value, launch.units.get(column, "").strip()
    return None, ""
