"""Telling whether the process that drives a study still lives."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from datetime import timedelta
from datetime import UTC

import pytest

from tuner.store import owner

NOW = datetime(2026, 7, 19, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def owner_of(pid: int) -> owner.Owner:
    return replace(owner.this_process(), pid=pid, start=owner._start(pid))


def test_an_owner_is_written_and_read() -> None:
    me = owner.this_process()
    assert owner.parse_owner(str(me)) == me
    assert me.pid == os.getpid()


def test_a_living_process_is_alive_however_silent(child: subprocess.Popen[bytes]) -> None:
    assert owner.is_alive(owner_of(child.pid), LONG_AGO, NOW)
    os.kill(child.pid, signal.SIGSTOP)
    assert owner.is_alive(owner_of(child.pid), LONG_AGO, NOW)


def test_a_dead_process_and_a_zombie_are_not(child: subprocess.Popen[bytes]) -> None:
    held = owner_of(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not collected yet
    assert not owner.is_alive(held, NOW, NOW)
    child.wait()
    assert not owner.is_alive(held, NOW, NOW)


def test_another_process_of_the_same_number_is_not_it(child: subprocess.Popen[bytes]) -> None:
    held = owner_of(child.pid)
    boot, ticks = held.start.split("-")
    assert not owner.is_alive(replace(held, start=f"{boot}-{int(ticks) - 1}"), NOW, NOW)
    assert not owner.is_alive(replace(held, start=f"otherboot-{ticks}"), NOW, NOW)


@pytest.mark.parametrize("text", ["", "x", "::", "a:b:c", "a:-1:c", "a:²:c"])
def test_a_damaged_text_names_nobody_here(text: str) -> None:
    found = owner.parse_owner(text)
    assert not owner.is_alive(replace(found, host=owner.this_process().host), NOW, NOW)


def test_a_process_elsewhere_is_alive_while_it_stores_something() -> None:
    elsewhere = owner.Owner("0123456789abcdef", 1, "x")
    assert owner.is_alive(elsewhere, NOW - owner.REMOTE_SILENCE / 2, NOW)
    assert not owner.is_alive(elsewhere, NOW - owner.REMOTE_SILENCE, NOW)
