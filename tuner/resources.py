"""Finds kernels/, studies/ and alembic/ in a checkout or inside the installed wheel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.errors import BrokenOperator
from tuner.errors import NotFound

_PACKAGE = Path(__file__).resolve().parent


def _content_dir(name: str) -> Path:
    bundled = _PACKAGE / "_bundled" / name
    return bundled if bundled.is_dir() else _PACKAGE.parent / name


def alembic_dir() -> Path:
    """Return the folder with the migrations."""
    return _content_dir("alembic")


def studies_dir() -> Path:
    """Return the folder with the shipped study files."""
    return _content_dir("studies")


def kernels_dir() -> Path:
    """Return the folder with the shipped operators."""
    return _content_dir("kernels")


def operator_dirs(extra: Sequence[Path] = ()) -> dict[str, Path]:
    """Return the folder of each operator by name; ``extra`` folders win over the shipped ones.

    Each of ``extra`` is either one operator's folder or a folder of such folders.

    Raises:
        BrokenOperator: One of ``extra`` holds no operator.
    """
    found = _operators_below(kernels_dir())
    for directory in extra:
        if (directory / "operator.py").is_file():
            own = {directory.resolve().name: directory.resolve()}
        else:
            own = _operators_below(directory)
        if not own:
            raise BrokenOperator(
                f"no operator in {directory}",
                hint="an operator is a folder with an operator.py; see docs/add-an-operator.md",
            )
        found.update(own)
    return found


def find_study_file(name_or_path: str) -> Path:
    """Return the path of a study file: a path as given, or a shipped study by name.

    Raises:
        NotFound: There is neither.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    for candidate in (studies_dir() / path.name, studies_dir() / f"{name_or_path}.toml"):
        # A shipped study is found by its bare name, or as studies/NAME.toml without a checkout.
        inside = candidate.resolve().is_relative_to(studies_dir().resolve())
        shipped_path = path.parent == Path() or str(path.parent) == "studies"
        if inside and shipped_path and candidate.is_file():
            return candidate
    shipped = ", ".join(sorted(each.stem for each in studies_dir().glob("*.toml")))
    raise NotFound(
        f"no study file {name_or_path!r}", hint=f"give a path, or one of the shipped: {shipped}"
    )


def _operators_below(directory: Path) -> dict[str, Path]:
    if not directory.is_dir():
        return {}
    found = (path.parent.resolve() for path in sorted(directory.glob("*/operator.py")))
    return {path.name: path for path in found}
