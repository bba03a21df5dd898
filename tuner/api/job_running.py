"""Doing what a job asks for."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.api.registered import registered_path
from tuner.api.reproducing import reproduce
from tuner.api.studies import run_study
from tuner.domain.identity import Plain
from tuner.domain.queue import JobKind
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.study.events import Event


def run_job(
    kind: JobKind,
    request: Mapping[str, Plain],
    device_id: str,
    settings: Settings,
    *,
    study_id: int | None,
    on_study: Callable[[int], None],
) -> dict[str, Plain]:
    """Run a job to its end and return what it gave.

    Args:
        kind: Study or rerun.
        request: As the queue stores it.
        device_id: Where to run.
        settings: Say which database, and where studies and operators are.
        study_id: The last study that it opened before, or another job did that it takes over
            from: it goes on with that one. None where it is to begin.
        on_study: Is told the id of each study that it opens.

    Raises:
        TunerError: Why it failed.
    """
    from tuner.study.events import StudyOpened
    from tuner.study.overrides import parse_budget

    def listen(event: Event) -> None:
        if isinstance(event, StudyOpened):
            on_study(event.study_id)

    if kind is JobKind.REPRODUCE:
        report = reproduce(
            request["record"],
            device=device_id,
            shape=request["shape"],
            stored_only=True,
            go_on_from=study_id,
            listener=listen,
            settings=settings,
        )
        summary = report.as_plain()
        names = ("verdict", "ratio", "ratio_low", "ratio_high", "threshold", "reasons")
        return {name: summary[name] for name in (*names, "rerun_study_ids")}
    budget = request["budget"]
    result = run_study(
        registered_path(request["study"], settings),
        shapes=request["shapes"],
        device=device_id,
        budget=None if budget is None else parse_budget(budget),
        fresh=request["fresh"],
        go_on=study_id is not None,
        listener=listen,
        settings=settings,
    )
    return {
        "study_id": result.study_id,
        "finished": result.finished,
        "counts": dict(result.counts),
        "unanswered": [each.shape_text for each in result.unanswered],
        "elapsed_s": result.elapsed_s,
    }
