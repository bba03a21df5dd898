"""What is said of a stored profile: flat, beside the event time, beside other trials' profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.domain.environment import differences
from tuner.domain.environment import Environment
from tuner.domain.identity import config_text
from tuner.domain.identity import Plain
from tuner.domain.profile import KernelProfile
from tuner.domain.profile import StoredProfile

if TYPE_CHECKING:
    from tuner.report.profiles import TimePair
    from tuner.store import Store
    from tuner.store.views import TrialDetail
    from tuner.store.views import TrialSummary

SCHEMA = "tuner.profile/1"
MAX_FLIPS_SHOWN = 5


def profile_row(stored: StoredProfile) -> dict[str, Plain]:
    """Return a profile flat, units in the names. None is what the profiler did not give."""
    profile, resources = stored.profile, stored.profile.resources
    return {
        "profile_id": stored.id,
        "trial_id": stored.trial_id,
        "profiler": profile.profiler.value,
        "profiler_version": profile.profiler_version,
        "kernel_name": profile.kernel_name,
        "kernel_median_us": profile.median_us,
        "kernel_samples_us": list(profile.samples_us) or None,
        "dispatches": profile.dispatches,
        "excluded_dispatches": profile.excluded_dispatches,
        "copy_dispatches": profile.copy_dispatches,
        "fill_dispatches": profile.fill_dispatches,
        "other_dispatches": profile.other_dispatches,
        "registers": resources.registers,
        "accumulation_registers": resources.accumulation_registers,
        "scalar_registers": resources.scalar_registers,
        "shared_static_bytes": resources.shared_static_bytes,
        "shared_dynamic_bytes": resources.shared_dynamic_bytes,
        "scratch_bytes": resources.scratch_bytes,
        "grid": None if profile.grid is None else list(profile.grid),
        "block": None if profile.block is None else list(profile.block),
        "origin": stored.source.origin,
        "file_name": stored.source.file_name,
        "file_sha256": stored.source.file_sha256,
        "environment_key": stored.environment_key,
        "created_at": stored.created_at.isoformat(timespec="seconds"),
        "extra": dict(profile.extra),
    }


def answer(
    store: Store, detail: TrialDetail, profile_id: int, notes: Sequence[str]
) -> dict[str, Plain]:
    """Return a profile beside the trial's event time and the workload's other profiles."""
    from tuner.report.profiles import rank_flips
    from tuner.store import profiles
    from tuner.store import queries

    summary = detail.summary
    with store.session() as session:
        stored = next(
            each for each in profiles.profiles_of(session, summary.id) if each.id == profile_id
        )
        beside = profiles.profiles_beside(session, summary.id, stored.profile.profiler)
        summaries = {each: queries.trial_detail(session, each).summary for each in beside}
    pairs = [
        pair
        for trial_id, each in beside.items()
        if (pair := _pair(summaries[trial_id], each.profile)) is not None
    ]
    flips = [_flip_text(one, other, stored) for one, other in rank_flips(pairs)]
    more = len(flips) - MAX_FLIPS_SHOWN
    return {
        "schema": SCHEMA,
        "trial_id": summary.id,
        "implementation": summary.implementation,
        "config": dict(summary.config),
        "workload": summary.workload.as_plain(),
        "event_median_us": _event_us(summary),
        "event_stage": "confirmed" if summary.median_us is not None else "quick",
        "profile": profile_row(stored),
        "comparison": [_pair_row(pair) for pair in sorted(pairs, key=lambda each: each.event_us)],
        "notes": [*notes, *_shared_notes(detail, stored.profile)],
        "warnings": [*flips[:MAX_FLIPS_SHOWN], *([f"and {more} more such pairs"] * (more > 0))],
    }


def environment_notes(detail: TrialDetail, environment: Environment) -> list[str]:
    """Say where the machine of a run is not the one that timed the trial."""
    differing = [
        str(each)
        for each in differences(detail.environment, environment)
        if each.is_identity and each.left != each.right
    ]
    if not differing:
        return []
    return [f"not the environment of the trial's event time: {'; '.join(differing[:3])}"]


def _event_us(summary: TrialSummary) -> float | None:
    return summary.quick_median_us if summary.median_us is None else summary.median_us


def _pair(summary: TrialSummary, profile: KernelProfile) -> TimePair | None:
    from tuner.report.profiles import TimePair

    event_us, profiler_us = _event_us(summary), profile.median_us
    if event_us is None or profiler_us is None:
        return None
    low, high = summary.low_us or event_us, summary.high_us or event_us
    return TimePair(
        summary.id,
        f"{summary.implementation} {config_text(summary.config)}",
        (low, event_us, high),
        (min(profile.samples_us), profiler_us, max(profile.samples_us)),
    )


def _pair_row(pair: TimePair) -> dict[str, Plain]:
    return {
        "trial_id": pair.trial_id,
        "config": pair.label,
        "event_median_us": pair.event_us[1],
        "kernel_median_us": pair.profiler_us[1],
        "event_per_kernel": pair.event_us[1] / pair.profiler_us[1],
    }


def _flip_text(one: TimePair, other: TimePair, stored: StoredProfile) -> str:
    return (
        f"event and profiler rank differently: by event trial {one.trial_id} ({one.label}, "
        f"{one.event_us[1]:.4g} us) is faster than trial {other.trial_id} ({other.label}, "
        f"{other.event_us[1]:.4g} us), by {stored.profile.profiler} it is slower "
        f"({one.profiler_us[1]:.4g} us, {other.profiler_us[1]:.4g} us)"
    )


def _shared_notes(detail: TrialDetail, profile: KernelProfile) -> list[str]:
    asked = detail.geometry.shared_bytes if detail.geometry else 0
    if profile.resources.shared_dynamic_bytes is not None or not asked:
        return []
    return [
        f"dynamic shared memory is not in this profile; the trial asks for {asked} bytes a block"
    ]
