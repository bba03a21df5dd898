"""The verdict of several results together. Pure.

The rule, and why it is so: docs/decisions/0009-reproduce.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tuner.domain.evidence import Verdict
from tuner.domain.identity import config_text
from tuner.domain.stats import median
from tuner.report.reproduce import Entry
from tuner.report.reproduce import judge_times
from tuner.report.reproduce import Judgement


def overall(entries: Sequence[Entry], *, is_cpu: bool) -> Judgement:
    """Return the verdict of all entries together, with the ratio and interval it rests on.

    One wrong result decides; then one slower one, whose own ratio and interval are returned: a
    regression is not averaged away. Then what can't be compared. Where none of these is found,
    the geometric mean over the results is judged like one result, process by process: one result
    that became faster, or that is unsteady, does not make a study so.

    Raises:
        ValueError: There are no entries.
    """
    if not entries:
        raise ValueError("there is nothing to judge")
    if len(entries) == 1:
        return entries[0].judgement
    wrong, slower = _of(entries, "wrong"), _of(entries, "slower")
    if wrong:
        return Judgement("wrong", reasons=_reasons(wrong, entries))
    mean = _mean(entries, is_cpu=is_cpu)
    if slower:
        slowest = max(slower, key=lambda each: each.judgement.ratio or 0.0)
        reasons = (*_reasons(slower, entries), _only_of(slowest, mean))
        return replace(slowest.judgement, reasons=reasons)
    incomparable = _of(entries, "not_comparable")
    if incomparable:
        return Judgement("not_comparable", mean.ratio, reasons=_reasons(incomparable, entries))
    faster = _of(entries, "faster")
    return replace(mean, reasons=_reasons(faster, entries) if faster else ())


def _of(entries: Sequence[Entry], verdict: Verdict) -> list[Entry]:
    return [each for each in entries if each.judgement.verdict == verdict]


def _reasons(found: Sequence[Entry], entries: Sequence[Entry]) -> tuple[str, ...]:
    verdict = found[0].judgement.verdict.replace("_", " ")
    given = dict.fromkeys(text for each in found for text in each.judgement.reasons)
    return (f"{len(found)} of {len(entries)} results: {verdict}", *given)


def _only_of(slowest: Entry, mean: Judgement) -> str:
    original = slowest.original
    name = f"{original.implementation} {config_text(original.config)}"
    text = f"ratio and interval are those of {name} at {original.workload.shape_text}, the slowest"
    if mean.ratio is None or mean.low is None or mean.high is None:
        return text
    interval = f"95 % interval {mean.low:.4g} to {mean.high:.4g}"
    return f"{text}; the mean of all is {mean.ratio:.4g} ({interval})"


def _mean(entries: Sequence[Entry], *, is_cpu: bool) -> Judgement:
    """Judge the geometric mean of the results that could be judged."""
    judged = [each for each in entries if each.judgement.low is not None]
    if not judged:
        ratios = [each.judgement.ratio for each in entries if each.judgement.ratio is not None]
        ratio = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
        return Judgement("ambiguous", ratio)
    sides = []
    for sides_us in (
        [each.original.processes_us for each in judged],
        [each.rerun.processes_us for each in judged],
    ):
        count = min(len(processes) for processes in sides_us)
        sides.append(
            [
                [math.exp(sum(math.log(median(one[index])) for one in sides_us) / len(sides_us))]
                for index in range(count)
            ]
        )
    return judge_times(sides[0], sides[1], is_cpu=is_cpu)
