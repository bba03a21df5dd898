"""What came of a job: in one line in every answer, and not as a green word where little did."""

from __future__ import annotations

from datetime import datetime
from datetime import UTC
from typing import Any

import pytest

from tuner.api.job_rows import job_row
from tuner.domain.queue import Job
from tuner.domain.queue import JobKind
from tuner.domain.queue import JobState
from tuner.domain.queue import JobWish

STUDY = {"study": "quick", "shapes": ["3x13"], "budget": None, "fresh": False, "name": "quick-3x13"}
RERUN = {"record": "study:1", "device": None, "shape": None}
JUDGED = {"verdict": "faster", "ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6, "reasons": []}
WRONG = {"verdict": "wrong", "ratio": None, "ratio_low": None, "ratio_high": None,
         "reasons": ["the rerun failed: crash"]}  # fmt: skip

UNCOMPARED = {"verdict": "not_comparable", "ratio": None, "ratio_low": None, "ratio_high": None,
              "reasons": ["9 of 9 results: not comparable",
                          "run at shape 8x512, recorded at 6x40",
                          "protocol: samples: 50 -> 20"]}  # fmt: skip


def make_job(kind: JobKind, state: JobState, result: dict[str, Any] | None, message: str) -> Job:
    request = STUDY if kind is JobKind.STUDY else RERUN
    now = datetime.now(UTC)
    return Job(
        1, kind, request, "cpu", state, JobWish.RUN, None, 1, result, message, None, None, now,
        now, now,
    )  # fmt: skip


def of_study(*, finished: bool, unanswered: tuple[str, ...] = (), **counts: int) -> dict[str, Any]:
    return {"finished": finished, "counts": counts, "unanswered": list(unanswered)}


@pytest.mark.parametrize(
    ("result", "ending", "summary"),
    [
        (of_study(finished=True, skipped=1, ok=18), "good", "18 ok, 1 skipped"),
        (
            of_study(finished=False, ok=5),
            "partial",
            "its budget is spent, so that the study is not finished: 5 ok",
        ),
        (
            of_study(finished=True, out_of_memory=6, skipped=2),
            "bad",
            "no valid config: 6 out of memory, 2 skipped",
        ),
        (
            of_study(finished=True, unanswered=("3x13",), ok=5, crash=1),
            "partial",
            "no valid config for 3x13: 5 ok, 1 crash",
        ),
    ],
)
def test_what_came_of_a_study_is_said(result: dict[str, Any], ending: str, summary: str) -> None:
    row = job_row(make_job(JobKind.STUDY, JobState.FINISHED, result, ""))
    assert (row["ending"], row["summary"], row["verdict"]) == (ending, summary, None)
    assert row["shapes"] == ["3x13"]


@pytest.mark.parametrize(
    ("state", "result", "ending", "summary", "verdict"),
    [
        (JobState.FINISHED, JUDGED, "good",
         "faster: 0.5000 times the recorded time (95 % 0.4000 to 0.6000)", "faster"),
        (JobState.FINISHED, {**JUDGED, "verdict": "slower"}, "bad",
         "slower: 0.5000 times the recorded time (95 % 0.4000 to 0.6000)", "slower"),
        (JobState.FINISHED, WRONG, "bad", "wrong: the rerun failed: crash", "wrong"),
        (JobState.FINISHED, UNCOMPARED, "partial",
         "not comparable: 9 of 9 results: run at shape 8x512, recorded at 6x40 and 1 more",
         "not_comparable"),
        (JobState.FINISHED, {**WRONG, "reasons": ["1 of 3 results: wrong", "it crashed"]}, "bad",
         "wrong: 1 of 3 results: it crashed", "wrong"),
        (JobState.FINISHED, {**WRONG, "reasons": None}, "bad", "wrong", "wrong"),
        (JobState.FINISHED, {**UNCOMPARED, "ratio": 0.25, "reasons": ["device: driver 1 -> 2"]},
         "partial", "not comparable: device: driver 1 -> 2; 0.2500 times the recorded time",
         "not_comparable"),
        (JobState.FAILED, None, "bad", "said", None),
        (JobState.CANCELLED, None, "partial", "said", None),
        (JobState.QUEUED, None, None, "said", None),
    ],
)  # fmt: skip
def test_what_came_of_a_rerun_is_said(
    state: JobState, result: dict[str, Any] | None, ending: str, summary: str, verdict: str | None
) -> None:
    row = job_row(make_job(JobKind.REPRODUCE, state, result, "said"))
    assert (row["ending"], row["summary"], row["verdict"]) == (ending, summary, verdict)
    assert row["shapes"] is None
    assert (row["study"], row["subject"]) == ("study:1", "study 1")
