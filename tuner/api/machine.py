"""What this machine can do: devices, doctor, compiling for other architectures."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable

from tuner import __version__
from tuner.api.common import find_operator
from tuner.api.common import open_database
from tuner.domain.device import DeviceFacts
from tuner.domain.device import DeviceListing
from tuner.domain.identity import Plain
from tuner.domain.job import CompileJob
from tuner.domain.space import first_violation
from tuner.domain.space import grid_configs
from tuner.domain.workload import parse_shape
from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.operator import Implementation
from tuner.operator import Operator
from tuner.settings import load_settings
from tuner.settings import Settings

COMPILE_TIMEOUT_S = 300.0
DEFAULT_SHAPES = {1: (4096,), 2: (1024, 4096)}
# SQLite before 3.51.3 can corrupt a WAL database when two connections checkpoint at once
# (sqlite.org, "The WAL-reset bug"); tuner never lets two do so.
SQLITE_WITHOUT_WAL_RESET_BUG = (3, 51, 3)
_ARCHITECTURE = re.compile(r"gfx[0-9a-f]{3,5}|sm_\d{2,3}a?")


def list_devices(settings: Settings) -> list[DeviceListing]:
    """Return all devices, usable or not, with the reasons."""
    from tuner.worker.pool import list_devices as ask_worker

    return ask_worker(settings)


def compile_operator(
    operator: str,
    architecture: str,
    *,
    shape: str | None = None,
    dtype: str = "float32",
    implementation: str | None = None,
    settings: Settings | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Plain]]:
    """Build every config of an operator for an architecture, without a device of it.

    Raises:
        UsageError: The architecture or the shape is not understood.
        NotFound: There is no such operator.
    """
    from tuner.worker.pool import Compiler

    settings = settings or load_settings()
    found = find_operator(operator, settings)
    facts = facts_of_architecture(architecture)
    default_shape = DEFAULT_SHAPES.get(len(found.dims), (64,) * len(found.dims))
    workload = found.workload(parse_shape(shape) if shape else default_shape, dtype)
    chosen = (
        found.implementations if implementation is None else [found.implementation(implementation)]
    )
    rows: list[dict[str, Plain]] = []
    with Compiler(settings) as compiler:
        for each in chosen:
            if progress:
                progress(f"compiling {each.name} for {architecture}")
            jobs = _compile_jobs(found, each, workload, facts)
            for row, job in jobs:
                report = compiler.compile(job, COMPILE_TIMEOUT_S) if job else None
                if report is not None:
                    build = report.build
                    row |= {
                        "state": "ok" if build else "failed",
                        "message": report.error or None,
                        "log": report.log or None,
                    }
                    for name in _BUILD_FIELDS:
                        row[name] = getattr(build, name) if build else None
                rows.append(row)
    return rows


_BUILD_FIELDS = (
    "registers", "spills", "spill_bytes", "shared_bytes", "code_bytes", "build_s", "compiler",
    "binary_hash",
)  # fmt: skip


def _compile_jobs(
    operator: Operator, implementation: Implementation, workload: Workload, facts: DeviceFacts
) -> list[tuple[dict[str, Plain], CompileJob | None]]:
    dims = operator.dimensions(workload)
    source = operator.source(implementation)
    jobs: list[tuple[dict[str, Plain], CompileJob | None]] = []
    for config in grid_configs(implementation.parameters(dims)):
        row: dict[str, Plain] = {
            "implementation": implementation.name,
            "config": dict(config),
            "shape": workload.shape_text,
        }
        violation = first_violation(config, dims, facts, implementation.constraints)
        if violation is not None:
            jobs.append(({**row, "state": "skipped", "message": str(violation)}, None))
            continue
        kernel = operator.kernel(implementation, source, config, workload)
        jobs.append((row, CompileJob(kernel, facts.architecture, facts.wave_size)))
    return jobs


def facts_of_architecture(architecture: str) -> DeviceFacts:
    """Return the limits that decide what is worth compiling for an architecture.

    gfx9 (GCN, CDNA) runs waves of 64, later AMD architectures and NVIDIA of 32; 1024 threads a
    block and 64 KiB of LDS hold for all of them. Only compiling goes by these; a run reads its
    limits from the device.
    """
    if not _ARCHITECTURE.fullmatch(architecture):
        raise UsageError(
            f"architecture {architecture[:40]!r} is not understood",
            hint="such as gfx1201, gfx942 or sm_90",
        )
    is_amd = architecture.startswith("gfx")
    return DeviceFacts(
        device_id="none",
        kind="hip" if is_amd else "cuda",
        architecture=architecture,
        name=architecture,
        compute_units=0,
        wave_size=64 if is_amd and re.fullmatch(r"gfx9[0-9a-f]{2}", architecture) else 32,
        max_threads_per_block=1024,
        max_grid=(2**31 - 1, 65535, 65535),
        max_grid_threads=2**32 - 1 if is_amd else 2**63 - 1,
        max_shared_bytes=65536 if is_amd else 232448,
        max_registers_per_thread=256 if is_amd else 255,
        memory_bytes=0,
        cache_bytes=0,
        timer="none",
    )


def diagnose(settings: Settings) -> list[dict[str, str]]:
    """Return what was checked, its state (ok, missing, broken), the finding and the remedy."""
    rows = [_row("tuner", "ok", f"version {__version__}")]
    rows += _device_rows(settings)
    rows.append(_cache_row(settings))
    rows.append(_sqlite_row())
    rows.append(_database_row(settings))
    return rows


def _row(check: str, state: str, finding: str, remedy: str = "") -> dict[str, str]:
    return {"check": check, "state": state, "finding": finding, "remedy": remedy}


def _device_rows(settings: Settings) -> list[dict[str, str]]:
    try:
        listings = list_devices(settings)
    except TunerError as error:
        return [_row("worker process", "broken", error.message, error.hint)]
    rows: list[dict[str, str]] = []
    for each in listings:
        if not each.usable:
            rows.append(_row(f"device {each.device_id}", "missing", each.reason, each.remedy))
            continue
        rows.append(
            _row(
                f"device {each.device_id}",
                "ok",
                f"{each.name or each.device_id} ({each.architecture})",
            )
        )
        for language, reason in sorted(each.languages.items()):
            check = f"{language} on {each.device_id}"
            remedy = _LANGUAGE_REMEDIES.get((language, each.device_id), "") if reason else ""
            rows.append(_row(check, "missing" if reason else "ok", reason or "usable", remedy))
    return rows


_LANGUAGE_REMEDIES = {
    ("hip", "cpu"): "install g++ or clang++ (Debian: apt-get install g++)",
    ("triton", "cpu"): "pip install 'tuner[triton]'",
}


def _cache_row(settings: Settings) -> dict[str, str]:
    directory = settings.cache_dir
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".doctor"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        finding = f"{directory} can't be written: {error.strerror}"
        return _row("cache folder", "broken", finding, "set TUNER_CACHE_DIR to a writable folder")
    free_gb = shutil.disk_usage(directory).free / 1e9
    return _row("cache folder", "ok", f"{directory}, {free_gb:.0f} GB free")


def _sqlite_row() -> dict[str, str]:
    finding = f"version {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < SQLITE_WITHOUT_WAL_RESET_BUG:
        finding += (
            ": concurrent checkpoints could corrupt a database before 3.51.3; "
            "tuner has one writer and readers that never checkpoint"
        )
    return _row("SQLite", "ok", finding)


def _database_row(settings: Settings) -> dict[str, str]:
    try:
        with open_database(settings, create=False, writable=False) as store:
            info = store.info()
    except NotFound as error:
        return _row("database", "ok", f"{error.message}; the first tuner run makes it")
    except TunerError as error:
        return _row("database", "broken", error.message, error.hint)
    finding = f"{info.database}, {info.system}, revision {info.revision}"
    return _row("database", "ok", f"{finding}; {info.warning}" if info.warning else finding)
