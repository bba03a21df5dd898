"""A service that is killed under load loses nothing that it answered, and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from kill_loop import KillLoop
from working import Workplace

KILLS = 5
RESTART_CPU_S = 5.0


@pytest.mark.timeout(300)  # twelve starts of Python programs, which take long on a busy machine
def test_a_service_killed_under_load_keeps_what_it_answered(
    tmp_path: Path, cache_dir: Path
) -> None:
    place = Workplace(tmp_path, cache_dir)
    # With trials that last: else a kill would seldom come in the middle of one.
    place.register("main", "good", "wrong", "hang", shapes=("6x40", "3x13"), timeout_s=1.0)
    place.register("side", "good")
    loop = KillLoop(place.settings, tmp_path, "main", "side")
    found = loop.run(KILLS, seed=20261202, longest_s=3.0)
    assert found.problems == []
    assert found.finished >= 1
    assert found.interrupted  # else no kill came in the middle of a trial
    assert len(found.launched) > KILLS  # else nothing was tried
    assert found.cancelled
    assert found.cut_off
    assert found.reads
    # Processor time: the wall clock says how busy the machine is; the benchmark reports it.
    assert max(found.restarts_cpu_s) < RESTART_CPU_S
