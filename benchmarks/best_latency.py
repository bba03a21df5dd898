"""Measures how long `GET /api/v1/best` takes over HTTP, on a database of ``fill_database.py``.

Starts ``tuner serve``, with the process that takes jobs, to which none is given, and asks it from
this process, on the same machine: all share its cores. Each question is one request on a
connection that stays open.

- at once: from the moment it listens, before it says that it is ready, every question for the
  first time, while the service makes answers ahead;
- ready: from the moment ``/readyz`` says so, in a service started anew, likewise;
- new: every question for the first time, after it has made those that it makes ahead;
- repeated: the same questions again and again, in random order;
- while written: repeated questions while another process confirms a trial ten times a second,
  after each of which the answers on that trial's workload may not be given again unread.

Closed loop: so many clients, each asks again as soon as it has its answer. Open loop: requests
at a fixed rate, each timed from when it was due, whether a connection was free or not.

    python benchmarks/best_latency.py --db URL [--clients 8] [--requests 2000] [--rate 100]
        [--render FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fill_database import ELSEWHERE
from fill_database import shapes
from questioner import Figures
from questioner import HEADER
from questioner import Questioner
from questioner import Service
from results_page import kind_of
from results_page import machine
from results_page import write_section
from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import select
from sqlalchemy.orm import DeclarativeBase

from tuner.api.common import all_operators
from tuner.settings import load_settings
from tuner.store import open_store
from tuner.store.models import ProcessRow
from tuner.store.models import SampleRow
from tuner.store.models import TrialRow
from tuner.store.models import WorkloadRow
from tuner.store.table import insert_process
from tuner.store.table import insert_row
from tuner.store.table import read_row
from tuner.store.table import table_of

SEED = 20261202
COMMITS_PER_S = 10


def questions(workloads: int) -> tuple[list[str], list[str]]:
    """Return the paths of exact questions, and of all that differ from them, in random order.

    Args:
        workloads: Those that the database has, of this program's operators and as many others.
    """
    found, _ = all_operators(load_settings())
    architectures = sorted({each["architecture"] for each in ELSEWHERE})
    exact, others = [], []
    for operator, shape in itertools.product(found, shapes(workloads // (2 * len(found)))):
        path = f"/api/v1/best?operator={operator.name}&shape={shape[0]}x{shape[1]}"
        exact.append(f"{path}&device=cpu")
        others += [f"{path}&arch={quote(each)}" for each in architectures]
        others.append(f"{path}&device=cpu&match=same-arch")
    chance = random.Random(SEED)
    chance.shuffle(exact)
    chance.shuffle(others)
    return exact, others


@contextlib.contextmanager
def writing(database: str) -> Iterator[None]:
    """Confirm a trial ten times a second, from a process of its own, as running studies do."""
    command = [sys.executable, __file__, "--db", database, "--keep-writing"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()  # returns at its end, too
            yield
            if process.poll() is not None:
                raise RuntimeError(f"what was to write {database} ended with {process.returncode}")
        finally:
            process.terminate()


def keep_writing(database: str) -> None:
    """Confirm trials again and again, of random workloads; say when it begins."""
    chance = random.Random(SEED)
    trial = table_of(TrialRow)
    with open_store(database, create=False, writable=True) as store:
        with store.session() as session:
            confirmed = session.scalars(select(trial.c.id).where(trial.c.confirmed)).all()
        while True:
            with store.transaction() as connection:
                confirm_again(connection, chance.choice(confirmed))
            print(".", flush=True)
            time.sleep(1.0 / COMMITS_PER_S)


def confirm_again(connection: Connection, trial_id: int) -> None:
    """Store a trial once more, with its confirming processes and their samples."""
    trial = without_id(read_row(connection, TrialRow, trial_id))
    trial["attempt"] = time.time_ns() // 10**6 % 2**31  # no other has it: 1/10 s lie between two
    of_trial = {"trial_id": insert_row(connection, TrialRow, trial)}
    process, sample = table_of(ProcessRow).c, table_of(SampleRow).c
    wanted = select(process.id).where(process.trial_id == trial_id, process.stage == "confirm")
    for process_id in connection.scalars(wanted).all():
        values = without_id(read_row(connection, ProcessRow, process_id))
        times = select(sample.time_us).where(sample.process_id == process_id)
        samples_us = connection.scalars(times.order_by(sample.position)).all()
        insert_process(connection, {**values, **of_trial}, samples_us)


def without_id(row: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the values of a row that is there, but for what a copy of it has of its own."""
    assert row is not None
    return {name: value for name, value in row.items() if name not in ("id", "checksum")}


