"""Reading what is stored: one trial, exports, frames."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.api.common import find_operator
from tuner.api.common import open_database
from tuner.api.plain import plain
from tuner.domain.controls import RunControls
from tuner.domain.identity import Plain
from tuner.errors import UsageError
from tuner.operator import Operator
from tuner.settings import load_settings
from tuner.settings import Settings

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.orm import Session


def history(
    study: str | None = None,
    *,
    what: str = "trials",
    settings: Settings | None = None,
) -> pd.DataFrame:
    """Return stored trials, samples or best configs as a flat pandas DataFrame.

    Args:
        study: Name or id of a study; None for all.
        what: ``trials``, ``samples`` or ``best``.
        settings: None reads them from the environment and ``tuner.toml``.

    Raises:
        NotFound: There is no such study, or no database.
    """
    from tuner.report.frames import to_frame

    with export_source(what, study, settings or load_settings()) as (rows, columns):
        return to_frame(rows, columns)


@contextmanager
def export_source(
    what: str, study: str | None, settings: Settings
) -> Iterator[tuple[Iterator[Mapping[str, Plain]], Sequence[str]]]:
    """Give the rows of an export as they are read, and their columns in order.

    Raises:
        UsageError: ``what`` is not ``trials``, ``samples`` or ``best``.
        NotFound: There is no such study, or no database.
    """
    from tuner.store import queries

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        sources = {
            "trials": (queries.iter_trials, queries.TRIAL_COLUMNS),
            "samples": (queries.iter_samples, queries.SAMPLE_COLUMNS),
            "best": (queries.iter_best, queries.BEST_COLUMNS),
        }
        if what not in sources:
            raise UsageError(f"nothing to export as {what!r}", hint="trials, best or samples")
        study_id = None if study is None else queries.find_study(session, study).id
        rows, columns = sources[what]
        yield rows(session, study_id=study_id), columns


def show_trial(trial_id: int, settings: Settings) -> dict[str, Plain]:
    """Return everything stored of a trial, as one JSON-ready object: the whole chain.

    ``claim`` tells what the trial is among the confirmed ones of its workload, environment and
    protocol; ``controls`` what was measured beside it in its runs; ``notes`` what a reader of
    its time must know of them; ``reproductions`` lists its reruns.

    Raises:
        NotFound: There is no such trial, or no database.
    """
    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        return trial_as_plain(session, trial_id)


def trial_as_plain(session: Session, trial_id: int) -> dict[str, Plain]:
    """Return what ``show_trial`` does, from an open store.

    Raises:
        NotFound: There is no such trial.
    """
    from tuner.report.chain import claim_of
    from tuner.report.controls import notes_of
    from tuner.store import queries
    from tuner.store.controls import trial_controls
    from tuner.store.reproductions import list_reproductions
    from tuner.store.reruns import is_rerun

    detail = queries.trial_detail(session, trial_id)
    candidates = queries.best_candidates(
        session,
        detail.summary.workload,
        environment_key=detail.environment.key,
        with_samples=True,
    )
    reruns = list_reproductions(session, original_kind="trial", original_id=str(trial_id))
    runs = trial_controls(session, trial_id)
    return {
        "schema": "tuner.trial/1",
        "claim": plain(
            claim_of(detail, candidates, is_rerun=is_rerun(session, detail.summary.study_id))
        ),
        **plain(detail),
        "controls": [controls_as_plain(each) for each in runs],
        "notes": notes_of(runs, detail.summary.median_us or detail.summary.quick_median_us),
        "reproductions": plain(reruns),
    }


def controls_as_plain(run: RunControls) -> dict[str, Plain]:
    """Return the controls of a run, with what follows from them, for JSON."""
    fields: dict[str, Plain] = plain(run)
    return {
        **fields,
        "copy_gb_s": run.copy_gb_s,
        "drift": run.drift,
        "is_marked": run.is_marked,
    }


def export_trial(trial_id: int, target: Path, settings: Settings) -> list[str]:
    """Write a trial as a folder that can be rerun without this database.

    Returns:
        The names of the files, in the order of the manifest.

    Raises:
        NotFound: There is no such trial, or its operator is not found.
        UsageError: It has no samples, or the folder is not empty.
    """
    from tuner.report.provenance_export import folder_files
    from tuner.report.provenance_export import write_folder
    from tuner.store import queries

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        detail = queries.trial_detail(session, trial_id)
        study = queries.find_study(session, detail.summary.study_id)
    operator = find_operator(study.operator, settings)
    files = folder_files(detail, study, _operator_files(operator))
    write_folder(target, files)
    return sorted(files)


def _operator_files(operator: Operator) -> dict[str, str]:
    """Return the text of an operator's files: all its Python, and all sources that can be read.

    All, because what ``operator.py`` imports is not known without running it.
    """
    files = {}
    for path in sorted(operator.directory.rglob("*.py")):
        name = path.relative_to(operator.directory).as_posix()
        if any(part.startswith((".", "__pycache__")) for part in name.split("/")[:-1]):
            continue
        try:
            files[name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} can't be read: {error}") from error
    for implementation in operator.implementations:
        # One that can't be read is not the exported one, whose text is stored.
        with suppress(UsageError):
            files.update(operator.source(implementation).files)
    return files
