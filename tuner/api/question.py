"""A question about ``best`` in one form, however it is put; an answer is kept under it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.api.common import device_for
from tuner.domain.workload import parse_shape
from tuner.domain.workload import Workload
from tuner.errors import UsageError
from tuner.operator import Operator
from tuner.report.best import Match
from tuner.settings import Settings
from tuner.ways import Way


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of an operator.

    Attributes:
        shape: Sizes of its dimensions.
        dtype: Element type.
        scalars: Scalar arguments that differ from the operator's defaults.
        row_padding: Elements between the end of a row and the next one.
        architecture: Answer for it; None answers for a device.
        implementation: Only this one.
        match: How closely the answer must match; None is ``exact``, or ``same-arch`` where an
            architecture is given.

    Raises:
        UsageError: An architecture is given, and a match that needs a device.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    scalars: tuple[tuple[str, float], ...] = ()
    row_padding: int = 0
    architecture: str | None = None
    implementation: str | None = None
    match: Match | None = None

    def __post_init__(self) -> None:
        if self.architecture is not None and self.match not in (None, "same-arch"):
            raise UsageError(
                f"match {self.match} needs a device to compare with, an architecture names none",
                hint=f"{Way.NAME_NO_ARCHITECTURE}, or {Way.ASK_SAME_ARCHITECTURE}",
            )

    def workload(self, operator: Operator) -> Workload:
        """Return the workload that is asked about.

        Raises:
            UsageError: The operator has no such workload, or no such implementation.
        """
        asked = operator.workload(self.shape, self.dtype, dict(self.scalars), self.row_padding)
        if self.implementation is not None:
            operator.implementation(self.implementation)
        return asked


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
        UsageError: The shape is not understood, the match needs a device, or both a device and an
            architecture are given.
    """
    if device is not None and architecture is not None:
        raise UsageError(
            f"device {device[:40]!r} and architecture {architecture[:40]!r} are both given",
            hint="leave one out: a device has an architecture",
        )
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
