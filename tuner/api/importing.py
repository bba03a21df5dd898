"""Taking in results from elsewhere: evidence of others, and databases of this program."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.domain.evidence import EvidenceFile
from tuner.domain.identity import bytes_hash
from tuner.domain.patterns import EVIDENCE_PATTERN
from tuner.domain.patterns import IN_WORDS
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.report.importers import LineProblem
from tuner.report.importers import MAX_FILE_BYTES
from tuner.report.importers import ParsedFile
from tuner.report.importers import READERS
from tuner.report.importers import recognise
from tuner.resources import find_study_file
from tuner.settings import load_settings
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store import Store
    from tuner.store.bundle_rows import BundleRow

BUNDLE, DATABASE, RECORDED = "bundle", "database", "recorded"
FORMATS = (BUNDLE, DATABASE, RECORDED, *READERS)

_RECORDED_ROW = re.compile(rb"^\s*\[\[\s*recorded\s*\]\]", re.MULTILINE)
_NO_NAME = re.compile(r"[^a-z0-9._-]+")
_NOTHING_STORED = "nothing of this file was stored"


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What importing a file changed.

    Attributes:
        file: As it was given.
        format: It was read as.
        evidence: Name of the set that holds its records; None for a bundle or database.
        added: What was added, by kind: records, or rows of measured tables.
        known: Rows or records that were here already.
        advanced: Trials and studies that were further along there.
        notes: Lines that were left out, and what could not be merged.
    """

    file: str
    format: str
    evidence: str | None
    added: dict[str, int]
    known: int = 0
    advanced: int = 0
    notes: tuple[str, ...] = ()


def import_file(
    path: str | Path,
    *,
    format_name: str | None = None,
    partial: bool = False,
    name: str | None = None,
    settings: Settings | None = None,
) -> ImportResult:
    """Store what a file holds; the database is created where there is none.

    A file is stored as a whole or not at all. One that was imported before adds nothing.

    Args:
        path: A file, or the name of a shipped one.
        format_name: One of ``FORMATS``; None recognises it from the content.
        partial: Store the good lines of a file of evidence that has bad ones.
        name: Name of the set of evidence; None takes it from the file.
        settings: None reads them from the environment and ``tuner.toml``.

    Raises:
        NotFound: There is no such file.
        UsageError: It can't be read, or has bad lines; the message names the first.
        SchemaMismatch: A bundle or database of a newer version.
        DatabaseProblem: The own database can't be used.
    """
    settings = settings or load_settings()
    found = _find(Path(path))
    if format_name is not None and format_name not in FORMATS:
        raise UsageError(f"no import format {format_name!r}", hint=f"one of {', '.join(FORMATS)}")
    if name is not None and not re.fullmatch(EVIDENCE_PATTERN, name):
        raise UsageError(
            f"{name[:80]!r} can't name evidence", hint=f"use {IN_WORDS[EVIDENCE_PATTERN]}"
        )
    kind = format_name or _database_kind(found)
    if kind in (BUNDLE, DATABASE):
        if name is not None:
            raise UsageError(f"{path}: a {kind} keeps its own names", hint="leave --name out")
        return _merge_file(found, kind, settings)
    return _import_evidence(found, kind, partial=partial, name=name, settings=settings)


@contextmanager
def bundle_source(study: str | None, settings: Settings) -> Iterator[Iterator[str]]:
    """Give the lines of a bundle of a study, or of the whole database, as they are read.

    Raises:
        NotFound: There is no such study, or no database.
    """
    from tuner.store import queries
    from tuner.store.bundle import bundle_lines
    from tuner.store.bundle import iter_rows

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = None if study is None else queries.find_study(session, study)
        rows = iter_rows(session, None if found is None else found.id)
        yield bundle_lines(rows, None if found is None else found.name)


def _find(path: Path) -> Path:
    if path.is_file():
        return path
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="give the files in it")
    try:
        return find_study_file(str(path))
    except NotFound:
        raise NotFound(f"no such file: {path}", hint="give the path of a file") from None


def _database_kind(path: Path) -> str | None:
    from tuner.store.bundle import is_bundle
    from tuner.store.location import SQLITE_MAGIC

    start = _read(path, 64)
    if start.startswith(SQLITE_MAGIC):
        return DATABASE
    return BUNDLE if is_bundle(start) else None


def _read(path: Path, size_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size_bytes)
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}") from error


# --- evidence


