"""The studies that the service may start: shipped files, and those in folders of the settings.

They are known by the names of their files. Nothing that reaches the service names a path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.api.common import find_operator
from tuner.domain.identity import Plain
from tuner.domain.workload import shape_text
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.operator import Operator
from tuner.resources import studies_dir
from tuner.settings import Settings
from tuner.ways import Way

if TYPE_CHECKING:
    from tuner.study.spec import StudySpec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True, slots=True)
class RegisteredStudy:
    """A study file that the service may start, checked.

    Attributes:
        name: What it is started by.
        path: Its file.
        spec: What the file says.
        operator: Its operator.
    """

    name: str
    path: Path
    spec: StudySpec
    operator: Operator


def registered_studies(settings: Settings) -> list[dict[str, Plain]]:
    """Return the studies that can be started by name; unsound files are left out."""
    found: list[dict[str, Plain]] = []
    for name, path in sorted(_files(settings).items()):
        try:
            each = _load(name, path, settings)
        except (UsageError, NotFound):
            continue  # such as a file of recorded evidence
        found.append(
            {
                "name": name,
                "description": each.spec.description,
                "operator": each.spec.operator,
                "device": each.spec.device,
                "shapes": [shape_text(shape) for shape in each.spec.shapes],
            }
        )
    return found


def find_registered(name: str, settings: Settings) -> RegisteredStudy:
    """Return the registered study of a name.

    Raises:
        NotFound: There is none.
        UsageError: Its file is wrong.
    """
    return _load(name, registered_path(name, settings), settings)


def registered_path(name: str, settings: Settings) -> Path:
    """Return the file of the registered study of a name.

    Raises:
        NotFound: There is none.
    """
    files = _files(settings)
    if name not in files:
        known = ", ".join(each["name"] for each in registered_studies(settings))
        raise NotFound(
            f"no registered study {name[:100]!r}",
            hint=f"there are {known}; {Way.ADD_STUDIES}",
        )
    return files[name]


def _files(settings: Settings) -> dict[str, Path]:
    """Return the files by name; those of the settings' folders win over the shipped ones."""
    return {
        path.stem: path
        for folder in (studies_dir(), *reversed(settings.studies))
        for path in sorted(folder.glob("*.toml"))
        if _NAME.fullmatch(path.stem)
    }


def _load(name: str, path: Path, settings: Settings) -> RegisteredStudy:
    from tuner.study.spec import check_against
    from tuner.study.spec import load_study

    spec = load_study(path)
    operator = find_operator(spec.operator, settings)
    check_against(spec, operator)
    return RegisteredStudy(name, path, spec, operator)
