"""Running a study."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.api import kept_runs
from tuner.api.answer import answer_here
from tuner.api.common import device_for
from tuner.api.common import find_operator
from tuner.api.common import open_database
from tuner.api.common import source_hashes
from tuner.api.study_result import StudyResult
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
from tuner.study.events import StudyOpened
from tuner.worker.remembered import recall

if TYPE_CHECKING:
    from tuner.store import Store
    from tuner.study.events import Listener
    from tuner.study.plan import Plan
    from tuner.study.runner import StudyRunner
    from tuner.study.spec import Budget
    from tuner.study.spec import StudySpec
    from tuner.worker.crew import Crew
    from tuner.worker.messages import Ready
    from tuner.worker.pool import DeviceWorker


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
    said = None if fresh else recall(device_id, settings)
    tell = listener or _ignore_event
    result = None if said is None else _kept(spec, operator, said, tell, settings)
    if result is None:
        with open_crew(spec, operator, device_id, said, settings) as crew:
            runner, study_id, finished = _drive(
                spec, operator, crew, tell, settings,
                budget=budget or spec.budget, fresh=fresh, go_on=go_on,
            )  # fmt: skip
            crew.begin_close()
            read = partial(_read, runner, study_id, settings, finished=finished)
            result = kept_runs.keep(read, runner.definition, operator, settings)
    return replace(result, elapsed_s=time.monotonic() - begun)


def _kept(
    spec: StudySpec, operator: Operator, said: Ready, tell: Listener, settings: Settings
) -> StudyResult | None:
    """Return what the finished study left behind, if that is known without the database."""
    _, definition, _ = define_study(spec, operator, said)
    result = kept_runs.recall(definition, operator, settings)
    if result is not None:
        tell(StudyOpened(result.study_id, "finished", definition, definition.planned))
    return result


def open_crew(
    spec: StudySpec, operator: Operator, device_id: str, said: Ready | None, settings: Settings
) -> Crew:
    """Return the processes that a study needs, starting. Use as a context manager.

    Where it is finished on the device as it was known lately, none is.
    """
    from tuner.study.plan import most_builds
    from tuner.worker.crew import Crew

    languages = sorted({each.language for each in spec.implementations(operator)})
    if said is not None and _is_finished(define_study(spec, operator, said)[1], settings):
        return Crew(device_id, languages, settings, said)
    crew = Crew(device_id if said is None else said.facts.device_id, languages, settings)
    crew.start(most_builds(spec, operator))
    return crew


def _drive(
    spec: StudySpec,
    operator: Operator,
    crew: Crew,
    tell: Listener,
    settings: Settings,
    *,
    budget: Budget,
    fresh: bool,
    go_on: bool,
) -> tuple[StudyRunner, int, bool]:
    """Run a study to its end and return what did, the study's id, and whether it is finished."""
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
            listener=tell,
            budget=budget,
            fresh=fresh,
            go_on=go_on,
        )
        return runner, *runner.run()


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
    spec: StudySpec, operator: Operator, device: DeviceWorker | Ready
) -> tuple[Plan, StudyDefinition, dict[str, KernelSource]]:
    """Return the plan, the stored definition and the sources of a study on a device."""
    from tuner.study.plan import make_plan

    plan = make_plan(spec, operator, device.facts)
    names = [each.name for each in spec.implementations(operator)]
    sources = {name: operator.source(operator.implementation(name)) for name in names}
    definition = StudyDefinition(
        name=spec.name,
        operator=operator.name,
        spec=spec.as_plain(),
        device_id=device.facts.device_id,
        environment=device.environment,
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


def _read(runner: StudyRunner, study_id: int, settings: Settings, *, finished: bool) -> StudyResult:
    """Read what a run left behind, but for how long it took."""
    from tuner.store import queries
    from tuner.store.controls import study_controls

    with open_database(settings, create=False, writable=False) as store:
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
