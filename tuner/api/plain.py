"""Turns stored values into what JSON can hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from tuner.domain.identity import Plain
from tuner.domain.workload import Workload


def plain(value: object) -> Plain:
    """Return a value of dataclasses, mappings, sequences, enums and times as JSON can hold it."""
    if isinstance(value, Workload):
        return value.as_plain()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
