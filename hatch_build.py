"""Puts kernels/, studies/ and alembic/ into the wheel, where tuner/resources.py looks for them.

A build hook, not ``force-include``: that would put copies into editable installs too, where
they hide the package itself, and would ship ``__pycache__``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUNDLED = ("alembic", "kernels", "studies")


class BundleHook(BuildHookInterface):
    """Adds the content folders to standard wheels."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Map each content file to its place below ``tuner/_bundled``."""
        if version != "standard":
            return
        root = Path(self.root)
        for folder in BUNDLED:
            for path in sorted((root / folder).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    inside = path.relative_to(root).as_posix()
                    build_data["force_include"][str(path)] = f"tuner/_bundled/{inside}"
