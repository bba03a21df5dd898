"""The element types that kernels can be tuned for, and what rounding to them costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tuner.domain.job import Tolerance


@dataclass(frozen=True, slots=True)
class ElementType:
    """A binary floating-point format.

    Attributes:
        item_bytes: Size of an element.
        significand_bits: Bits of the significand, the implied one included.
        smallest_exponent: Of the smallest positive number, a subnormal one: 2^that.
        largest_exponent: Of the largest power of two.
    """

    item_bytes: int
    significand_bits: int
    smallest_exponent: int
    largest_exponent: int

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return math.ldexp(2.0 - 2.0 * self.unit_roundoff, self.largest_exponent)

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to nearest: half a unit in the last place."""
        return math.ldexp(1.0, -self.significand_bits)

    @property
    def subnormal_error(self) -> float:
        """Largest absolute error of rounding to nearest below the normal numbers.

        float64 can't hold its own, 2^-1075, which rounds to 0 here.
        """
        return math.ldexp(0.5, self.smallest_exponent)


ELEMENT_TYPES: Final[Mapping[str, ElementType]] = {
    "float64": ElementType(8, 53, -1074, 1023),
    "float32": ElementType(4, 24, -149, 127),
    "float16": ElementType(2, 11, -24, 15),
    "bfloat16": ElementType(2, 8, -133, 127),
}
# What the macro ELEMENT tells a HIP kernel.
ELEMENT_CODES: Final[Mapping[str, int]] = {
    "float32": 0, "float16": 1, "bfloat16": 2, "float64": 3,
}  # fmt: skip


def rounded_tolerance(float32: Tolerance, dtype: str) -> Tolerance:
    """Return the tolerance of a result that is computed in float32 and stored as ``dtype``.

    With ``v`` the float32 value and ``r`` the reference, ``|v - r| <= a + b |r|`` is what float32
    arithmetic may cost. Storing adds at most ``u |v| + s``: ``u`` the unit roundoff, ``s`` half the
    distance of two subnormal numbers. Since ``|v| <= a + (1 + b) |r|``, the stored value is within

        a (1 + u) + s + (b (1 + u) + u) |r|

    The reference is computed in float64 from inputs that are already rounded to ``dtype``, so that
    rounding the inputs costs nothing here.

    Args:
        float32: What float32 arithmetic may cost; it includes the rounding to float32.
        dtype: A key of ``ELEMENT_TYPES``.
    """
    if dtype == "float32":
        return float32
    kind = ELEMENT_TYPES[dtype]
    growth = 1.0 + kind.unit_roundoff
    return Tolerance(
        absolute=float32.absolute * growth + kind.subnormal_error,
        relative=float32.relative * growth + kind.unit_roundoff,
    )
