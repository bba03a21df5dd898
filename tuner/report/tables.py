"""The tables of a report as plain cells, for Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from typing import TypeAlias

from tuner.domain.identity import canonical_json
from tuner.domain.identity import config_text
from tuner.domain.identity import Plain
from tuner.domain.protocol import Protocol
from tuner.domain.study import BestCandidate
from tuner.domain.workload import Workload
from tuner.report.best import BestAnswer
from tuner.report.shown import MISSING
from tuner.report.shown import number
from tuner.report.shown import shortened
from tuner.report.study_report import failure_groups
from tuner.report.study_report import NOTHING_TRIED
from tuner.report.study_report import StudyReport
from tuner.report.study_report import without_answer
from tuner.report.study_report import WorkloadReport
from tuner.store.views import TrialSummary

# How a cell is set: words of ours, a figure, or stored text that is shown letter by letter.
CellKind: TypeAlias = Literal["words", "number", "code"]
MAX_MESSAGE_LENGTH = 200

BEST_COLUMNS = (
    "study_id", "study", "operator", "shape", "dtype", "scalars", "implementation", "config",
    "trial_id", "median_us", "low_us", "high_us", "bandwidth_gb_s", "processes",
    "samples_per_process", "tie_count", "ties", "runner_up_implementation", "runner_up_config",
    "runner_up_trial_id", "runner_up_median_us", "runner_up_ratio", "runner_up_ratio_low",
    "runner_up_ratio_high", "warnings", "source_hash", "environment_key", "protocol_key",
    "sentinel_drift",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, how it is set, whether it stands out, and all digits of its figure."""

    text: str
    kind: CellKind = "words"
    strong: bool = False
    exact: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table for people.

    Attributes:
        name: Letters and dashes, for links to it.
        title: Heading.
        columns: Head of each column, with its unit.
        rows: Cells, as many a row as there are columns.
        note: What the reader must know, or "".
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


def study_facts(report: StudyReport) -> dict[str, str]:
    """Return what the head of a report says of a study, by name."""
    study, environment = report.study, report.environment
    facts = {"study": f"{study.name} (id {study.id}, {study.state})", "operator": study.operator}
    description = study.spec.get("description")
    if description:
        facts["question"] = str(description)
    name = "name unknown"
    if environment:
        name = environment.context.get("host_cpu" if report.is_cpu else "name", name)
    facts["device"] = f"{name}, {study.architecture}, {study.device_id}"
    if environment:
        facts["environment"] = "; ".join(
            f"{field} {environment.identity[field]}"
            for field in ("driver", "runtime", "compiler", "triton", "os")
            if field in environment.identity
        )
    facts["protocol"] = protocol_text(report.protocol)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in study.counts.items())
    facts["trials"] = f"{study.planned} planned: {counts or 'none stored yet'}"
    return facts


def protocol_text(protocol: Protocol | None) -> str:
    """Say in one line how finalists were timed."""
    if protocol is None:
        return "unknown: no trial stored"
    launches = (
        f"{protocol.launches_per_sample} launches a sample"
        if protocol.launches_per_sample
        else f"launches a sample chosen to last {protocol.target_sample_us:g} µs"
    )
    return (
        f"{protocol.processes} fresh processes of {protocol.samples} samples after "
        f"{protocol.warmup} warm-ups, {launches}; {protocol.cache} cache, "
        f"{protocol.submission} submission, input seed {protocol.input_seed}"
    )


def comparison_table(report: StudyReport) -> Table:
    """Return shapes × implementations: each one's fastest confirmed median, the best strong."""
    rows: list[tuple[Cell, ...]] = []
    for each in report.workloads:
        cells = [Cell(each.label)]
        for implementation in report.implementations:
            found = fastest_of(each, implementation)
            is_best = found is not None and each.answer is not None and _is(found, each.answer.best)
            cells.append(Cell(number(found.median_us if found else None), "number", is_best))
        rows.append(tuple(cells))
    nothing = [Cell(MISSING, "number")] * len(report.implementations)
    rows += [(Cell(each), *nothing) for each in report.untried]
    return Table(
        "implementations",
        "Implementations by shape, µs a launch",
        ("shape", *report.implementations),
        tuple(rows),
        "Median of the process medians of each implementation's fastest confirmed config; "
        f"{MISSING}: it has none. Where several can't be told apart, the simplest is strong.",
    )


def best_table(report: StudyReport) -> Table:
    """Return the best config of each shape, how sure that is, and what comes next."""
    rows: list[tuple[Cell, ...]] = []
    for each in report.workloads:
        if each.answer is None:
            rows.append(_unanswered(each.label, without_answer(report.study, each.trials)))
            continue
        best = each.answer.best
        rows.append(
            (
                Cell(each.label),
                Cell(best.implementation, "code"),
                Cell(config_text(best.config), "code"),
                Cell(number(best.median_us), "number", strong=True),
                Cell(range_text(best), "number"),
                Cell(number(best.bandwidth_gb_s or None), "number"),
                Cell("; ".join(map(_named, each.answer.ties)) or MISSING, _kind(each.answer.ties)),
                Cell(_runner_up_text(each.answer)),
            )
        )
    rows += [_unanswered(each, NOTHING_TRIED) for each in report.untried]
    return Table(
        "best",
        "Best config of each shape",
        (
            "shape", "implementation", "config", "median µs", "range µs", "GB/s", "tied with",
            "next, times as long",
        ),
        tuple(rows),
        "Range: smallest to largest process median, not a confidence interval. GB/s: the fewest "
        "bytes the problem must move, over the median; with a hot cache it can exceed what the "
        "memory gives. In brackets the 95 % interval of the ratio.",
    )  # fmt: skip


