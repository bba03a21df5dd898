"""Makes a database of a given size, to measure how long its answers take.

Made-up times (log-normal, by a seed) in real rows: all columns, constraints and checksums of the
store, written in bulk. Environments: this machine's CPU, as a worker reads it, and some made up;
operators: those shipped with their real sources, each again under a second, made-up name. Each
workload was tuned in every environment; 8 trials of it are confirmed by 3 processes of 50
samples, the others have the quick stage's 7 samples, are skipped or failed.

    python benchmarks/fill_database.py --db URL [--trials 1000000]

The database must hold no trial yet; it is made where there is none.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime
from datetime import timedelta
from datetime import UTC
from typing import Any

import numpy as np
from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import select
from sqlalchemy import text
from sqlalchemy.orm import DeclarativeBase

from tuner.api.common import all_operators
from tuner.api.common import open_worker
from tuner.domain.environment import Environment
from tuner.domain.identity import canonical_json
from tuner.domain.identity import Config
from tuner.domain.identity import content_hash
from tuner.domain.protocol import Protocol
from tuner.domain.stats import median
from tuner.domain.study import SourceText
from tuner.domain.workload import Workload
from tuner.kernel_source import KernelSource
from tuner.operator import Operator
from tuner.settings import load_settings
from tuner.store import open_store
from tuner.store import reports
from tuner.store import rows
from tuner.store.checksums import CHECKSUM_COLUMN
from tuner.store.checksums import row_checksum
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import ProcessRow
from tuner.store.models import ProtocolRow
from tuner.store.models import SampleRow
from tuner.store.models import SourceRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import ValidationRow
from tuner.store.models import WorkloadRow
from tuner.store.server import go_on_counting
from tuner.store.table import find_or_insert
from tuner.store.table import insert_row
from tuner.store.table import table_of

SEED = 20261202
TRIALS_PER_WORKLOAD = 100  # in one environment
WORKLOADS_PER_STUDY = 50
CONFIRMED = 8
QUICK_SAMPLES = 7
PROTOCOL = Protocol()
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
# What becomes of a config: as in a real sweep over a small space, a third breaks a constraint.
FATES = ("ok",) * 62 + ("skipped",) * 32 + ("compile_error",) * 4 + ("wrong_result",) * 2
LOG = "kernel.hip:41:17: error: static assertion failed: block does not divide the row\n" * 20
# Made up: each is the CPU's environment with these fields changed.
ELSEWHERE = (
    {"architecture": "sm_90", "driver": "580.159.04", "compute_units": "132"},
    {"architecture": "gfx1201", "driver": "7.1.0", "compute_units": "32"},
    {"architecture": "gfx1201", "driver": "7.2.2", "compute_units": "32"},
    {"architecture": "gfx942", "driver": "7.2.2", "compute_units": "304"},
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """An implementation as a database row knows it."""

    row_id: int
    name: str
    source_hash: str
    configs: tuple[Config, ...]


@dataclass(slots=True)
class Batch:
    """Rows of the large tables, complete, in the order of their columns."""

    rows: dict[type[DeclarativeBase], list[tuple[Any, ...]]] = field(
        default_factory=lambda: {
            model: [] for model in (TrialRow, ProcessRow, SampleRow, ValidationRow)
        }
    )

    def add(self, model: type[DeclarativeBase], values: dict[str, Any], samples: Any = ()) -> None:
        """Add a row with its checksum. Columns not given are NULL."""
        table = table_of(model)
        row = {name: values.get(name) for name in table.columns.keys()}  # noqa: SIM118
        row[CHECKSUM_COLUMN] = row_checksum(table.name, row, samples)
        self.rows[model].append(tuple(row.values()))


class Filler:
    """Makes trials of one study after another.

    Args:
        first_trial_id: Ids go up from here.
    """

    def __init__(self, first_trial_id: int = 1) -> None:
        self._random = np.random.default_rng(SEED)
        self._trial_ids = itertools.count(first_trial_id)
        self._process_ids = itertools.count(1)
        self._validation_ids = itertools.count(1)

    def workload(
        self, batch: Batch, ids: dict[str, int], kernels: Sequence[Kernel], bytes_moved: int
    ) -> None:
        """Add a workload's trials in one environment.

        Args:
            batch: Where to.
            ids: Rows of study, workload, environment and protocol.
            kernels: What is swept.
            bytes_moved: Of the workload.
        """
        points = [(kernel, config) for kernel in kernels for config in kernel.configs]
        points = points[:TRIALS_PER_WORKLOAD]
        fates = self._random.choice(len(FATES), len(points))
        medians = bytes_moved / 2e6 * self._random.lognormal(0.3, 0.4, len(points)) + 2.0
        is_ok = [FATES[fate] == "ok" for fate in fates]
        ranked = sorted((m, i) for i, m in enumerate(medians) if is_ok[i])
        finalists = {index for _, index in ranked[:CONFIRMED]}
        for index, (kernel, config) in enumerate(points):
            trial = self._trial(ids, kernel, config, FATES[fates[index]])
            if is_ok[index]:
                trial["bytes_moved"] = bytes_moved
                trial |= self._measure(batch, trial, float(medians[index]), index in finalists)
            batch.add(TrialRow, trial)

    def _trial(
        self, ids: dict[str, int], kernel: Kernel, config: Config, fate: str
    ) -> dict[str, Any]:
        trial_id = next(self._trial_ids)
        started_at = FIRST_DAY + timedelta(seconds=trial_id * 0.75)
        trial: dict[str, Any] = {
            **ids,
            "id": trial_id,
            "implementation_id": kernel.row_id,
            "source_hash": kernel.source_hash,
            "config": canonical_json(dict(config)),
            "config_key": content_hash(dict(config)),
            "attempt": 0,
            "origin": "measured",
            "geometry": '{"grid":[1,1,1],"shared_bytes":0,"threads":256}',
            "outcome": fate,
            "message": "",
            "log": "",
            "confirmed": False,
            "warnings": "[]",
            "started_at": started_at,
            "finished_at": started_at + timedelta(seconds=0.7),
        }
        if fate == "ok":
            return trial
        stage = {"skipped": "plan", "compile_error": "build", "wrong_result": "validate"}[fate]
        log = LOG if fate == "compile_error" else ""
        return trial | {"stage": stage, "message": f"{fate}: made up for a benchmark", "log": log}

    def _measure(
        self, batch: Batch, trial: dict[str, Any], median_us: float, is_finalist: bool
    ) -> dict[str, Any]:
        """Add a trial's processes, samples and checks; return what follows for its row."""
        quick = self._process(batch, trial, "quick", 0, median_us, QUICK_SAMPLES)
        for phase in ("before", "after"):
            self._check(batch, trial["id"], quick[0], phase)
        changes = {
            "quick_median_us": quick[1],
            "build_s": 0.31,
            "validate_s": 0.04,
            "measure_s": 0.02,
            "binary_hash": trial["config_key"],
            "compiler": "made up 1.0",
            "build_options": '["-O3"]',
            "build_cached": False,
            "registers": 30,
            "spill_bytes": 0,
            "shared_bytes": 128,
            "code_bytes": 9064,
            "max_abs_error": 6.3e-07,
            "max_rel_error": 1.7e-07,
        }
        if not is_finalist:
            return changes
        processes = [
            self._process(batch, trial, "confirm", position, median_us, PROTOCOL.samples)
            for position in range(PROTOCOL.processes)
        ]
        return changes | reports.confirmed_values(
            [samples for _, _, samples in processes], trial["bytes_moved"]
        )

    def _process(
        self,
        batch: Batch,
        trial: dict[str, Any],
        stage: str,
        position: int,
        median_us: float,
        count: int,
    ) -> tuple[int, float, list[float]]:
        process_id = next(self._process_ids)
        level_us = median_us * math.exp(self._random.normal(0.0, 0.003))
        samples = (level_us * self._random.lognormal(0.0, 0.01, count)).tolist()
        measured_us = median(samples)
        values = {
            "id": process_id,
            "trial_id": trial["id"],
            "stage": stage,
            "position": position,
            "outcome": "ok",
            "message": "",
            "median_us": measured_us,
            "launches_per_sample": 5,
            "buffer_sets": 1,
            "submission": "graph",
            "clock_before_mhz": 1980.0,
            "clock_after_mhz": 1980.0,
            "recorded_at": trial["finished_at"],
        }
        batch.add(ProcessRow, values, samples)
        batch.rows[SampleRow] += [(process_id, i, value) for i, value in enumerate(samples)]
        return process_id, measured_us, samples

    def _check(self, batch: Batch, trial_id: int, process_id: int, phase: str) -> None:
        values = {
            "id": next(self._validation_ids),
            "trial_id": trial_id,
            "process_id": process_id,
            "phase": phase,
            "input_case": "normal",
            "seed": 20260719,
            "passed": True,
            "max_abs_error": 6.3e-07,
            "max_rel_error": 1.7e-07,
            "mismatches": 0,
            "message": "",
        }
        batch.add(ValidationRow, values)


