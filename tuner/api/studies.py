"""Running a study."""

from __future__ import annotations

import time
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.api.answer import answer_here
from tuner.api.common import device_for
from tuner.api.common import find_operator
from tuner.api.common import open_database
from tuner.api.common import source_hashes
from tuner.domain.controls import RunControls
from tuner.domain.study import SourceText
from tuner.domain.study import StudyDefinition
from tuner.domain.workload import Workload
from tuner.errors import NotFound
from tuner.kernel_source import KernelSource
from tuner.operator import Operator
from tuner.report.best import BestAnswer
from tuner.resources import find_study_file
from tuner.settings import load_settings
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store import Store
    from tuner.study.coverage import Coverage
    from tuner.study.events import Listener
    from tuner.study.plan import Plan
    from tuner.study.runner import StudyRunner
    from tuner.study.spec import Budget
    from tuner.study.spec import StudySpec
    from tuner.worker.crew import Crew
    from tuner.worker.pool import DeviceWorker


@dataclass(frozen=True, slots=True)
class StudyResult:
    """What a run of a study left behind.

    Attributes:
        study_id: Row of the study.
        name: Its name.
        finished: Everything planned is stored.
        counts: Trials by outcome.
        best: Best config of each workload that has a valid one, in the study's order.
        unanswered: Workloads without a valid config.
        uncovered: Spaces of which configs were not tried, because of the budget or by plan.
        controls: What was measured beside the trials of this run, by workload.
        database: Path, or URL without user and password.
        elapsed_s: Wall-clock seconds of this run.
    """

    study_id: int
    name: str
    finished: bool
    counts: Mapping[str, int]
    best: tuple[BestAnswer, ...]
    unanswered: tuple[Workload, ...]
    uncovered: tuple[Coverage, ...]
    controls: tuple[RunControls, ...]
    database: str
    elapsed_s: float

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from tuner.report.notebook import study_result_html

        state = "finished" if self.finished else "not finished"
        return study_result_html(self.name, state, self.counts, self.best, self.unanswered)


def run_study(
    study: str | Path,
    *,
    shapes: Sequence[str] | None = None,
    device: str | None = None,
    budget: Budget | None = None,
    fresh: bool = False,
    go_on: bool = False,
    listener: Listener | None = None,
    settings: Settings | None = None,
) -> StudyResult:
    """Run a study file, or a shipped study by name; go on with it where it stopped.

    Args:
        study: Path of a study file, or name of a shipped one.
        shapes: Tune these instead of the file's, as a study of its own.
        device: ``auto``, ``cpu``, ``cuda:N`` or ``hip:N``; None takes the file's.
        budget: When to stop early; None takes the file's.
        fresh: Measure again what was measured before.
        go_on: Go on with a study that was begun with ``fresh``, and with measuring all of it.
        listener: Is told what happens.
        settings: None reads them from the environment and ``tuner.toml``.

    Raises:
        UsageError: The study file is wrong. Nothing was stored.
        DeviceUnavailable: The device can't be used. Nothing was stored.
        DatabaseProblem: The database can't be used.
    """
    settings, begun = settings or load_settings(), time.monotonic()
    spec, operator = _load(study, shapes, settings)
    device_id = device_for(device, spec.device, settings)
    with open_crew(spec, operator, device_id, settings, fresh=fresh) as crew:
        import tuner.store.store  # noqa: F401 - 0.3 s, while the processes start
        from tuner.study.runner import StudyRunner

        plan, definition, sources = define_study(spec, operator, crew.worker)
        with open_database(settings, create=True, writable=True) as store:
            runner = StudyRunner(
                operator=operator,
                spec=spec,
                plan=plan,
                definition=definition,
                sources=sources,
                recorder=store.recorder(),
                worker=crew.worker,
                builds=crew.builders(spec.limits.build_timeout_s),
                start_workers=crew.open_workers,
                keep_workers_ready=crew.keep_ready,
                listener=listener or _ignore_event,
                budget=budget or spec.budget,
                fresh=fresh,
                go_on=go_on,
            )
            study_id, finished = runner.run()
            crew.begin_close()
            result = _result(store, study_id, runner, finished=finished)
    return replace(result, elapsed_s=time.monotonic() - begun)


