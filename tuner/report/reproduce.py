"""Compares a rerun with what was stored and gives a verdict. Pure.

The rule and why its numbers are what they are: docs/decisions/0009-reproduce.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace

from tuner.domain.environment import differences
from tuner.domain.environment import Environment
from tuner.domain.environment import FieldDifference
from tuner.domain.evidence import OriginalKind
from tuner.domain.evidence import RecordedTimes
from tuner.domain.evidence import Verdict
from tuner.domain.identity import Config
from tuner.domain.identity import Plain
from tuner.domain.job import LaunchGeometry
from tuner.domain.outcome import Outcome
from tuner.domain.protocol import Protocol
from tuner.domain.records import BuildReport
from tuner.domain.stats import ratio_interval
from tuner.domain.stats import result_median
from tuner.domain.study import SourceText
from tuner.domain.workload import Workload

# Relative change that counts. H200, 2026-12-02: most medians of two full runs lie within 1 %.
GPU_THRESHOLD = 0.02
# One process shows no spread between processes. On the H200 their standard deviation is below
# 1.3 % in 95 % of confirmed trials: two of them differ by 1.3 % * sqrt(2) * 1.96 = 3.6 % more.
SINGLE_PROCESS_THRESHOLD = 0.06
# Shared cores: other work on the machine moves all processes of a session alike.
CPU_THRESHOLD = 0.25
# A launch of about 1 us moves by its own floor: H200, 1x1, 0.857 and 0.881 us in two runs.
RESOLUTION_US = 0.03

# Identity fields that say which device it is; the others say what drives it.
DEVICE_FIELDS = frozenset(
    ("architecture", "compute_units", "pci_device_id", "memory_bytes", "memory", "cpu", "wave_size")
)
WRONG_OUTCOMES = (Outcome.WRONG_RESULT, Outcome.NON_FINITE, Outcome.UNSTABLE_RESULT)
_EXIT_CODES: Mapping[Verdict, int] = {
    "same": 0,
    "faster": 0,
    "ambiguous": 0,
    "slower": 1,
    "wrong": 1,
    "not_comparable": 3,
}


@dataclass(frozen=True, slots=True)
class Original:
    """A stored result, from wherever it came.

    Attributes:
        kind: ``trial``, ``record`` or ``folder``.
        id: Row of a trial or record; SHA-256 of a folder's manifest.
        workload: What it was measured on.
        implementation: Name of the implementation.
        config: As stored, with the names the source uses.
        processes_us: Samples of each process; for a record without samples, each process's
            median as far as it states them; empty where it states a single figure.
        median_us: Its figure.
        environment: Where it was measured.
        protocol: How it was measured.
        is_quick: Only the quick stage's samples are stored.
        recorded: Figures as they were written; None for what this program measured.
        source: Text of its kernel; None where none is stored.
        geometry: How it was launched; None where that is not stored.
        build: How it was built; None where that is not stored.
        launches_per_sample: Of each process, as chosen or fixed.
        submissions: Of each process, as done.
        runs_as: Our implementation that does the same, where the source names it otherwise.
        rerun_config: Our config that means the same; None where ``config`` has our names.
        faster_than: Implementations that the source says it is faster than.
    """

    kind: OriginalKind
    id: str
    workload: Workload
    implementation: str
    config: Config
    processes_us: tuple[tuple[float, ...], ...]
    median_us: float
    environment: Environment
    protocol: Protocol
    is_quick: bool = False
    recorded: RecordedTimes | None = None
    source: SourceText | None = None
    geometry: LaunchGeometry | None = None
    build: BuildReport | None = None
    launches_per_sample: tuple[int, ...] = ()
    submissions: tuple[str, ...] = ()
    runs_as: str = ""
    rerun_config: Config | None = None
    faster_than: tuple[str, ...] = ()

    @property
    def rerun_implementation(self) -> str:
        """Name of the implementation that is run again."""
        return self.runs_as or self.implementation


@dataclass(frozen=True, slots=True)
class Rerun:
    """What came out when a result was measured again.

    Attributes:
        workload: What it was measured on: another one where the shape was overridden.
        config: As it was run.
        outcome: How it ended; ``skipped`` where this device refuses the config.
        message: Why it is not ok, or "".
        trial_id: Row of the rerun; None where it was skipped.
        study_id: Study that holds it.
        processes_us: Samples of each valid process.
        build: How it was built.
        max_abs_error: Largest of its validations.
        launches_per_sample: Of each process.
        submissions: Of each process.
        again_trial_id: Row of the second look; None where there was none.
        again_study_id: Study that holds it.
    """

    workload: Workload
    config: Config
    outcome: Outcome
    message: str = ""
    trial_id: int | None = None
    study_id: int | None = None
    processes_us: tuple[tuple[float, ...], ...] = ()
    build: BuildReport | None = None
    max_abs_error: float | None = None
    launches_per_sample: tuple[int, ...] = ()
    submissions: tuple[str, ...] = ()
    again_trial_id: int | None = None
    again_study_id: int | None = None

    @property
    def median_us(self) -> float | None:
        """Median of the process medians; None where it failed."""
        return result_median(self.processes_us) if self.processes_us else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with what it rests on.

    Attributes:
        verdict: What came out.
        ratio: Rerun over original: above 1 is slower. None where it means nothing.
        low: Lower end of its 95 % interval; None where there is none.
        high: Upper end.
        threshold: Relative change that counts; None where no times were judged.
        reasons: Why it is wrong or not comparable.
    """

    verdict: Verdict
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored result beside its rerun.

    Attributes:
        original: What was stored.
        rerun: What came out now.
        judgement: Of the two.
        changes: What differs in how it was built and timed, one line each.
    """

    original: Original
    rerun: Rerun
    judgement: Judgement
    changes: tuple[str, ...] = ()


def merged(first: Rerun, second: Rerun) -> Rerun:
    """Return a rerun and its second look as one: a failure of the second is that of both."""
    is_ok = second.outcome is Outcome.OK
    return replace(
        first,
        outcome=second.outcome,
        message=second.message,
        processes_us=(*first.processes_us, *second.processes_us) if is_ok else (),
        launches_per_sample=(*first.launches_per_sample, *second.launches_per_sample),
        submissions=(*first.submissions, *second.submissions),
        again_trial_id=second.trial_id,
        again_study_id=second.study_id,
    )


def exit_code(verdict: Verdict) -> int:
    """Return the exit code of a verdict: ambiguous is no regression, and the output warns."""
    return _EXIT_CODES[verdict]


def threshold_for(median_us: float, *, is_cpu: bool, processes: int) -> float:
    """Return the relative change that counts for a result.

    Args:
        median_us: Of the original.
        is_cpu: Timed on a CPU.
        processes: The fewer of both sides.
    """
    if is_cpu:
        return CPU_THRESHOLD
    least = GPU_THRESHOLD if processes > 1 else SINGLE_PROCESS_THRESHOLD
    return max(least, RESOLUTION_US / median_us)


def judge_times(
    original: Sequence[Sequence[float]], rerun: Sequence[Sequence[float]], *, is_cpu: bool
) -> Judgement:
    """Compare two sets of samples that may be compared.

    ``slower`` and ``faster`` need the whole interval of the ratio beyond the threshold,
    ``same`` needs it within; anything else is ``ambiguous``.

    Raises:
        ValueError: A side has no process, or a process has no samples.
    """
    original_us = result_median(original)
    ratio = result_median(rerun) / original_us
    processes = min(len(original), len(rerun))
    threshold = threshold_for(original_us, is_cpu=is_cpu, processes=processes)
    low, high = ratio_interval(original, rerun)
    if math.isinf(high):  # one single sample on a side: no interval at all
        return Judgement("ambiguous", ratio, None, None, threshold)
    return Judgement(_beyond(low, high, threshold), ratio, low, high, threshold)


def _beyond(low: float, high: float, threshold: float) -> Verdict:
    limit = 1.0 + threshold
    if low > limit:
        return "slower"
    if high < 1.0 / limit:
        return "faster"
    return "same" if low >= 1.0 / limit and high <= limit else "ambiguous"


def judge(
    original: Original, rerun: Rerun, environment: Environment, protocol: Protocol, *, is_cpu: bool
) -> Judgement:
    """Compare a rerun with its original.

    Args:
        original: What was stored.
        rerun: What came out.
        environment: Of the rerun.
        protocol: Of the rerun.
        is_cpu: The rerun was timed on a CPU.
    """
    failed = f"the rerun failed: {rerun.outcome}: {rerun.message}"
    if rerun.outcome in WRONG_OUTCOMES:
        return Judgement("wrong", reasons=(failed,))
    reasons = [*device_reasons(original.environment, environment)]
    if rerun.workload != original.workload:
        asked, stored = rerun.workload.shape_text, original.workload.shape_text
        reasons.insert(0, f"run at shape {asked}, recorded at {stored}")
    reasons += [f"protocol: {each}" for each in protocol_changes(original.protocol, protocol)]
    if rerun.outcome is not Outcome.OK or rerun.median_us is None:
        verdict: Verdict = "not_comparable" if reasons else "wrong"
        return Judgement(verdict, reasons=(*reasons, failed))
    is_same_problem = rerun.workload == original.workload
    ratio = rerun.median_us / original.median_us if is_same_problem else None
    if reasons:
        return Judgement("not_comparable", ratio, reasons=tuple(reasons))
    if not original.processes_us:
        threshold = threshold_for(original.median_us, is_cpu=is_cpu, processes=1)
        reason = "the record states a single figure, which shows no spread"
        return Judgement("ambiguous", ratio, threshold=threshold, reasons=(reason,))
    return judge_times(original.processes_us, rerun.processes_us, is_cpu=is_cpu)


def device_reasons(left: Environment, right: Environment) -> list[str]:
    """Say in which fields two environments name different devices, or don't say which."""
    return [
        f"device: {each}"
        for each in differences(left, right)
        if each.is_identity and each.name in DEVICE_FIELDS
    ]


