"""Everything a reproduction says, as values, rows and JSON. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

from tuner.domain.environment import Environment
from tuner.domain.environment import FieldDifference
from tuner.domain.evidence import OriginalKind
from tuner.domain.evidence import Reproduction
from tuner.domain.identity import config_text
from tuner.domain.identity import Plain
from tuner.domain.protocol import Protocol
from tuner.domain.stats import median
from tuner.domain.study import SourceText
from tuner.report.reproduce import Entry
from tuner.report.reproduce import Judgement
from tuner.report.speedups import claims
from tuner.report.speedups import rankings

SCHEMA = "tuner.reproduce/1"
COLUMNS = (
    "original", "implementation", "config", "shape", "unit", "recorded", "recorded_low",
    "recorded_high", "recorded_us", "rerun_shape", "rerun_config", "rerun_us", "rerun_low_us",
    "rerun_high_us", "ratio", "ratio_low", "ratio_high", "threshold", "verdict", "outcome",
    "message", "max_abs_error", "rerun_trial_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceChange:
    """How a kernel's source of today differs from the stored one.

    Attributes:
        implementation: Name of the implementation.
        files: Names of the files that differ; the entry point's where only its name does.
        diff: Unified diff from the stored text to today's.
        problem: Why today's source can't be read, or "".
    """

    implementation: str
    files: tuple[str, ...]
    diff: str = ""
    problem: str = ""

    def __str__(self) -> str:
        what = self.problem or ", ".join(self.files)
        return f"source of {self.implementation} changed: {what}"


@dataclass(frozen=True, slots=True)
class ReproductionReport:
    """A record measured again, beside what it says.

    Attributes:
        record: As the user named it.
        kind: What it is.
        original_id: Row of a trial or study; name of a set of evidence; SHA-256 of a manifest.
        device_id: Where it was run again.
        environment: Of the rerun.
        protocols: It was run by, one a study.
        study_ids: Studies that hold the rerun.
        entries: Each result beside its rerun.
        judgement: Of all of them together.
        differences: Fields in which the environments differ, identity first.
        source_changes: Where today's source is not the stored one.
        used_current_source: Today's source was run instead of the stored one.
        notes: What else the reader must know, one line each.
    """

    record: str
    kind: OriginalKind
    original_id: str
    device_id: str
    environment: Environment
    protocols: tuple[Protocol, ...]
    study_ids: tuple[int, ...]
    entries: tuple[Entry, ...]
    judgement: Judgement
    differences: tuple[FieldDifference, ...] = ()
    source_changes: tuple[SourceChange, ...] = ()
    used_current_source: bool = False
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Plain]]:
        """Return one row a result, with the keys of ``COLUMNS``."""
        return [_row(each) for each in self.entries]

    def changes(self) -> list[str]:
        """Return what differs in how the results were built and timed, each once."""
        return list(
            dict.fromkeys(
                f"{each.original.implementation} {config_text(each.original.config)}: {text}"
                for each in self.entries
                for text in each.changes
            )
        )

    def as_plain(self) -> dict[str, Plain]:
        """Return the JSON of ``tuner reproduce --format json``."""
        return {
            "schema": SCHEMA,
            "record": self.record,
            "kind": self.kind,
            "original_id": self.original_id,
            "device_id": self.device_id,
            **_judgement_plain(self.judgement),
            "rerun_study_ids": list(self.study_ids),
            "used_current_source": self.used_current_source,
            "notes": list(self.notes),
            "environment": dict(self.environment.identity),
            "environment_key": self.environment.key,
            "differences": difference_rows(self.differences),
            "source_changes": [
                {
                    "implementation": each.implementation,
                    "files": list(each.files),
                    "problem": each.problem,
                    "diff": each.diff,
                }
                for each in self.source_changes
            ],
            "changes": self.changes(),
            "protocols": [each.as_plain() for each in self.protocols],
            "results": [
                {
                    **_row(each),
                    "reasons": list(each.judgement.reasons),
                    "changes": list(each.changes),
                    "recorded_processes_us": [list(one) for one in each.original.processes_us],
                    "rerun_processes_us": [list(one) for one in each.rerun.processes_us],
                }
                for each in self.entries
            ],
            "rankings": [asdict(each) for each in rankings(self.entries)],
            "claims": [{**asdict(each), "text": str(each)} for each in claims(self.entries)],
        }

    def stored(self) -> list[Reproduction]:
        """Return what is stored: a row for each rerun of a result, and of a whole study."""
        differing: list[Plain] = [
            *difference_rows([each for each in self.differences if each.is_identity]),
            *({"field": "source", "text": str(each)} for each in self.source_changes),
        ]
        found = []
        for each in self.entries:
            original, rerun = each.original, each.rerun
            row = Reproduction(
                original_kind=original.kind,
                original_id=original.id,
                rerun_study_id=rerun.study_id,
                rerun_trial_id=rerun.trial_id,
                differences=[
                    *differing,
                    *({"field": "build", "text": text} for text in each.changes),
                ],
                **_figures(each.judgement),
            )
            found.append(row)
            if rerun.again_trial_id is not None:  # the verdict rests on both
                found.append(
                    replace(
                        row,
                        rerun_study_id=rerun.again_study_id,
                        rerun_trial_id=rerun.again_trial_id,
                    )
                )
        if self.kind == "study":
            whole = Reproduction(
                self.kind, self.original_id, differences=differing, **_figures(self.judgement)
            )
            found += [replace(whole, rerun_study_id=each) for each in self.study_ids]
        return found


def source_change(
    implementation: str, stored: SourceText, today: SourceText
) -> SourceChange | None:
    """Return how two sources of one implementation differ, or None where they are the same kernel.

    Equal hashes are equal kernels even where a file differs: the hash leaves out what the
    kernel does not reach.
    """
    if stored.source_hash == today.source_hash:
        return None
    names = sorted({*stored.files, *today.files})
    changed = [name for name in names if stored.files.get(name) != today.files.get(name)]
    diff = "".join(
        line if line.endswith("\n") else line + "\n"
        for name in changed
        for line in difflib.unified_diff(
            stored.files.get(name, "").splitlines(keepends=True),
            today.files.get(name, "").splitlines(keepends=True),
            f"stored/{name}",
            f"today/{name}",
        )
    )
    entry = f"{stored.entry} of {stored.main} -> {today.entry} of {today.main}"
    return SourceChange(implementation, tuple(changed) or (entry,), diff)


def difference_rows(differences: Sequence[FieldDifference]) -> list[dict[str, Plain]]:
    """Return differences of environments for JSON."""
    return [
        {
            "field": each.name,
            "recorded": each.left,
            "here": each.right,
            "identity": each.is_identity,
        }
        for each in differences
    ]


def _judgement_plain(judgement: Judgement) -> dict[str, Plain]:
    return {**_figures(judgement), "reasons": list(judgement.reasons)}


def _row(entry: Entry) -> dict[str, Plain]:
    original, rerun, judgement = entry.original, entry.rerun, entry.judgement
    medians_us = [median(samples) for samples in rerun.processes_us]
    return {
        "original": f"{original.kind} {original.id[:12]}",
        "implementation": original.implementation,
        "config": dict(original.config),
        "shape": original.workload.shape_text,
        **_recorded(entry),
        "recorded_us": original.median_us,
        "rerun_shape": rerun.workload.shape_text,
        "rerun_config": dict(rerun.config),
        "rerun_us": rerun.median_us,
        "rerun_low_us": min(medians_us, default=None),
        "rerun_high_us": max(medians_us, default=None),
        "ratio": judgement.ratio,
        "ratio_low": judgement.low,
        "ratio_high": judgement.high,
        "threshold": judgement.threshold,
        "verdict": judgement.verdict,
        "outcome": str(rerun.outcome),
        "message": rerun.message or None,
        "max_abs_error": rerun.max_abs_error,
        "rerun_trial_id": rerun.trial_id,
    }


def _recorded(entry: Entry) -> Mapping[str, Plain]:
    """Return the recorded figures: as written where they come from elsewhere."""
    times = entry.original.recorded
    if times is not None:
        return {
            "unit": times.unit,
            "recorded": times.median,
            "recorded_low": times.low,
            "recorded_high": times.high,
        }
    medians_us = [median(samples) for samples in entry.original.processes_us]
    return {
        "unit": "us",
        "recorded": entry.original.median_us,
        "recorded_low": min(medians_us),
        "recorded_high": max(medians_us),
    }


def _figures(judgement: Judgement) -> dict[str, Any]:
    """Return what is stored of a judgement, by the names of ``Reproduction``."""
    return {
        "verdict": judgement.verdict,
        "ratio": judgement.ratio,
        "ratio_low": judgement.low,
        "ratio_high": judgement.high,
        "threshold": judgement.threshold,
    }