def open_crew(
    spec: StudySpec, operator: Operator, device_id: str, settings: Settings, *, fresh: bool
) -> Crew:
    """Return the processes that a study needs, starting. Use as a context manager.

    Where what the device said lately still holds, and the study is finished on it, none is.
    """
    from tuner.study.plan import most_builds
    from tuner.worker.crew import Crew
    from tuner.worker.remembered import recall

    languages = sorted({each.language for each in spec.implementations(operator)})
    said = None if fresh else recall(device_id, settings)
    if said is not None:
        crew = Crew(device_id, languages, settings, said)
        if _is_finished(define_study(spec, operator, crew.worker)[1], settings):
            return crew
    crew = Crew(device_id, languages, settings)
    crew.start(most_builds(spec, operator))
    return crew


def _is_finished(definition: StudyDefinition, settings: Settings) -> bool:
    from tuner.store.resume import is_finished

    try:
        with (
            open_database(settings, create=False, writable=False) as store,
            store.session() as session,
        ):
            return is_finished(session, definition.key)
    except NotFound:
        return False


def _load(
    study: str | Path, shapes: Sequence[str] | None, settings: Settings
) -> tuple[StudySpec, Operator]:
    from tuner.study.overrides import with_shapes
    from tuner.study.spec import check_against
    from tuner.study.spec import load_study

    spec = load_study(find_study_file(str(study)))
    operator = find_operator(spec.operator, settings)
    check_against(spec, operator)
    if shapes is not None:
        spec = with_shapes(spec, operator, shapes)
    return spec, operator


def define_study(
    spec: StudySpec, operator: Operator, worker: DeviceWorker
) -> tuple[Plan, StudyDefinition, dict[str, KernelSource]]:
    """Return the plan, the stored definition and the sources of a study on a device."""
    from tuner.study.plan import make_plan

    plan = make_plan(spec, operator, worker.facts)
    names = [each.name for each in spec.implementations(operator)]
    sources = {name: operator.source(operator.implementation(name)) for name in names}
    definition = StudyDefinition(
        name=spec.name,
        operator=operator.name,
        spec=spec.as_plain(),
        device_id=worker.facts.device_id,
        environment=worker.environment,
        protocol=spec.protocol,
        sources={
            name: SourceText(each.source_hash, each.language, each.entry, each.main, each.files)
            for name, each in sources.items()
        },
        languages={name: each.language for name, each in sources.items()},
        sampler=plan.sampler,
        sampler_seed=spec.search.seed,
        planned=plan.planned,
    )
    return plan, definition, sources


def _result(store: Store, study_id: int, runner: StudyRunner, *, finished: bool) -> StudyResult:
    """Return what a run left behind, but for how long it took."""
    from tuner.store import queries
    from tuner.store.controls import study_controls

    answers, unanswered = _answers(store, runner.operator, runner.plan, runner.definition)
    with store.session() as session:
        counts = queries.counts_by_outcome(session, study_id)
        controls = study_controls(session, study_id)
    own = tuple(each for each in controls if each.run_started_at == runner.controls.started_at)
    return StudyResult(
        study_id, runner.spec.name, finished, counts, answers, unanswered, runner.uncovered(), own,
        str(store.location), 0.0,
    )  # fmt: skip


def _answers(
    store: Store, operator: Operator, plan: Plan, definition: StudyDefinition
) -> tuple[tuple[BestAnswer, ...], tuple[Workload, ...]]:
    hashes = source_hashes(operator)
    answers: list[BestAnswer] = []
    unanswered: list[Workload] = []
    with store.session() as session:
        for workload in (each.workload for each in plan.workloads):
            try:
                answers.append(answer_here(session, workload, definition.environment, hashes))
            except NotFound:
                unanswered.append(workload)
    return tuple(answers), tuple(unanswered)


def _ignore_event(_event: object) -> None:
    return None