def protocol_changes(left: Protocol, right: Protocol) -> list[str]:
    """Name the fields in which two protocols differ."""
    before, after = left.as_plain(), right.as_plain()
    return [
        f"{name}: {_choice(before[name])} -> {_choice(after[name])}"
        for name in before
        if before[name] != after[name]
    ]


def _choice(value: Plain) -> str:
    """Return a field of a protocol for people: one that is not fixed is chosen for each kernel."""
    return "chosen" if value is None else str(value) or "the first"


def build_changes(original: Original, rerun: Rerun) -> list[str]:
    """Name what differs in how both were built and timed, although the protocol is the same."""
    changes: list[str] = []
    if original.build is not None and rerun.build is not None:
        before, after = original.build, rerun.build
        if before.compiler != after.compiler:
            changes.append(f"compiler: {before.compiler} -> {after.compiler}")
        dropped = [each for each in before.options if each not in after.options]
        added = [each for each in after.options if each not in before.options]
        if dropped or added:
            changes.append(
                f"build options: {' '.join(dropped) or 'nothing'} -> {' '.join(added) or 'nothing'}"
            )
        if before.binary_hash != after.binary_hash and before.binary_hash and after.binary_hash:
            changes.append(f"binary: {before.binary_hash[:12]} -> {after.binary_hash[:12]}")
    pairs = (
        ("launches a sample (chosen)", original.launches_per_sample, rerun.launches_per_sample),
        ("submission", original.submissions, rerun.submissions),
    )
    for name, stored, now in pairs:
        if stored and now and set(stored) != set(now):
            changes.append(f"{name}: {_listed(stored)} -> {_listed(now)}")
    return changes


def _listed(values: Sequence[object]) -> str:
    return ", ".join(str(each) for each in dict.fromkeys(values))


def environment_differences(
    originals: Sequence[Original], environment: Environment
) -> list[FieldDifference]:
    """Return all fields in which the originals' environments differ from one, identity first."""
    found: dict[tuple[bool, str, str], FieldDifference] = {}
    for each in originals:
        for difference in differences(each.environment, environment):
            key = (not difference.is_identity, difference.name, difference.left)
            found.setdefault(key, difference)
    return [found[key] for key in sorted(found)]
