"""What results look like in a notebook: small tables, all stored text escaped."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from tuner.domain.identity import config_text
from tuner.domain.workload import Workload
from tuner.report.shown import number
from tuner.report.tables import range_text

if TYPE_CHECKING:
    from tuner.report.best import BestAnswer

_HEAD = ("shape", "rank", "implementation", "config", "median µs", "range µs", "GB/s", "slower")


def answer_html(answer: BestAnswer) -> str:
    """Return an answer as a table: best, ties and the next, with its notes below."""
    differing = (f"differs: {each}" for each in answer.differences)
    notes = (f"match: {answer.match}", *answer.notes, *differing)
    return _table(_HEAD, _answer_rows(answer)) + _paragraph("; ".join(notes))


def study_result_html(
    name: str,
    state: str,
    counts: Mapping[str, int],
    best: Sequence[BestAnswer],
    unanswered: Sequence[Workload],
) -> str:
    """Return the result of a run: how its trials ended, and the best config of each workload."""
    ended = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    head = _paragraph(f"Study {name}: {state}; {ended or 'no trials'}")
    rows = [_answer_rows(each)[0] for each in best]
    rows += [(each.shape_text, "no valid config", *[""] * (len(_HEAD) - 2)) for each in unanswered]
    return head + (_table(_HEAD, rows) if rows else "")


def _answer_rows(answer: BestAnswer) -> list[tuple[str, ...]]:
    ranked = [("best", answer.best), *(("tie", each) for each in answer.ties)]
    if answer.runner_up is not None:
        ranked.append(("next", answer.runner_up))
    return [
        (
            each.workload.shape_text,
            rank,
            each.implementation,
            config_text(each.config),
            number(each.median_us),
            range_text(each),
            number(each.bandwidth_gb_s or None),
            f"{each.median_us / answer.best.median_us:.3f}",
        )
        for rank, each in ranked
    ]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"
