"""Stored exhaustive studies as spaces to try samplers on, and to hand to other tuners."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tuner.api.common import open_database
from tuner.api.common import operator_if_known
from tuner.api.machine import facts_of_architecture
from tuner.domain.device import DeviceFacts
from tuner.domain.identity import Config
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.workload import Workload
from tuner.errors import UsageError
from tuner.operator import Implementation
from tuner.operator import Operator
from tuner.settings import load_settings
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.store.views import StudySummary
    from tuner.store.views import TrialSummary
    from tuner.study.simulate import Efficiency
    from tuner.study.simulate import RecordedSpace

ALL = "all"
REPEATS = 25
EVALUATIONS = 200


@dataclass(frozen=True, slots=True)
class StoredSpaces:
    """The spaces of a finished exhaustive study.

    Attributes:
        study: The study.
        spaces: One for each workload and implementation with a valid time, in the order begun.
    """

    study: StudySummary
    spaces: tuple[RecordedSpace, ...]


def stored_spaces(study: str, settings: Settings) -> StoredSpaces:
    """Return a study's spaces with the quick median of each config.

    Raises:
        NotFound: There is no such study, or no database.
        UsageError: It is not finished or not exhaustive, or no config of it has a time.
    """
    from tuner.store import queries

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = queries.find_study(session, study)
        if found.state != "finished" or found.sampler != "exhaustive":
            raise UsageError(
                f"study {found.name} (id {found.id}) is {found.state}, its sampler is "
                f"{found.sampler}: not every config of it has been measured",
                hint='finish one with `sampler = "exhaustive"` under [search]',
            )
        trials = queries.list_trials(session, found.id)
    operator = operator_if_known(found.operator, settings)
    spaces = tuple(_spaces(found, trials, operator))
    if not spaces:
        raise UsageError(f"study {found.name} (id {found.id}) has no valid time")
    return StoredSpaces(found, spaces)


def simulate(
    study: str,
    samplers: Sequence[str],
    *,
    repeats: int = REPEATS,
    evaluations: int = EVALUATIONS,
    seed: int = 0,
    warm_start: bool = False,
    from_default: bool = True,
    settings: Settings | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[dict[str, Plain]]:
    """Replay searches on a finished exhaustive study and say how fast they found the best.

    Args:
        study: Name or id.
        samplers: What to compare.
        repeats: Searches of each sampler and space, with seeds of their own.
        evaluations: Configs that a search may try.
        seed: Of the first repeat.
        warm_start: Tell each search the results of the study's other workloads.
        from_default: Begin with the implementation's default config, as a study does.
        settings: None reads them from the environment and ``tuner.toml``.
        progress: Is told which space is searched.

    Returns:
        A row for each space and sampler, then one for each sampler over all spaces. Its first
        rows are of random search, calculated.

    Raises:
        NotFound: There is no such study, or no database.
        UsageError: The study is not a finished exhaustive one.
        MissingDependency: A sampler needs packages that are not installed.
    """
    from tuner.study.samplers import check_available

    for sampler in samplers:
        check_available(sampler)
    spaces = stored_spaces(study, settings or load_settings()).spaces
    run = partial(
        _efficiency,
        spaces=spaces, repeats=repeats, evaluations=evaluations, seed=seed,
        warm_start=warm_start, from_default=from_default,
    )  # fmt: skip
    rows: list[dict[str, Plain]] = []
    found: dict[str, list[Efficiency]] = {sampler: [] for sampler in samplers}
    for space in spaces:
        rows.append(_calculated_row(space))
        for sampler in samplers:
            if progress:
                progress(f"{sampler}: {space.workload.shape_text} {space.implementation}")
            found[sampler].append(run(space, sampler))
            rows.append(_row(space, sampler, [found[sampler][-1]]))
    return rows + [_row(None, sampler, each) for sampler, each in found.items()]


def _efficiency(
    space: RecordedSpace,
    sampler: str,
    *,
    spaces: Sequence[RecordedSpace],
    repeats: int,
    evaluations: int,
    seed: int,
    warm_start: bool,
    from_default: bool,
) -> Efficiency:
    from tuner.study.simulate import judge
    from tuner.study.simulate import replay
    from tuner.study.simulate import without_default

    nearby = [
        each.as_nearby()
        for each in spaces
        if warm_start
        and each.implementation == space.implementation
        and each.workload != space.workload
    ]
    searched = space if from_default else without_default(space)
    replays = [
        replay(searched, sampler, seed + repeat, evaluations, nearby) for repeat in range(repeats)
    ]
    return judge(space, sampler, replays)


def _row(
    space: RecordedSpace | None, sampler: str, efficiencies: Sequence[Efficiency]
) -> dict[str, Plain]:
    from tuner.study.simulate import summarize

    return {**_space_columns(space), "sampler": sampler, **summarize(efficiencies)}


def _calculated_row(space: RecordedSpace) -> dict[str, Plain]:
    from tuner.study.simulate import summarize_random

    return {
        **_space_columns(space),
        "sampler": "random, calculated",
        **summarize_random(space.baseline),
    }


def _space_columns(space: RecordedSpace | None) -> dict[str, Plain]:
    if space is None:
        return {"shape": ALL, "dtype": ALL, "implementation": ALL}
    return {
        "shape": space.workload.shape_text,
        "dtype": space.workload.dtype,
        "implementation": space.implementation,
        "configs": space.trials,
        "best_us": space.baseline.optimum_us,
    }


def _spaces(
    study: StudySummary, trials: Sequence[TrialSummary], operator: Operator | None
) -> Iterator[RecordedSpace]:
    from tuner.study.simulate import RecordedSpace

    results: dict[tuple[Workload, str], dict[str, tuple[Config, float | None]]] = {}
    for trial in trials:
        if trial.outcome in (None, Outcome.SKIPPED, Outcome.INTERRUPTED):
            continue
        value_us = trial.quick_median_us if trial.outcome is Outcome.OK else None
        # Of several attempts the last one counts.
        space = results.setdefault((trial.workload, trial.implementation), {})
        space[repr(sorted(trial.config.items()))] = (trial.config, value_us)
    facts = _facts(study.architecture)
    for (workload, name), by_config in results.items():
        known = tuple(by_config.values())
        if all(value_us is None for _, value_us in known):
            continue
        default, cost = _expected(operator, name, workload, facts)
        is_measured = any(config == default for config, _ in known)
        yield RecordedSpace(workload, name, known, default if is_measured else None, cost)


def _facts(architecture: str) -> DeviceFacts | None:
    try:
        return facts_of_architecture(architecture)
    except UsageError:  # a CPU: no operator has a cost model for it
        return None


def _expected(
    operator: Operator | None, name: str, workload: Workload, facts: DeviceFacts | None
) -> tuple[Config | None, Callable[[Config], float]]:
    """Return today's default and cost model of an implementation, where there are any."""
    nothing: tuple[None, Callable[[Config], float]] = (None, lambda _config: 0.0)
    if operator is None or facts is None or len(operator.dims) != len(workload.shape):
        return nothing
    implementation: Implementation | None = next(
        (each for each in operator.implementations if each.name == name), None
    )
    if implementation is None:
        return nothing
    dims, prior = operator.dimensions(workload), implementation.prior
    return implementation.default(dims, facts), lambda config: prior(config, dims, facts)
