"""Puts the files of a report into a folder, whole, and over nothing but an older report."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path

from tuner.domain.identity import Plain
from tuner.errors import UsageError

MANIFEST = "report.json"
MANIFEST_SCHEMA = "tuner.report/1"


@contextmanager
def staged(folder: Path, study: str, facts: Mapping[str, Plain]) -> Iterator[Path]:
    """Give an empty folder whose files go into ``folder`` when the block ends well.

    A file that stands in the way is replaced only if it is, unchanged, what an earlier report of
    the same study put there: ``report.json`` in the folder lists the SHA-256 of each. Each file
    appears whole or not at all.

    Args:
        folder: Where the report goes; made when it is missing.
        study: Name of the study.
        facts: What else the manifest says.

    Raises:
        UsageError: The folder can't be written, or a file of someone else is in the way. Nothing
            was replaced then.
    """
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tuner-report-", dir=folder) as name:
            staging = Path(name)
            yield staging
            _publish(staging, folder, study, facts)
    except OSError as error:
        raise UsageError(
            f"can't write {error.filename or folder}: {error.strerror or error}",
            hint="give another folder by --output",
        ) from error
    finally:
        if is_new:  # nothing went into it: leave no empty folder behind
            with contextlib.suppress(OSError):
                folder.rmdir()


def _publish(staging: Path, folder: Path, study: str, facts: Mapping[str, Plain]) -> None:
    before = _own_files(folder, study)
    names = sorted(
        path.relative_to(staging).as_posix() for path in staging.rglob("*") if path.is_file()
    )
    after = {name: _sha256(staging / name) for name in names}
    for name in names:
        _require_own(folder, name, before)
    # First the list, then the files: it names the old and the new content of each, so that a
    # report which is stopped between two files can be made again.
    files = dict(before)
    for name in names:
        target = folder / name
        files[name] = sorted({after[name], *([_sha256(target)] if target.exists() else [])})
    _write_manifest(staging, folder, {"study": study, **facts, "files": files})
    for name in names:
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        (staging / name).chmod(0o644)
        (staging / name).replace(target)


def _own_files(folder: Path, study: str) -> dict[str, list[str]]:
    path = folder / MANIFEST
    if not path.exists() and not path.is_symlink():
        return {}
    try:
        manifest = json.loads(path.read_text("utf-8"))
        if manifest["schema"] != MANIFEST_SCHEMA:
            raise ValueError(manifest["schema"])
        owner = str(manifest["study"])
        files = {str(name): [str(each) for each in hashes]
                 for name, hashes in manifest["files"].items()}  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} is not the manifest of a report", hint="give another folder by --output"
        ) from error
    if owner != study:
        raise UsageError(
            f"{folder} holds the report of study {owner[:100]!r}",
            hint="give another folder by --output",
        )
    return files


def _require_own(folder: Path, name: str, own: Mapping[str, list[str]]) -> None:
    target = folder / name
    parent = target.parent
    if parent != folder and (parent.is_symlink() or (parent.exists() and not parent.is_dir())):
        raise UsageError(f"{parent} is not a folder", hint="give another folder by --output")
    if not target.exists() and not target.is_symlink():
        return
    if target.is_symlink() or not target.is_file():
        raise UsageError(f"{target} is not a plain file", hint="give another folder by --output")
    if _sha256(target) not in own.get(name, []):
        changed = "was changed since it was written" if name in own else "is not of a report"
        raise UsageError(
            f"{target} {changed}; nothing was replaced",
            hint="move it away, or give another folder by --output",
        )


def _write_manifest(staging: Path, folder: Path, fields: Mapping[str, Plain]) -> None:
    handle, name = tempfile.mkstemp(dir=staging)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({"schema": MANIFEST_SCHEMA, **fields}, file, allow_nan=False, indent=2)
    Path(name).chmod(0o644)
    Path(name).replace(folder / MANIFEST)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
