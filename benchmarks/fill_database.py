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
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from datetime import timedelta
from typing import Any

from made_up_trials import Batch
from made_up_trials import Filler
from made_up_trials import FIRST_DAY
from made_up_trials import Kernel
from made_up_trials import PROTOCOL
from made_up_trials import TRIALS_PER_WORKLOAD
from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import select
from sqlalchemy import text

from tuner.api.common import all_operators
from tuner.api.common import open_worker
from tuner.domain.environment import Environment
from tuner.domain.identity import content_hash
from tuner.domain.study import SourceText
from tuner.domain.workload import Workload
from tuner.kernel_source import KernelSource
from tuner.operator import Operator
from tuner.settings import load_settings
from tuner.store import open_store
from tuner.store import rows
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import ProcessRow
from tuner.store.models import ProtocolRow
from tuner.store.models import SourceRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.models import ValidationRow
from tuner.store.models import WorkloadRow
from tuner.store.server import go_on_counting
from tuner.store.table import find_or_insert
from tuner.store.table import insert_row
from tuner.store.table import table_of

WORKLOADS_PER_STUDY = 50
# Made up: each is the CPU's environment with these fields changed.
ELSEWHERE = (
    {"architecture": "sm_90", "driver": "580.159.04", "compute_units": "132"},
    {"architecture": "gfx1201", "driver": "7.1.0", "compute_units": "32"},
    {"architecture": "gfx1201", "driver": "7.2.2", "compute_units": "32"},
    {"architecture": "gfx942", "driver": "7.2.2", "compute_units": "304"},
)


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
    found, _ = all_operators(load_settings())
    operators = [(each, name) for each in found for name in (each.name, f"{each.name}2")]
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
                        operator.workload_bytes(like, swept[0].name),
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
