"""What a command or a request changes of a study file, without changing the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tuner.domain.identity import content_hash
from tuner.domain.workload import parse_shape
from tuner.domain.workload import shape_text
from tuner.errors import UsageError
from tuner.operator import Operator
from tuner.study.spec import Budget
from tuner.study.spec import StudySpec

MAX_SHAPES = 1000  # as in a study file
_MAX_NAME = 63
_HASH_DIGITS = 8
_BUDGET = re.compile(r"(\d{1,9})(s|m|h)?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def with_shapes(spec: StudySpec, operator: Operator, shapes: Sequence[str]) -> StudySpec:
    """Return a study of other shapes, under a name of its own.

    By the study's own name everybody means the shapes of its file. The same shapes as there
    are the same study.

    Raises:
        UsageError: A shape is not understood, not of the operator, or listed twice.
    """
    if not 0 < len(shapes) <= MAX_SHAPES:
        raise UsageError(f"{len(shapes)} shapes are given", hint=f"give 1 to {MAX_SHAPES}")
    parsed = tuple(parse_shape(text) for text in shapes)
    for position, shape in enumerate(parsed):
        operator.check_shape(shape)
        if shape in parsed[:position]:
            raise UsageError(f"shape {shape_text(shape)} is given twice", hint="give each once")
    if set(parsed) == set(spec.shapes):
        return spec
    return replace(spec, name=_name(spec.name, parsed), shapes=parsed)


def parse_budget(text: str) -> Budget:
    """Read ``200`` (trials) or ``90s``, ``30m``, ``2h``.

    Raises:
        UsageError: It is neither.
    """
    match = _BUDGET.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise UsageError(
            f"budget {text[:60]!r} is not understood", hint="such as 200, 90s, 30m or 2h"
        )
    number, unit = int(match[1]), match[2]
    return Budget(seconds=number * _SECONDS[unit]) if unit else Budget(trials=number)


def _name(name: str, shapes: Sequence[tuple[int, ...]]) -> str:
    """Return ``NAME-3x13-64x1024``; where that is too long, how many shapes, and their hash."""
    listed = [shape_text(shape) for shape in shapes]
    full = "-".join([name, *listed])
    if len(full) <= _MAX_NAME:
        return full
    short = f"-{len(shapes)}-shapes-{content_hash(listed)[:_HASH_DIGITS]}"
    return name[: _MAX_NAME - len(short)] + short
