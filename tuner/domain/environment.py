"""The fingerprint of a machine and its toolchain, and how two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tuner.domain.identity import content_hash

UNKNOWN_PREFIX = "unknown: "
# Context that changes from one moment to the next on a machine that stays as it is.
MOMENTARY = frozenset({"host_load_1min", "load_average", "other_compute_processes"})


def unknown(reason: str) -> str:
    """Return the value of a field that could not be read. It never equals a known value."""
    return UNKNOWN_PREFIX + reason


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field in which two environments differ."""

    name: str
    left: str
    right: str
    is_identity: bool

    def __str__(self) -> str:
        return f"{self.name}: {self.left} -> {self.right}"


@dataclass(frozen=True)  # no slots: the key is kept
class Environment:
    """Machine and toolchain of a measurement.

    Attributes:
        identity: Fields that must match for two times to be compared (driver, compiler, ...).
        context: Fields that are recorded only (clocks, load, package versions, ...).
    """

    identity: Mapping[str, str]
    context: Mapping[str, str]

    @cached_property
    def key(self) -> str:
        """SHA-256 over the identity fields."""
        return content_hash(dict(self.identity))

    @property
    def steady_context(self) -> dict[str, str]:
        """The context without what is of the moment only, such as the load."""
        return {name: value for name, value in self.context.items() if name not in MOMENTARY}


def differences(left: Environment, right: Environment) -> list[FieldDifference]:
    """List the fields that differ, identity fields first, each group by name.

    A field that either side could not read counts as different, even from itself: what is
    unknown on both sides is not known to be equal.
    """
    found: list[FieldDifference] = []
    pairs = ((left.identity, right.identity, True), (left.context, right.context, False))
    for left_fields, right_fields, is_identity in pairs:
        for name in sorted({*left_fields, *right_fields}):
            a = left_fields.get(name, unknown("not recorded"))
            b = right_fields.get(name, unknown("not recorded"))
            if a != b or (is_identity and a.startswith(UNKNOWN_PREFIX)):
                found.append(FieldDifference(name, a, b, is_identity))
    return found
