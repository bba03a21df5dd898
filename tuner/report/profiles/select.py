"""Picks the target kernel's own dispatches out of a trace, and counts the others apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.identity import Plain
from tuner.domain.job import LaunchGeometry
from tuner.domain.profile import Dispatch
from tuner.domain.profile import KernelProfile
from tuner.domain.profile import Trace
from tuner.domain.workload import shape_text
from tuner.errors import UsageError
from tuner.report.profiles.names import base_name
from tuner.report.profiles.names import is_copy
from tuner.report.profiles.names import is_fill
from tuner.report.profiles.names import is_kernel

_SHOWN_NAMES = 5


@dataclass(frozen=True, slots=True)
class Target:
    """The kernel that is looked for.

    Attributes:
        entry: Name of the kernel function.
        geometry: How the trial launched it.
        untimed_before: Launches that check the output or warm up, before the timed ones.
        launches: Timed launches; None where the order of a trace is not known: all count.
        untimed_after: Launches that check the output after them.
    """

    entry: str
    geometry: LaunchGeometry
    untimed_before: int = 0
    launches: int | None = None
    untimed_after: int = 0


def profile_of(trace: Trace, target: Target, profiler_version: str | None = None) -> KernelProfile:
    """Return what a trace tells of the target kernel.

    Raises:
        UsageError: The kernel is not in it, ran in another geometry only, was launched more or
            less often than asked for, or its dispatches are of several configs.
    """
    named = [each for each in trace.dispatches if is_kernel(each.kernel_name, target.entry)]
    if not named:
        raise UsageError(
            f"no dispatch of kernel {target.entry!r}; there are {_names(trace.dispatches)}",
            hint="profile the program that launches this trial's kernel",
        )
    own = [each for each in named if _fits(each, target.geometry)]
    if not own:
        grid, threads = shape_text(target.geometry.grid), target.geometry.threads
        raise UsageError(
            f"kernel {target.entry!r} ran with grid {_size(named[0].grid)}, block "
            f"{_size(named[0].block)}; this trial launches grid {grid}"
            + (f", block of {threads}" if threads else ""),
            hint="the profile must be of the trial's own workload and config",
        )
    _require_one_config(own)
    timed = _timed(own, target)
    own_ids = {id(each) for each in own}
    rest = [each.kernel_name for each in trace.dispatches if id(each) not in own_ids]
    copies, fills = sum(map(is_copy, rest)), sum(map(is_fill, rest))
    return KernelProfile(
        profiler=trace.profiler,
        profiler_version=profiler_version,
        kernel_name=own[0].kernel_name,
        dispatches=len(own),
        excluded_dispatches=len(own) - len(timed),
        samples_us=tuple(each.time_us for each in timed if each.time_us is not None),
        copy_dispatches=copies if trace.shows_copies else None,
        fill_dispatches=fills if trace.shows_copies else None,
        other_dispatches=len(rest) - copies - fills,
        grid=own[0].grid,
        block=own[0].block,
        resources=own[0].resources,
        extra=_joined_extra(timed),
    )


def _size(size: Sequence[int] | None) -> str:
    return "unknown" if size is None else shape_text(size)


def _fits(dispatch: Dispatch, geometry: LaunchGeometry) -> bool:
    """Tell whether a dispatch has the trial's geometry, as far as both are known."""
    if dispatch.grid is not None and dispatch.grid != geometry.grid:
        return False
    if dispatch.block is None or not geometry.threads:
        return True  # Triton fixes the threads by num_warps and the device's wave size
    x, y, z = dispatch.block
    return x * y * z == geometry.threads


def _require_one_config(own: Sequence[Dispatch]) -> None:
    first = own[0]
    for each in own[1:]:
        if (each.block, each.resources) != (first.block, first.resources):
            raise UsageError(
                f"the dispatches of {base_name(first.kernel_name)!r} are of several configs: lines "
                f"{first.line} and {each.line} differ in block or resources",
                hint="give the profile of one config",
            )


def _timed(own: list[Dispatch], target: Target) -> list[Dispatch]:
    """Leave out checks and warm-up: they ran on caches of another state."""
    if target.launches is None:
        return own
    expected = target.untimed_before + target.launches + target.untimed_after
    if len(own) != expected:
        raise UsageError(
            f"the profiler saw {len(own)} dispatches of {target.entry!r} of {expected} launches",
            hint="run it again; if it stays so, profile by hand and import the file with --from",
        )
    return own[target.untimed_before : target.untimed_before + target.launches]


def _joined_extra(dispatches: Sequence[Dispatch]) -> dict[str, Plain]:
    """Return one value for each further column, or a list where the dispatches differ."""
    found: dict[str, Plain] = {}
    for column in sorted({name for each in dispatches for name in each.extra}):
        values = [each.extra.get(column) for each in dispatches]
        found[column] = values[0] if len(set(values)) == 1 else values
    return found


def _names(dispatches: Sequence[Dispatch]) -> str:
    names = sorted({base_name(each.kernel_name)[:80] for each in dispatches})
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(map(repr, names[:_SHOWN_NAMES])) + more
