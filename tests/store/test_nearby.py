"""Which devices count as alike."""

from __future__ import annotations

import pytest

from tuner.store.nearby import family


@pytest.mark.parametrize(
    ("architecture", "beginning"),
    [
        ("gfx1201", "gfx12"),
        ("gfx942", "gfx9"),
        ("gfx90a", "gfx9"),
        ("sm_90", "sm_9"),
        ("sm_100", "sm_10"),
        ("x86_64", "x86_64"),
        ("unknown: not read", "unknown: not read"),
        ("gfx", "gfx"),
    ],
)
def test_the_family_of_an_architecture(architecture: str, beginning: str) -> None:
    assert family(architecture) == beginning
