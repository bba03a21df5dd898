"""Measures how fast a CSV export of a whole database goes, and how much memory it takes.

Once by the command (``tuner export trials --format csv``), once over HTTP from ``tuner serve``,
both read by this process on the same machine. CPU time is that of the process that exports,
as of its last piece but one. Memory is the process's resident set: its highest
(``VmHWM``) less what it had when the first row came.

    python benchmarks/export_speed.py --db URL [--what trials] [--render FILE]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

from questioner import cpu_seconds
from questioner import Service
from results_page import kind_of
from results_page import machine
from results_page import write_section

LOOK_EVERY_S = 0.02
CHUNK_BYTES = 1 << 18
HEADER = (
    "export", "by", "rows", "MB", "s", "rows/s", "CPU s", "rows/CPU s",
    "memory at first row, MB", "growth, MB",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figures:
    """What one export gave."""

    what: str
    way: str
    rows: int
    size_bytes: int
    took_s: float
    cpu_s: float
    first_kb: int
    highest_kb: int

    def row(self) -> list[str]:
        """Return the cells of a table."""
        return [
            self.what,
            self.way,
            str(self.rows),
            f"{self.size_bytes / 1e6:.0f}",
            f"{self.took_s:.1f}",
            f"{self.rows / self.took_s:.0f}",
            f"{self.cpu_s:.1f}",
            f"{self.rows / self.cpu_s:.0f}",
            f"{self.first_kb / 1024:.0f}",
            f"{(self.highest_kb - self.first_kb) / 1024:.1f}",
        ]


def memory_kb(pid: int, name: str) -> int:
    """Return a process's ``VmRSS`` or ``VmHWM``."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition(f"{name}:")[2].split()[0])


def take(what: str, way: str, pid: int, chunks: Iterator[bytes]) -> Figures:
    """Read an export to its end. No cell of it holds a line feed."""
    begun_s = looked_s = time.perf_counter()
    first_cpu_s = cpu_s = cpu_seconds(pid)
    first_kb = highest_kb = lines = size_bytes = 0
    for chunk in chunks:
        lines += chunk.count(b"\n")
        size_bytes += len(chunk)
        # Not at every chunk: it would hold up the pipe.
        if not first_kb or time.perf_counter() - looked_s >= LOOK_EVERY_S:
            looked_s = time.perf_counter()
            cpu_s = cpu_seconds(pid)
            first_kb = first_kb or memory_kb(pid, "VmRSS")
            highest_kb = memory_kb(pid, "VmHWM")
    took_s = time.perf_counter() - begun_s
    return Figures(
        what, way, lines - 1, size_bytes, took_s, cpu_s - first_cpu_s, first_kb, highest_kb
    )


def by_command(database: str, what: str) -> Figures:
    """Export with the command, from its start to its end."""
    command = [sys.executable, "-m", "tuner", "export", what, "--format", "csv", "--db", database]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        output = process.stdout
        assert output is not None
        chunks = iter(lambda: os.read(output.fileno(), CHUNK_BYTES), b"")
        found = take(what, "command", process.pid, chunks)
    if process.returncode:
        raise RuntimeError(f"the export ended with {process.returncode}")
    return found


def over_http(database: str, what: str) -> Figures:
    """Export from a running service, once it is ready."""
    service = Service(database)
    try:
        service.wait_until_ready()
        connection = HTTPConnection(service.host, timeout=600)
        connection.request("GET", f"/api/v1/exports/{what}.csv")
        answer = connection.getresponse()
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"the export was answered with {answer.status}")
        chunks = iter(lambda: answer.read1(CHUNK_BYTES), b"")
        return take(what, "HTTP", service.pid, chunks)
    finally:
        service.stop()


def main() -> int:
    """Measure, print the table and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--db", required=True, help="SQLite path or postgresql://...")
    parser.add_argument("--what", choices=("trials", "best", "samples"), default="trials")
    parser.add_argument("--render", help="Markdown file whose section is replaced")
    options = parser.parse_args()
    where = machine()
    kind = kind_of(options.db)
    found = [by_command(options.db, options.what), over_http(options.db, options.what)]
    write_section(
        options.render,
        f"CSV export of {options.what}, {kind}",
        [
            where,
            f"Command: `python benchmarks/export_speed.py --db {kind.upper()}_URL "
            f"--what {options.what}`",
        ],
        HEADER,
        [each.row() for each in found],
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
