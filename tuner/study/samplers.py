"""Names of what can propose configs, and whether it can be used here."""

from __future__ import annotations

import importlib.util

from tuner.errors import MissingDependency

EXHAUSTIVE = "exhaustive"
GUIDED = "guided"
RANDOM = "random"
TPE = "tpe"
GP = "gp"
# Their proposals depend on what earlier ones gave.
LEARNING = (GUIDED, TPE, GP)

# What Optuna's Gaussian process imports, and Optuna does not require.
_GP_PACKAGES = ("scipy", "torch")


def check_available(sampler: str) -> None:
    """Check that a sampler can be used here.

    Raises:
        MissingDependency: It needs packages that are not installed.
    """
    if sampler != GP:
        return
    missing = [name for name in _GP_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependency(
            f"the sampler {GP} needs {' and '.join(missing)}, which is not installed",
            hint=f"pip install {' '.join(missing)}, or take the sampler {GUIDED}, which models "
            "the times without them",
        )
