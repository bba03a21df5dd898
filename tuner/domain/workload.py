"""The problem to solve: an operator at a shape, a dtype and scalar arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tuner.domain.identity import content_hash
from tuner.domain.identity import Plain
from tuner.errors import UsageError

MAX_DIMENSION = 2**63 - 1  # what a 64-bit kernel argument and an SQLite integer can hold
_MAX_DIGITS = len(str(MAX_DIMENSION))


@dataclass(frozen=True)  # no slots: the key is kept
class Workload:
    """An operator with everything that fixes the problem. Arrays are row-major.

    Attributes:
        operator: Name of the operator.
        shape: Size of each of the operator's dimensions, e.g. ``(1024, 4096)``.
        dtype: NumPy-style name of the element type, e.g. ``float32``.
        scalars: Scalar arguments by name, sorted by name, e.g. ``(("epsilon", 1e-5),)``.
        row_padding: Elements between the end of a row, along the last dimension, and the next
            row, in every input and output of two dimensions or more.
    """

    operator: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    scalars: tuple[tuple[str, float], ...] = ()
    row_padding: int = 0

    def __post_init__(self) -> None:
        for size in self.shape:
            if not 1 <= size <= MAX_DIMENSION:
                raise _out_of_range(shape_text(self.shape))
        if self.row_padding:
            self._check_padding()
        object.__setattr__(self, "scalars", tuple(sorted(self.scalars)))

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next in each dimension, row-major."""
        stored = (*self.shape[:-1], self.row_stride)
        return tuple(math.prod(stored[axis + 1 :]) for axis in range(len(stored)))

    @property
    def row_stride(self) -> int:
        """Elements from the start of a row to the start of the next one."""
        return self.shape[-1] + self.row_padding

    @property
    def shape_text(self) -> str:
        """The shape as users write it, e.g. ``1024x4096``."""
        return shape_text(self.shape)

    def as_plain(self) -> dict[str, Plain]:
        """Return the fields that identify the workload, strides included."""
        return {
            "operator": self.operator,
            "shape": list(self.shape),
            "strides": list(self.strides),
            "dtype": self.dtype,
            "scalars": dict(self.scalars),
        }

    def _check_padding(self) -> None:
        if not 0 <= self.row_padding <= MAX_DIMENSION - self.shape[-1]:
            raise UsageError(
                f"row padding {self.row_padding}: must be at least 0, and rows below 2^63",
                hint="give the elements between a row's end and the next row, such as 64",
            )
        if len(self.shape) < 2:
            raise UsageError(
                f"row padding {self.row_padding}: the shape {shape_text(self.shape)} is one row",
                hint="leave the padding out",
            )

    @cached_property
    def key(self) -> str:
        """SHA-256 of the identifying fields."""
        return content_hash(self.as_plain())


def make_workload(
    operator: str,
    shape: Sequence[int],
    dtype: str,
    scalars: Mapping[str, float],
    row_padding: int = 0,
) -> Workload:
    """Build a workload from the loose values of a file or a command line."""
    return Workload(operator, tuple(shape), dtype, tuple(scalars.items()), row_padding)


def row_padding_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the row padding that strides, as ``Workload.strides`` has them, tell of."""
    return strides[-2] - shape[-1] if len(shape) > 1 else 0


def shape_text(shape: Sequence[int]) -> str:
    """Return ``1024x4096`` for ``(1024, 4096)``."""
    return "x".join(str(size) for size in shape)


def parse_shape(text: str) -> tuple[int, ...]:
    """Read ``1024x4096``.

    Raises:
        UsageError: The text is not whole numbers joined by ``x``, or a size is out of range.
    """
    parts = text.strip().lower().split("x")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UsageError(
            f"shape {text[:60]!r} is not understood",
            hint="write whole numbers joined by x, such as 1024x4096",
        )
    if any(len(part.lstrip("0")) > _MAX_DIGITS for part in parts):  # Python reads no 5000 digits
        raise _out_of_range(text.strip())
    return Workload("", tuple(int(part.lstrip("0") or "0") for part in parts)).shape


def _out_of_range(shape: str) -> UsageError:
    return UsageError(
        f"shape {shape[:60]}: every dimension must be from 1 to 2^63-1",
        hint="give whole numbers of at least 1 and below 2^63, such as 1024x4096",
    )
