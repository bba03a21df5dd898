"""A job as every answer and page shows it, with what came of it in a line."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Literal
from typing import TypeAlias

from tuner.api.plain import plain
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.domain.outcome import RUNNING
from tuner.domain.queue import Job
from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.report.shown import number

# Whether all that was asked for came out: `partial` where it stopped early or does not decide.
Ending: TypeAlias = Literal["good", "partial", "bad"]
_OF_VERDICTS: Mapping[str, Ending] = {
    "same": "good",
    "faster": "good",
    "ambiguous": "partial",
    "not_comparable": "partial",
    "slower": "bad",
    "wrong": "bad",
}
_KINDS = {"study": "study", "record": "evidence"}
_OF_STATES: Mapping[JobState, Ending] = {JobState.FAILED: "bad", JobState.CANCELLED: "partial"}


def job_row(job: Job) -> dict[str, Plain]:
    """Return a job as every answer shows it."""
    request, result = job.request, job.result or {}
    row: dict[str, Plain] = plain(job)
    row["job_id"] = row.pop("id")
    for private in ("idempotency_key", "owner", "seen_at"):
        del row[private]
    shape = request.get("shape")
    ending, summary = _came_of(job)
    return {
        "study": request["study" if job.kind is JobKind.STUDY else "record"],
        "subject": _subject(job),
        "shapes": request.get("shapes") or (None if shape is None else [shape]),
        **row,
        "verdict": result.get("verdict"),
        "ending": ending,
        "summary": summary,
    }


def _subject(job: Job) -> str:
    """Say what a job runs, with its kind: a number alone reads as the id of anything."""
    if job.kind is JobKind.STUDY:
        return f"study {job.request['study']}"
    record = str(job.request["record"])
    prefix, colon, name = record.partition(":")
    if colon and prefix in ("study", "evidence"):
        return f"{prefix} {name}"
    is_number = record.isascii() and record.isdecimal()
    # Of a name; jobs of earlier versions do not say what it is of.
    kind = "trial" if is_number else _KINDS.get(job.request.get("kind", ""), "record")
    return f"{kind} {record}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Say how many trials ended in each way."""
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())


def _came_of(job: Job) -> tuple[Ending | None, str]:
    if job.state is not JobState.FINISHED or job.result is None:
        return _OF_STATES.get(job.state), job.message
    if job.kind is JobKind.REPRODUCE:
        verdict = job.result["verdict"]
        return _OF_VERDICTS[verdict], _rerun_text(job.result)
    return _study_text(job.result)


def _study_text(result: Mapping[str, Plain]) -> tuple[Ending, str]:
    counts = _ordered(result.get("counts", {}))
    text = counts_text(counts) or "no trial"
    if not result["finished"]:
        return "partial", f"its budget is spent, so that the study is not finished: {text}"
    if not counts.get(Outcome.OK.value):
        return "bad", f"no valid config: {text}"
    unanswered = result.get("unanswered")
    if unanswered:
        return "partial", f"no valid config for {', '.join(unanswered)}: {text}"
    return "good", text


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    """Return counts in the order of outcomes: the queue stores objects in that of their keys."""
    order = [*(each.value for each in Outcome), RUNNING]
    return {name: counts[name] for name in order if name in counts}


def _rerun_text(result: Mapping[str, Plain]) -> str:
    verdict, ratio = str(result["verdict"]).replace("_", " "), result.get("ratio")
    low, high = result.get("ratio_low"), result.get("ratio_high")
    times = None if ratio is None else f"{number(ratio)} times the recorded time"
    if low is not None:
        times = f"{times} (95 % {number(low)} to {number(high)})"
    # Where times were judged they say most; else why they could not be.
    reason = None if low is not None else _main_reason(verdict, result.get("reasons") or [])
    return f"{verdict}: {'; '.join(filter(None, (reason, times)))}".removesuffix(": ")


def _main_reason(verdict: str, reasons: Sequence[str]) -> str:
    """Return the first reason; where it only counts results of the verdict, with the next one."""
    first, *others = reasons or [""]  # jobs of earlier versions kept none
    counted = first.removesuffix(f": {verdict}")
    if counted == first or not others:
        return first
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"{counted}: {others[0]}{more}"
