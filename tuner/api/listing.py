"""Short lists of what is there without a database: operators."""

from __future__ import annotations

from tuner.api.common import all_operators
from tuner.domain.identity import Plain
from tuner.settings import Settings


def list_operators(settings: Settings) -> list[dict[str, Plain]]:
    """Return what can be tuned, a row for each implementation of the operators that are sound.

    Raises:
        BrokenOperator: A folder of the settings holds no operator.
    """
    operators, _ = all_operators(settings)
    return [
        {
            "operator": operator.name,
            "implementation": each.name,
            "language": each.language,
            "dims": list(operator.dims),
            "dtypes": list(operator.tolerances),
            "scalars": dict(operator.scalars),
            "description": each.description or operator.description,
        }
        for operator in operators
        for each in operator.implementations
    ]
