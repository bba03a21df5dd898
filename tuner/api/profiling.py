"""Profiling a stored trial's kernel with the vendor's profiler, or from a profiler's file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.api.common import device_for
from tuner.api.common import find_operator
from tuner.api.common import open_database
from tuner.api.common import open_worker
from tuner.api.profile_answer import answer
from tuner.api.profile_answer import environment_notes
from tuner.api.profile_answer import profile_row
from tuner.domain.environment import Environment
from tuner.domain.identity import Plain
from tuner.domain.job import LaunchGeometry
from tuner.domain.job import TrialJob
from tuner.domain.outcome import Outcome
from tuner.domain.profile import KernelProfile
from tuner.domain.profile import ProfilerName
from tuner.domain.profile import ProfileSource
from tuner.domain.records import TrialReport
from tuner.errors import EnvironmentProblem
from tuner.errors import TunerError
from tuner.errors import UsageError
from tuner.kernel_source import KernelSource
from tuner.settings import load_settings
from tuner.settings import Settings

if TYPE_CHECKING:
    from tuner.report.profiles import Target
    from tuner.store import Store
    from tuner.store.views import TrialDetail
    from tuner.worker.profiler import ProfiledRun

DEFAULT_LAUNCHES = 5
WARMUP_LAUNCHES = 1
# Which vendor's profiler watches which kind of device.
PROFILER_OF_KIND: dict[str, ProfilerName] = {
    "cuda": ProfilerName.NCU,
    "hip": ProfilerName.ROCPROFV3,
}


def profile_trial(
    trial_id: int,
    *,
    device: str | None = None,
    profiler: ProfilerName | str | None = None,
    launches: int = DEFAULT_LAUNCHES,
    settings: Settings | None = None,
) -> dict[str, Plain]:
    """Run a trial's kernel once under the vendor's profiler and store what it tells.

    The kernel is rebuilt from the stored source, config, geometry and seed; its output is checked
    before and after the launches.

    Args:
        trial_id: A valid trial.
        device: ``auto``, ``cuda:N`` or ``hip:N``; None takes the setting.
        profiler: ``ncu`` or ``rocprofv3``; None takes the one of the device's vendor.
        launches: Launches to take the time of.
        settings: None reads them from the environment and ``tuner.toml``.

    Raises:
        NotFound: There is no such trial, or no database.
        UsageError: The trial is not valid, or the profiler is not of the device's vendor.
        EnvironmentProblem: The device has no vendor profiler or another architecture, or the
            profiler failed. Nothing was stored.
        MissingDependency: The profiler is not installed.
        TunerError: The kernel failed when it was run again. Nothing was stored.
        BudgetExhausted: The profiler did not end in time.
    """
    from tuner.worker.profiler import find_tool
    from tuner.worker.profiler import run_profiled

    settings = settings or load_settings()
    if launches < 1:
        raise UsageError(f"{launches} launches: at least 1 is needed to take a time")
    with open_database(settings, create=False, writable=True) as store:
        detail = _valid_trial(store, trial_id)
        job = _job(detail, launches, settings)
        with open_worker(device_for(device, "auto", settings), settings) as worker:
            facts, environment = worker.facts, worker.environment
        name = _profiler_for(facts.kind, facts.device_id, profiler)
        find_tool(name)
        _require_same_architecture(detail, environment, facts.device_id)
        run = run_profiled(name, facts.device_id, job, settings)
        _require_success(trial_id, run.report)
        profile = _profile_of_run(name, run, _target(detail, launches))
        profile_id, _ = _store(store, trial_id, profile, ProfileSource("run"), environment)
        return answer(store, detail, profile_id, environment_notes(detail, environment))


def import_profile(
    trial_id: int, path: Path, *, settings: Settings | None = None
) -> dict[str, Plain]:
    """Store what a profiler's file tells of a trial's kernel. Its format is recognised.

    Raises:
        NotFound: There is no such trial, file or database.
        UsageError: The trial is not valid, the file is not a profiler's, it is malformed, or it
            is not of this trial's kernel, workload and config. Nothing was stored.
    """
    from tuner.report.profiles import profile_of
    from tuner.report.profiles import read_trace_file

    settings = settings or load_settings()
    with open_database(settings, create=False, writable=True) as store:
        detail = _valid_trial(store, trial_id)
        trace, sha256 = read_trace_file(path)
        profile = profile_of(trace, _target(detail))
        source = ProfileSource("file", path.name, sha256)
        profile_id, is_new = _store(store, trial_id, profile, source, None)
        notes = [] if is_new else [f"{path.name} was imported for this trial before; nothing added"]
        return answer(store, detail, profile_id, notes)


def list_profiles(trial_id: int, settings: Settings) -> list[dict[str, Plain]]:
    """Return the stored profiles of a trial as rows, oldest first.

    Raises:
        NotFound: There is no such trial, or no database.
    """
    from tuner.store import profiles
    from tuner.store import queries

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        queries.trial_detail(session, trial_id)  # tells a trial without profiles from no trial
        return [profile_row(each) for each in profiles.profiles_of(session, trial_id)]


def _valid_trial(store: Store, trial_id: int) -> TrialDetail:
    from tuner.store import queries

    with store.session() as session:
        detail = queries.trial_detail(session, trial_id)
    if detail.summary.outcome is not Outcome.OK or detail.geometry is None:
        outcome = detail.summary.outcome or "still running"
        raise UsageError(
            f"trial {trial_id} is {outcome}; only a valid trial can be profiled",
            hint="`tuner trials STUDY --outcome ok` lists those of a study",
        )
    return detail


def _geometry(detail: TrialDetail) -> LaunchGeometry:
    assert detail.geometry is not None  # _valid_trial saw to it
    return detail.geometry


def _job(detail: TrialDetail, launches: int, settings: Settings) -> TrialJob:
    """Return the trial as it was, with a few single launches and one input case."""
    from tuner.study.confirm import sampling_of

    summary, stored = detail.summary, detail.source
    operator = find_operator(summary.workload.operator, settings)
    source = KernelSource(
        stored.language, dict(stored.files), stored.main, stored.entry, stored.source_hash
    )
    implementation = operator.implementation(summary.implementation)
    kernel = operator.kernel(implementation, source, summary.config, summary.workload)
    if kernel.then:
        raise UsageError(
            f"trial {summary.id} runs {len(kernel.launches)} kernels, a profile is of one",
            hint="profile a trial of an implementation that is one kernel",
        )
    problem = operator.problem(summary.workload)
    wanted = detail.protocol.input_case
    timed = [case for case in problem.cases if wanted in ("", case.name)][:1]
    if not timed:
        raise UsageError(f"operator {operator.name} has no input case {wanted!r} any more")
    sampling = sampling_of(detail.protocol)
    return TrialJob(
        replace(kernel, geometry=_geometry(detail)),
        replace(problem, cases=tuple(timed)),
        # One by one from a stream: a profiler may show a graph of launches as one.
        replace(
            sampling,
            warmup=WARMUP_LAUNCHES,
            samples=launches,
            launches_per_sample=1,
            submission="stream",
        ),
    )


def _target(detail: TrialDetail, launches: int | None = None) -> Target:
    from tuner.report.profiles import Target

    entry, geometry = detail.source.entry, _geometry(detail)
    if launches is None:
        return Target(entry, geometry)
    return Target(entry, geometry, 1 + WARMUP_LAUNCHES, launches, 1)


def _profiler_for(kind: str, device_id: str, asked: ProfilerName | str | None) -> ProfilerName:
    if kind not in PROFILER_OF_KIND:
        name = "the CPU" if kind == "cpu" else device_id
        raise EnvironmentProblem(
            f"there is no vendor profiler for {name}",
            hint="profile on a GPU (--device cuda:0 or hip:0), or import a file with --from",
        )
    found = PROFILER_OF_KIND[kind]
    if asked is not None and str(asked) != found.value:
        raise UsageError(
            f"{asked} does not profile {device_id}", hint=f"the profiler for it is {found}"
        )
    return found


def _require_same_architecture(
    detail: TrialDetail, environment: Environment, device_id: str
) -> None:
    then = detail.environment.identity.get("architecture")
    now = environment.identity.get("architecture")
    if then != now:
        raise EnvironmentProblem(
            f"trial {detail.summary.id} was measured on {then}, {device_id} is {now}",
            hint="a profile of another architecture tells nothing of this trial",
        )


def _require_success(trial_id: int, report: TrialReport) -> None:
    if report.failure is not None:
        failure = report.failure
        raise TunerError(
            f"trial {trial_id} was valid and is {failure.outcome} now, in {failure.stage}: "
            f"{failure.message}",
            hint="nothing was stored; `tuner reproduce` says what differs from then",
        )


def _profile_of_run(name: ProfilerName, run: ProfiledRun, target: Target) -> KernelProfile:
    """Read a run's files; of several processes' traces, the one with the target counts."""
    from tuner.report.profiles import is_kernel
    from tuner.report.profiles import parse_trace
    from tuner.report.profiles import profile_of

    try:
        traces = [parse_trace(text, file) for file, text in run.outputs.items()]
        own = [
            trace
            for trace in traces
            if any(is_kernel(each.kernel_name, target.entry) for each in trace.dispatches)
        ]
        return profile_of((own or traces)[0], target, run.version)
    except UsageError as error:  # not the user's file
        raise EnvironmentProblem(
            f"{name} gave no usable profile: {error.message}",
            hint=f"nothing was stored; its last output: {run.last_words}",
        ) from error


def _store(
    store: Store,
    trial_id: int,
    profile: KernelProfile,
    source: ProfileSource,
    environment: Environment | None,
) -> tuple[int, bool]:
    from tuner.store import profiles

    with store.transaction() as connection:
        return profiles.add_profile(connection, trial_id, profile, source, environment)