def write(connection: Connection, batch: Batch) -> None:
    """Write a batch: SQLite by the driver's executemany, PostgreSQL by COPY."""
    for model, complete in batch.rows.items():
        table = table_of(model)
        names = ", ".join(table.columns.keys())
        driver: Any = connection.connection.driver_connection
        if connection.dialect.name == "sqlite":
            marks = ", ".join("?" * len(table.columns))
            command = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"
            driver.executemany(command, map(_for_sqlite, complete))
            continue
        command = f"COPY {table.name} ({names}) FROM STDIN"
        with driver.cursor() as cursor, cursor.copy(command) as copy:
            for row in complete:
                copy.write_row(row)


def _for_sqlite(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with its times as SQLAlchemy writes them."""
    return tuple(
        f"{value:%Y-%m-%d %H:%M:%S.%f}" if isinstance(value, datetime) else value for value in row
    )


def shapes(count: int) -> Iterator[tuple[int, int]]:
    """Return so many shapes of two dimensions."""
    columns = 20
    for number in range(count):
        yield 64 * (1 + number // columns), 256 * (1 + number % columns)


def environments(device: str) -> list[Environment]:
    """Return this machine's with the device, and those made up."""
    with open_worker(device, load_settings()) as worker:
        here = worker.environment
    return [
        here,
        *(Environment({**here.identity, **each}, here.context) for each in ELSEWHERE),
    ]


def kernels(connection: Connection, operator: Operator, name: str) -> list[Kernel]:
    """Store implementations and sources of an operator under a name."""
    found = []
    count = -(-TRIALS_PER_WORKLOAD // len(operator.implementations))
    for number, each in enumerate(operator.implementations):
        source = operator.source(each)
        store_source(connection, source)
        values = {"operator": name, "name": each.name, "language": each.language}
        row_id = find_or_insert(connection, ImplementationRow, tuple(values), values)
        configs = tuple({"BLOCK": 32 * (1 + i), "VARIANT": number} for i in range(count))
        found.append(Kernel(row_id, each.name, source.source_hash, configs))
    return found


def store_source(connection: Connection, source: KernelSource) -> None:
    """Store a kernel's text unless it is there."""
    text_ = SourceText(source.source_hash, source.language, source.entry, source.main, source.files)
    find_or_insert(connection, SourceRow, ("source_hash",), rows.source_values(text_))


def study_row(
    connection: Connection, operator: str, number: int, ids: dict[str, int], planned: int
) -> int:
    """Store a finished study and return its id."""
    ended = FIRST_DAY + timedelta(days=9)
    name = f"{operator}-{number}"
    values = {
        "name": name,
        "key": content_hash([name, ids]),
        "generation": 0,
        "operator": operator,
        "spec": "{}",
        "device_id": "cpu" if ids["environment_id"] == 1 else "hip:0",
        "sources": "{}",
        "sampler": "exhaustive",
        "sampler_seed": 0,
        "planned": planned,
        "state": "finished",
        "owned_at": FIRST_DAY,
        "created_at": FIRST_DAY,
        "finished_at": ended,
        **ids,
    }
    return insert_row(connection, StudyRow, values)


def fill(connection: Connection, filler: Filler, trials: int, device: str) -> Iterator[int]:
    """Write studies until there are so many trials; yield the number after each study."""
    machines = environments(device)
    operators = [
        (each, name)
        for each in all_operators(load_settings())
        for name in (each.name, f"{each.name}2")
    ]
    groups = max(1, trials // TRIALS_PER_WORKLOAD // len(machines) // len(operators))
    protocol_id = find_or_insert(connection, ProtocolRow, ("key",), rows.protocol_values(PROTOCOL))
    written = 0
    for machine in machines:
        environment_id = insert_row(connection, EnvironmentRow, rows.environment_values(machine))
        ids = {"environment_id": environment_id, "protocol_id": protocol_id}
        for operator, name in operators:
            swept = kernels(connection, operator, name)
            all_shapes = list(shapes(groups))
            for start in range(0, groups, WORKLOADS_PER_STUDY):
                part = all_shapes[start : start + WORKLOADS_PER_STUDY]
                planned = len(part) * TRIALS_PER_WORKLOAD
                study_id = study_row(connection, name, start // WORKLOADS_PER_STUDY, ids, planned)
                batch = Batch()
                for shape in part:
                    like = operator.workload(shape)
                    workload = Workload(name, like.shape, like.dtype, like.scalars)
                    workload_id = find_or_insert(
                        connection, WorkloadRow, ("key",), rows.workload_values(workload)
                    )
                    filler.workload(
                        batch,
                        {**ids, "study_id": study_id, "workload_id": workload_id},
                        swept,
                        operator.workload_bytes(like),
                    )
                write(connection, batch)
                written += planned
                yield written


def main() -> int:
    """Fill a database."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--db", required=True, help="SQLite path or postgresql://...")
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--device", default="cpu", help="whose environment is the first one")
    options = parser.parse_args()
    begun_s = time.monotonic()
    with open_store(options.db, create=True, writable=True) as store:
        with store.transaction() as connection:
            if connection.scalar(select(func.count()).select_from(table_of(EnvironmentRow))):
                print(f"{options.db} holds something already", file=sys.stderr)
                return 2
            on_server = connection.dialect.name == "postgresql"
            if on_server:  # foreign keys are right by making; checking each takes half the time
                connection.execute(text("SET LOCAL session_replication_role = replica"))
            for written in fill(connection, Filler(), options.trials, options.device):
                seconds = time.monotonic() - begun_s
                print(f"\r{written} trials, {seconds:.0f} s", end="", file=sys.stderr, flush=True)
            if on_server:
                go_on_counting(connection, map(table_of, (TrialRow, ProcessRow, ValidationRow)))
        if on_server:
            _analyze(store)
    print(f"\n{options.db}: {written} trials in {time.monotonic() - begun_s:.0f} s")
    return 0


def _analyze(store: Any) -> None:
    """Let a server see now how large the tables are; its own process does that within minutes."""
    with store.transaction() as connection:
        connection.execute(text("ANALYZE"))


if __name__ == "__main__":
    raise SystemExit(main())
