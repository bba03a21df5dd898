"""``tuner profile``: a trial's kernel as the vendor's profiler sees it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli import options
from tuner.domain.identity import canonical_json
from tuner.domain.identity import config_text
from tuner.domain.identity import Plain
from tuner.errors import UsageError

COLUMNS = (
    *("profile_id", "trial_id", "profiler", "profiler_version", "kernel_name"),
    *("kernel_median_us", "kernel_samples_us", "dispatches", "excluded_dispatches"),
    *("copy_dispatches", "fill_dispatches", "other_dispatches"),
    *("registers", "accumulation_registers", "scalar_registers"),
    *("shared_static_bytes", "shared_dynamic_bytes", "scratch_bytes", "grid", "block"),
    *("origin", "file_name", "file_sha256", "environment_key", "created_at"),
)
LIST_COLUMNS = (
    *("profile_id", "profiler", "profiler_version", "kernel_median_us", "dispatches", "registers"),
    *("shared_static_bytes", "shared_dynamic_bytes", "scratch_bytes", "grid", "block"),
    *("origin", "file_name", "created_at"),
)
_SHOWN = (
    ("dispatches", "dispatches of the kernel"),
    ("excluded_dispatches", "of them checks and warm-up"),
    ("copy_dispatches", "copies"),
    ("fill_dispatches", "memory fills"),
    ("other_dispatches", "other kernels"),
    ("registers", "registers a thread"),
    ("accumulation_registers", "accumulation registers"),
    ("scalar_registers", "scalar registers a wave"),
    ("shared_static_bytes", "static shared memory, bytes"),
    ("shared_dynamic_bytes", "dynamic shared memory, bytes"),
    ("scratch_bytes", "scratch a thread, bytes"),
    ("grid", "grid, blocks"),
    ("block", "block, threads"),
)

_GIVEN = frozenset({"kernel_median_us", *(name for name, _ in _SHOWN)})
_AXES = {name: tuple(f"{name}_{axis}" for axis in "xyz") for name in ("grid", "block")}


class Profiler(StrEnum):
    """Which profiler runs."""

    AUTO = "auto"
    ROCPROFV3 = "rocprofv3"
    NCU = "ncu"


def profile(
    trial: Annotated[int, typer.Argument(help="Id of a valid trial.", min=1)],
    device: options.Device = None,
    profiler: Annotated[
        Profiler, typer.Option("--profiler", help="auto: that of the device's vendor.")
    ] = Profiler.AUTO,
    launches: Annotated[
        int, typer.Option("--launches", help="Launches to take the time of.", min=1, max=1000)
    ] = 5,
    from_file: Annotated[
        Path | None,
        typer.Option("--from", help="Import a profiler's CSV instead.", metavar="FILE"),
    ] = None,
    list_stored: Annotated[
        bool, typer.Option("--list", help="List the trial's stored profiles.")
    ] = False,
    operators: options.Operators = None,
    db: options.Db = None,
    format_name: options.FormatOption = options.Format.TABLE,
    output: options.Output = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,  # noqa: ARG001 - main() looks at it
) -> None:
    """Run a trial's kernel once under the vendor's profiler, or import a profiler's CSV.

    Needs ncu (NVIDIA) or rocprofv3 (AMD). What the profiler does not give is "unavailable".
    """
    from tuner import api

    options.set_up_logging(quiet=quiet, verbose=verbose)
    settings = options.settings_from(db, operators=operators)
    runs = device is not None or profiler is not Profiler.AUTO
    if sum((from_file is not None, list_stored, runs)) > 1:
        raise UsageError(
            "--from, --list and a run of a profiler (--device, --profiler) exclude each other",
            hint="choose one of them",
        )
    if list_stored:
        _print_rows(api.list_profiles(trial, settings), format_name, output)
        return
    if from_file is not None:
        answer = api.import_profile(trial, from_file, settings=settings)
    else:
        answer = api.profile_trial(
            trial,
            device=device,
            profiler=None if profiler is Profiler.AUTO else profiler.value,
            launches=launches,
            settings=settings,
        )
    _print_answer(answer, format_name, output, quiet=quiet)


def _print_rows(
    rows: list[dict[str, Plain]], format_name: options.Format, output: Path | None
) -> None:
    from tuner.cli.output import print_rows

    columns: tuple[str, ...] = (*COLUMNS, "extra")
    if format_name is options.Format.TABLE:
        columns = LIST_COLUMNS
        rows = [{name: _or_unavailable(name, row[name]) for name in columns} for row in rows]
    elif format_name is options.Format.CSV:
        rows = [_flat(row) for row in rows]
        columns = tuple(name for column in columns for name in _AXES.get(column, (column,)))
    print_rows(
        rows,
        columns,
        schema="tuner.profiles/1",
        format_name=format_name,
        output=output,
    )


def _or_unavailable(name: str, value: Plain) -> Plain:
    return "unavailable" if value is None and name in _GIVEN else value


def _flat(row: Mapping[str, Plain]) -> dict[str, Plain]:
    """Return a profile with one number a cell, and JSON where there are many values."""
    flat = dict(row)
    for name, axes in _AXES.items():
        flat |= zip(axes, row[name] or (None, None, None), strict=True)
    for name in ("kernel_samples_us", "extra"):
        flat[name] = None if row[name] is None else canonical_json(row[name])
    return flat


def _print_answer(
    answer: dict[str, Plain], format_name: options.Format, output: Path | None, *, quiet: bool
) -> None:
    from tuner.cli.output import print_object
    from tuner.cli.output import print_text
    from tuner.cli.output import say

    if format_name is options.Format.JSON:
        print_object(answer, output=output)
    elif format_name is options.Format.CSV:
        _print_rows([answer["profile"]], format_name, output)
    else:
        print_text("\n".join(_lines(answer)), output=output)
    if not quiet:
        for note in answer["notes"]:
            say(f"note: {note}")
    for warning in answer["warnings"]:
        say(f"warning: {warning}")


def _lines(answer: Mapping[str, Plain]) -> list[str]:
    from tuner.cli.output import shown

    found = answer["profile"]
    # Kernel and file name are others' texts: nothing in them may steer a terminal.
    name, file = (ascii(found[key] or "")[1:-1] for key in ("kernel_name", "file_name"))
    version = found["profiler_version"] or "of unknown version"
    shape = "x".join(str(size) for size in answer["workload"]["shape"])
    where = "run here" if found["origin"] == "run" else f"from {file}"
    pairs = [
        ("trial", answer["trial_id"]),
        ("kernel", f"{name}: {answer['implementation']}, {shape}"),
        ("config", config_text(answer["config"])),
        ("profiler", f"{found['profiler']} {version}, {where}"),
        (f"event time, us ({answer['event_stage']})", answer["event_median_us"]),
        ("profiler time, us", _times(found["kernel_median_us"], found["kernel_samples_us"])),
        *((label, found[name]) for name, label in _SHOWN),
    ]
    width = max(len(label) for label, _ in pairs)
    lines = [
        f"{label:<{width}}  {'unavailable' if value is None else shown(value)}"
        for label, value in pairs
    ]
    if len(answer["comparison"]) > 1:
        lines += ["", "profiled trials of this workload, by event time:"]
        lines += [_comparison_line(row) for row in answer["comparison"]]
    return lines


def _times(median_us: float | None, samples_us: list[float] | None) -> str | None:
    if median_us is None or not samples_us:
        return None
    return (
        f"{median_us:.4g} (median of {len(samples_us)}, "
        f"{min(samples_us):.4g} to {max(samples_us):.4g})"
    )


def _comparison_line(row: Mapping[str, Plain]) -> str:
    return (
        f"  trial {row['trial_id']:>6}  event {row['event_median_us']:>10.4g} us  "
        f"profiler {row['kernel_median_us']:>10.4g} us  {row['config']}"
    )