def count_rows(database: str, model: type[DeclarativeBase]) -> int:
    """Return how many rows a table has."""
    with open_store(database, create=False, writable=False) as store, store.session() as session:
        return session.scalar(select(func.count()).select_from(table_of(model))) or 0


def measure(
    database: str, clients: int, rate: float, most: int
) -> tuple[list[Figures], float, float]:
    """Measure all ways of asking, each with so many requests at most.

    Returns:
        The figures, and how many seconds after the start the service, while nobody asked, was
        ready, and after how many all answers were made ahead.
    """
    exact, others = questions(count_rows(database, WorkloadRow))
    repeated = random.Random(SEED).choices(exact, k=most)
    size = min(most, (len(others) - 100) // 4)
    warm_up, others = [*others[:100], *exact[:2]], others[100:]
    parts = [others[number * size : (number + 1) * size] for number in range(4)]
    with serving(database) as service:
        asks = Questioner(service, clients)
        asks.closed("warm-up", warm_up[::2])
        found = [asks.closed("at once", parts[0])]
    begun_s = time.monotonic()
    with serving(database) as service:
        service.wait_until_ready()
        ready_s = time.monotonic() - begun_s
        asks = Questioner(service, clients)
        asks.closed("warm-up", warm_up[1::2])
        found.append(asks.closed("ready", parts[1]))
        wait_for_answers(service)
        made_s = time.monotonic() - begun_s
        found += [asks.closed("new", parts[2]), asks.open("new", parts[3], rate)]
        found.append(asks.closed("repeated", repeated))
        found.append(asks.open("repeated", repeated, 2 * rate))
        with writing(database):
            found.append(asks.closed("while written", repeated))
            found.append(asks.open("while written", repeated, rate))
    return found, ready_s, made_s


@contextlib.contextmanager
def serving(database: str) -> Iterator[Service]:
    """Run a service."""
    service = Service(database, takes_jobs=True)
    try:
        yield service
    finally:
        service.stop()


def wait_for_answers(service: Service) -> None:
    """Wait until no answer is still to be made ahead, twice in a row: it begins by and by."""
    idle = 0
    while idle < 2:
        time.sleep(2.0)
        with urllib.request.urlopen(f"http://{service.host}/metrics", timeout=60) as answer:
            waiting = re.search(rb"^tuner_best_answers_waiting (\S+)", answer.read(), re.MULTILINE)
        assert waiting is not None
        idle = idle + 1 if float(waiting[1]) == 0.0 else 0


def main() -> int:
    """Measure, print the table and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--db", required=True, help="SQLite path or postgresql://...")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=2000, help="of each way of asking")
    parser.add_argument("--rate", type=float, default=100.0, help="of the open loop, requests/s")
    parser.add_argument("--keep-writing", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--render", help="Markdown file whose section is replaced")
    options = parser.parse_args()
    if options.keep_writing:
        keep_writing(options.db)
    where = machine()
    kind = kind_of(options.db)
    found, ready_s, made_s = measure(options.db, options.clients, options.rate, options.requests)
    command = f"python benchmarks/best_latency.py --db {kind.upper()}_URL"
    command += f" --clients {options.clients} --requests {options.requests} --rate {options.rate:g}"
    write_section(
        options.render,
        f"`best` over HTTP, {kind}",
        [
            f"{count_rows(options.db, TrialRow)} trials. {where}",
            f"Ready {ready_s:.1f} s after its process was started, and all answers made ahead "
            f"after {made_s:.0f} s at most.",
            f"Command: `{command}`",
        ],
        HEADER,
        [each.row() for each in found],
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
