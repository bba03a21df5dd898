"""Reads what vendors' profilers write, picks the target kernel's dispatches, compares times."""

from __future__ import annotations

from tuner.report.profiles.compare import rank_flips
from tuner.report.profiles.compare import TimePair
from tuner.report.profiles.names import is_kernel
from tuner.report.profiles.reading import parse_trace
from tuner.report.profiles.reading import read_trace_file
from tuner.report.profiles.select import profile_of
from tuner.report.profiles.select import Target

__all__ = [
    "Target",
    "TimePair",
    "is_kernel",
    "parse_trace",
    "profile_of",
    "rank_flips",
    "read_trace_file",
]
