"""How a trial ends, and in which stage."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

RUNNING = "running"  # stands in lists and counts where a trial has no outcome yet


class Outcome(StrEnum):
    """How a trial ended. Everything but ``OK`` keeps a stage, a message and a log."""

    OK = "ok"
    WRONG_RESULT = "wrong_result"
    NON_FINITE = "non_finite"
    UNSTABLE_RESULT = "unstable_result"
    COMPILE_ERROR = "compile_error"
    COMPILE_TIMEOUT = "compile_timeout"
    LAUNCH_ERROR = "launch_error"
    OUT_OF_RESOURCES = "out_of_resources"
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    CRASH = "crash"
    TIMER_ERROR = "timer_error"
    SKIPPED = "skipped"
    INTERRUPTED = "interrupted"

    @property
    def is_failure(self) -> bool:
        """Whether the config was tried and did not do.

        A skipped one was not tried; an interrupted one was not tried to the end, which says
        nothing of it, and is tried again when the study goes on.
        """
        return self not in (Outcome.OK, Outcome.SKIPPED, Outcome.INTERRUPTED)


def failed_count(counts: Mapping[str, int]) -> int:
    """Return how many failed, of trials counted by outcome, running ones among them."""
    return sum(n for name, n in counts.items() if name != RUNNING and Outcome(name).is_failure)


class Stage(StrEnum):
    """The step of a trial that was under way."""

    PLAN = "plan"
    BUILD = "build"
    VALIDATE = "validate"
    MEASURE = "measure"
    REVALIDATE = "revalidate"
    CONFIRM = "confirm"