def _unanswered(label: str, why: str) -> tuple[Cell, ...]:
    return (Cell(label), Cell(why), *([Cell(MISSING)] * 6))


def failure_table(report: StudyReport) -> Table:
    """Return what was not measured, grouped by outcome, implementation and reason."""
    rows = [
        (
            Cell(str(trials[0].outcome)),
            Cell(trials[0].implementation, "code"),
            Cell(str(trials[0].stage or MISSING)),
            Cell(str(len(trials)), "number"),
            Cell(shortened(trials[0].message, MAX_MESSAGE_LENGTH), "code"),
            Cell(_some_ids(trials), "number"),
        )
        for trials in failure_groups(report)
    ]
    return Table(
        "failures",
        "Not measured, by outcome",
        ("outcome", "implementation", "stage", "trials", "first message", "trial ids"),
        tuple(rows),
        "skipped: refused by a constraint before launch." if rows else "",
    )


def environment_table(report: StudyReport) -> Table:
    """Return every field of the environment, identity fields first."""
    rows: list[tuple[Cell, ...]] = []
    if report.environment is not None:
        for kind, fields in (
            ("identity", report.environment.identity),
            ("context", report.environment.context),
        ):
            rows += [(Cell(name, "code"), Cell(fields[name], "code"), Cell(kind))
                     for name in sorted(fields)]  # fmt: skip
    return Table(
        "environment",
        "Environment",
        ("field", "value", "kind"),
        tuple(rows),
        "Identity fields must match for two times to be compared; context is recorded only.",
    )


def best_rows(report: StudyReport) -> list[dict[str, Plain]]:
    """Return the rows of ``best.csv``: one a workload with a valid config, full precision."""
    return [
        _best_row(report, each, each.answer) for each in report.workloads if each.answer is not None
    ]


def fastest_of(workload: WorkloadReport, implementation: str) -> BestCandidate | None:
    """Return an implementation's result at a workload: the answer's own, else its fastest."""
    own = [each for each in workload.confirmed if each.implementation == implementation]
    if workload.answer is not None and workload.answer.best.implementation == implementation:
        return workload.answer.best
    return min(own, key=lambda each: (each.median_us, each.trial_id), default=None)


def range_text(candidate: BestCandidate) -> str:
    """Return the range of the process medians."""
    medians = candidate.process_medians_us
    return f"{number(min(medians))} to {number(max(medians))}"


def _best_row(
    report: StudyReport, workload: WorkloadReport, answer: BestAnswer
) -> dict[str, Plain]:
    best, second = answer.best, answer.runner_up
    ratio, low, high = answer.slower() or (None, None, None)
    return {
        "study_id": report.study.id,
        "study": report.study.name,
        **_workload_cells(workload.workload),
        "implementation": best.implementation,
        "config": canonical_json(dict(best.config)),
        "trial_id": best.trial_id,
        "median_us": best.median_us,
        "low_us": min(best.process_medians_us),
        "high_us": max(best.process_medians_us),
        "bandwidth_gb_s": best.bandwidth_gb_s or None,
        "processes": len(best.samples_us),
        "samples_per_process": min(len(samples) for samples in best.samples_us),
        "tie_count": len(answer.ties),
        "ties": "; ".join(map(_named, answer.ties)),
        "runner_up_implementation": second and second.implementation,
        "runner_up_config": second and canonical_json(dict(second.config)),
        "runner_up_trial_id": second and second.trial_id,
        "runner_up_median_us": second and second.median_us,
        "runner_up_ratio": ratio,
        "runner_up_ratio_low": low,
        "runner_up_ratio_high": high,
        "warnings": "; ".join(best.warnings),
        "source_hash": best.source_hash,
        "environment_key": best.environment.key,
        "protocol_key": best.protocol.key,
        "sentinel_drift": workload.beside[-1].drift if workload.beside else None,
    }


def _workload_cells(workload: Workload) -> Mapping[str, Plain]:
    return {
        "operator": workload.operator,
        "shape": workload.shape_text,
        "dtype": workload.dtype,
        "scalars": canonical_json(dict(workload.scalars)),
    }


def _is(one: BestCandidate, other: BestCandidate) -> bool:
    return one.trial_id == other.trial_id


def _named(candidate: BestCandidate) -> str:
    return f"{candidate.implementation} {config_text(candidate.config)}"


def _kind(ties: Sequence[BestCandidate]) -> CellKind:
    return "code" if ties else "words"


def _runner_up_text(answer: BestAnswer) -> str:
    second, slower = answer.runner_up, answer.slower()
    if second is None or slower is None:
        return MISSING
    ratio, low, high = slower
    return f"{second.implementation}, {ratio:.3f} ({low:.3f} to {high:.3f})"


def _some_ids(trials: Sequence[TrialSummary]) -> str:
    shown = ", ".join(str(trial.id) for trial in trials[:3])
    return shown + (", …" if len(trials) > 3 else "")
