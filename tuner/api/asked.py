"""A question about ``best`` in one form, however it was put: what an answer is kept under."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.api.answer import Question
from tuner.api.common import device_for
from tuner.domain.workload import parse_shape
from tuner.report.best import Match
from tuner.settings import Settings


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of which operator, for which device.

    Attributes:
        operator: Name of the operator.
        question: The question; how closely it must match is spelled out.
        device: Name of the device; None where the question has an architecture.
    """

    operator: str
    question: Question
    device: str | None


def asked(
    operator: str,
    shape: str | Sequence[int],
    settings: Settings,
    *,
    dtype: str = "float32",
    scalars: Mapping[str, float] | None = None,
    row_padding: int = 0,
    device: str | None = None,
    architecture: str | None = None,
    implementation: str | None = None,
    match: Match | None = None,
) -> Asked:
    """Return a question; the parameters are those of ``best``.

    Raises:
        UsageError: The shape is not understood, or the match needs a device.
    """
    question = Question(
        shape=parse_shape(shape) if isinstance(shape, str) else tuple(shape),
        dtype=dtype,
        scalars=tuple(sorted((scalars or {}).items())),
        row_padding=row_padding,
        architecture=architecture,
        implementation=implementation,
        match=match or ("exact" if architecture is None else "same-arch"),
    )
    chosen = device_for(device, "auto", settings) if architecture is None else None
    return Asked(operator, question, chosen)
