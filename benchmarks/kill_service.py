"""Kills `tuner serve` many times under load, and says what was left and how fast it came back.

One client launches and cancels jobs without pause, another reads lists; a study runs on the CPU
all the while. After every kill the service is started again at once. At the end each write that
was answered with 2xx must be in the database, and every study complete.

    python benchmarks/kill_service.py [--kills 100] [--db URL] [--directory DIR]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "service")]

from kill_loop import Findings  # noqa: E402
from kill_loop import KillLoop  # noqa: E402
from results_page import kind_of  # noqa: E402
from results_page import machine  # noqa: E402
from working import Workplace  # noqa: E402

SHAPES = ("6x40", "3x13", "1x1", "2x64")


def main() -> None:
    """Run the loop, print the table, and fail where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=20261202)
    parser.add_argument("--db", help="an empty database; default: a new SQLite file")
    parser.add_argument("--directory", type=Path, help="where databases and logs are made")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        folder = Path(name)
        place = Workplace(folder, folder / "cache")
        settings = place.settings
        if arguments.db:
            settings = settings.model_copy(update={"db": arguments.db})
        # With trials that last: else a kill would seldom come in the middle of one.
        place.register("main", "good", "wrong", "hang", shapes=SHAPES, timeout_s=1.5)
        place.register("side", "good")
        where, begun = machine(), time.monotonic()
        loop = KillLoop(settings, folder, "main", "side")
        found = loop.run(arguments.kills, arguments.seed)
        report(found, arguments.kills, f"{kind_of(settings.db)}, {where}")
        print(f"wall time: {time.monotonic() - begun:.0f} s")
    if found.problems:
        sys.exit("\n".join(found.problems))


def report(found: Findings, kills: int, where: str) -> None:
    """Print what was seen."""
    restarts_s = sorted(found.restarts_s[1:])  # the first start made the database
    ninetieth_s = restarts_s[int(0.9 * (len(restarts_s) - 1))]
    print(where)
    rows = {
        "kills": kills,
        "requests cut off by a kill": found.cut_off,
        "launches answered with 202": len(found.launched),
        "cancellations answered with 200": len(found.cancelled),
        "reads answered with 200": found.reads,
        "answered writes lost or doubled, and other problems": len(found.problems),
        "studies finished with every planned trial": found.finished,
        "trials cut off by a kill and run again": found.interrupted,
        "start to first answer, median": f"{statistics.median(restarts_s):.2f} s",
        "start to first answer, 90th percentile": f"{ninetieth_s:.2f} s",
        "start to first answer, longest": f"{restarts_s[-1]:.2f} s",
        "processor time of a start, longest": f"{max(found.restarts_cpu_s):.2f} s",
    }
    for name, value in rows.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
