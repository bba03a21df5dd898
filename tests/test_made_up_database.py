"""The database that speeds are measured on can be made, and is a sound one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tuner.store import migrate

FILL = Path(__file__).resolve().parent.parent / "benchmarks" / "fill_database.py"


def test_the_made_up_database_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "made_up.db"
    command = [sys.executable, str(FILL), "--db", str(path), "--trials", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert migrate.check(str(path)) == []
    assert migrate.info(str(path)).counts["trial"] >= 1000
