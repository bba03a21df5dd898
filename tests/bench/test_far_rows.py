"""Rows beyond 2^31 and 2^32 elements: no kernel counts in 32 bits what may need more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.bench.devices.cpu import find_compiler

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("what", "fewest"), [("hip", 5), ("triton", 7), ("turns", 1)])
def test_rows_are_right_wherever_they_lie(what: str, fewest: int) -> None:
    if what != "hip":
        pytest.importorskip("triton")
    elif find_compiler() is None:
        pytest.skip("no C++ compiler")
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("far_rows.py")), what],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]  # -11: it touched what is no memory
    found = json.loads(done.stdout)
    assert len(found) >= fewest
    assert not any(found.values()), found
