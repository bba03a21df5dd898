"""Measures how long the service's lists take on a database of ``fill_database.py``.

One client asks each path again and again on a connection that stays open; the service runs on
the same machine.

    python benchmarks/list_latency.py --db URL [--times 30] [--render FILE]
"""

from __future__ import annotations

import argparse
import json
from http.client import HTTPConnection

from best_latency import count_rows
from questioner import Questioner
from questioner import Service
from results_page import kind_of
from results_page import machine
from results_page import write_section

from tuner.store.models import TrialRow

HEADER = ("path", "asked", "p50 ms", "p95 ms", "worst ms")
LISTS = (
    "/api/v1/studies?limit=100",
    "/api/v1/environments?limit=100",
    "/api/v1/studies/{study}",
    "/api/v1/studies/{study}/trials?limit=100",
    "/api/v1/studies/{study}/trials?limit=100&outcome=ok",
    "/api/v1/studies/{study}/trials?limit=100&outcome=compile_error",
    "/api/v1/studies/{study}/trials?limit=100&confirmed=true",
    "/api/v1/studies/{study}/trials?limit=100&cursor={cursor}",
    "/api/v1/trials/{trial}",
)


def middle(service: Service, trials: int) -> dict[str, str]:
    """Return a study and a trial from the middle, and the cursor of that study's second page."""
    connection = HTTPConnection(service.host, timeout=60)
    connection.request("GET", f"/api/v1/trials/{trials // 2}")
    study = json.load(connection.getresponse())["summary"]["study_id"]
    connection.request("GET", f"/api/v1/studies/{study}/trials?limit=1000")
    cursor = json.load(connection.getresponse())["next"]
    return {"study": str(study), "trial": str(trials // 2), "cursor": cursor or ""}


def main() -> int:
    """Measure, print the table and write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--db", required=True, help="SQLite path or postgresql://...")
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--render", help="Markdown file whose section is replaced")
    options = parser.parse_args()
    where = machine()
    kind = kind_of(options.db)
    trials = count_rows(options.db, TrialRow)
    service = Service(options.db)
    try:
        names = middle(service, trials)
        asks = Questioner(service, 1)
        found = [
            (each, asks.closed(each, [each.format(**names)] * options.times)) for each in LISTS
        ]
    finally:
        service.stop()
    write_section(
        options.render,
        f"Lists over HTTP, {kind}",
        [
            f"{trials} trials, studies of up to 5000. {where}",
            f"Command: `python benchmarks/list_latency.py --db {kind.upper()}_URL`",
        ],
        HEADER,
        [
            [f"`{path}`", str(each.requests)]
            + [f"{ms:.1f}" for ms in (each.p50_ms, each.p95_ms, each.worst_ms)]
            for path, each in found
        ],
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