def _import_evidence(
    path: Path, kind: str | None, *, partial: bool, name: str | None, settings: Settings
) -> ImportResult:
    from tuner.store.evidence import add_evidence

    content = _read(path, MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"{path}: larger than {MAX_FILE_BYTES} bytes", hint=_NOTHING_STORED)
    kind = kind or _evidence_kind(content, path)
    parsed = _parse(content, kind, path)
    problems = [_place(path, each, parsed.counts) for each in parsed.problems]
    if problems and not (partial and parsed.records):
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        hint = f"{_NOTHING_STORED}; --partial stores its good lines"
        raise UsageError(problems[0] + more, hint=hint if parsed.records else _NOTHING_STORED)
    if not parsed.records:
        raise UsageError(f"{path}: there is no record in it", hint=_NOTHING_STORED)
    digest = bytes_hash(content)
    evidence = name or parsed.name or _name_of(path, digest)
    file = EvidenceFile(digest, path.name, kind, len(content))
    with (
        open_database(settings, create=True, writable=True) as store,
        store.transaction() as connection,
    ):
        stored = add_evidence(
            connection, evidence, file, parsed.records, may_extend=name is not None
        )
    return ImportResult(
        file=str(path),
        format=kind,
        evidence=stored.evidence,
        added={"records": stored.added},
        known=len(parsed.records) if stored.is_known else 0,
        notes=tuple(f"left out: {each}" for each in problems),
    )


def _evidence_kind(content: bytes, path: Path) -> str:
    # A log or a table may hold anything in its cells; a row of an evidence file is a line.
    kind = recognise(content) or (RECORDED if _RECORDED_ROW.search(content) else None)
    if kind is not None:
        return kind
    hint = f"--format says what it is: {', '.join(FORMATS)}"
    if content.startswith(b"trial_id,"):
        hint = "tables are for other programs; `tuner export bundle` makes a file to import"
    raise UsageError(f"{path}: not a format this program knows", hint=hint)


def _parse(content: bytes, kind: str, path: Path) -> ParsedFile:
    if kind != RECORDED:
        return READERS[kind](content)
    from tuner.study.recorded import parse_recorded

    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return ParsedFile((), (LineProblem(line, "not UTF-8 text"),))
    name, records = parse_recorded(text, str(path))
    return ParsedFile(records, (), name)


def _place(path: Path, problem: LineProblem, counts: str) -> str:
    place = f":{problem.line}" if counts == "line" else f": {counts} {problem.line}"
    return f"{path}{place}: {problem.what}"


def _name_of(path: Path, digest: str) -> str:
    """Return a name that no other content gets: two files are often called summary.csv."""
    stem = _NO_NAME.sub("-", path.stem.lower()).strip("-._")[:40]
    word = stem if stem[:1].isalpha() else f"file-{stem}".rstrip("-")
    return f"{word}-{digest[:8]}"


# --- bundles and databases of this program


def _merge_file(path: Path, kind: str, settings: Settings) -> ImportResult:
    from tuner.store.bundle import read_bundle

    if kind == BUNDLE:
        return _merge(path, kind, lambda: read_bundle(path), settings)
    from tuner.store.location import locate

    target = locate(settings.db).path
    if target is not None and target.exists() and os.path.samefile(path, target):
        raise UsageError(f"{path} is the database itself", hint="give another one, or another --db")
    with _opened(path) as store:
        return _merge(path, kind, lambda: _database_rows(store, path), settings)


def _merge(
    path: Path, kind: str, rows: Callable[[], Iterator[BundleRow]], settings: Settings
) -> ImportResult:
    """Merge rows that can be read twice: all of them are checked before anything is written."""
    from tuner.store.merge import merge

    for _ in rows():
        pass
    with (
        open_database(settings, create=True, writable=True) as store,
        store.transaction() as connection,
    ):
        report = merge(connection, rows())
    return ImportResult(
        file=str(path),
        format=kind,
        evidence=None,
        added=dict(report.added),
        known=report.known,
        advanced=report.advanced,
        notes=tuple(report.left_out),
    )


def _database_rows(store: Store, path: Path) -> Iterator[BundleRow]:
    from tuner.store.bundle import iter_rows
    from tuner.store.bundle_rows import check_row

    with store.session() as session:
        for row in iter_rows(session):
            try:
                check_row(row)
            except ValueError as error:
                raise UsageError(
                    f"{path}: {error}", hint=f"`tuner db check --db {path}` says more"
                ) from error
            yield row


@contextmanager
def _opened(path: Path) -> Iterator[Store]:
    """Open another database for reading; of an older one, a copy that is upgraded."""
    from tuner.store import migrate
    from tuner.store import open_store

    if migrate.info(str(path.absolute())).state != "older":
        with open_store(str(path.absolute()), create=False, writable=False) as store:
            yield store
        return
    with tempfile.TemporaryDirectory(prefix="tuner-import-") as folder:
        copy = Path(folder) / "copy.db"
        migrate.backup(str(path.absolute()), copy)
        migrate.upgrade(str(copy))
        with open_store(str(copy), create=False, writable=False) as store:
            yield store
