"""How a trial ends, and in which stage."""

from __future__ import annotations

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


class Stage(StrEnum):
    """The step of a trial that was under way."""

    PLAN = "plan"
    BUILD = "build"
    VALIDATE = "validate"
    MEASURE = "measure"
    REVALIDATE = "revalidate"
    CONFIRM = "confirm"
