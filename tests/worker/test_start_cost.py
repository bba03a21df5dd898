"""What a worker process loads before it is asked for anything: every start pays for it."""

from __future__ import annotations

import subprocess
import sys

import pytest


def answer_of(code: str) -> str:
    """Return what a fresh interpreter prints."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


@pytest.mark.parametrize("package", ["ml_dtypes", "triton", "cuda", "hip", "pydantic_settings"])
def test_a_worker_starts_without(package: str) -> None:
    code = f"import sys, tuner.worker.child; print({package!r} in sys.modules)"
    assert answer_of(code) == "False"


def test_element_types_that_numpy_lacks_are_known_when_asked_for() -> None:
    code = (
        "from tuner.bench.inputs import numpy_dtype\n"
        "print([numpy_dtype(each).itemsize for each in ('float32', 'bfloat16')])"
    )
    assert answer_of(code) == "[4, 2]"
