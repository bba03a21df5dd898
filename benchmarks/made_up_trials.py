"""Made-up trials of a study, as complete rows of the large tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from datetime import datetime
from datetime import timedelta
from datetime import UTC
from typing import Any

import numpy as np
from sqlalchemy.orm import DeclarativeBase

from tuner.domain.identity import canonical_json
from tuner.domain.identity import Config
from tuner.domain.identity import content_hash
from tuner.domain.protocol import Protocol
from tuner.domain.stats import median
from tuner.store import reports
from tuner.store.checksums import CHECKSUM_COLUMN
from tuner.store.checksums import row_checksum
from tuner.store.models import ProcessRow
from tuner.store.models import SampleRow
from tuner.store.models import TrialRow
from tuner.store.models import ValidationRow
from tuner.store.table import table_of

SEED = 20261202
TRIALS_PER_WORKLOAD = 100  # in one environment
CONFIRMED = 8
QUICK_SAMPLES = 7
PROTOCOL = Protocol()
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
# What becomes of a config: as in a real sweep over a small space, a third breaks a constraint.
FATES = ("ok",) * 62 + ("skipped",) * 32 + ("compile_error",) * 4 + ("wrong_result",) * 2
LOG = "kernel.hip:41:17: error: static assertion failed: block does not divide the row\n" * 20


@dataclass(frozen=True, slots=True)
class Kernel:
    """An implementation as a database row knows it."""

    row_id: int
    name: str
    source_hash: str
    configs: tuple[Config, ...]


@dataclass(slots=True)
class Batch:
    """Rows of the large tables, complete, in the order of their columns."""

    rows: dict[type[DeclarativeBase], list[tuple[Any, ...]]] = field(
        default_factory=lambda: {
            model: [] for model in (TrialRow, ProcessRow, SampleRow, ValidationRow)
        }
    )

    def add(self, model: type[DeclarativeBase], values: dict[str, Any], samples: Any = ()) -> None:
        """Add a row with its checksum. Columns not given are NULL."""
        table = table_of(model)
        row = {name: values.get(name) for name in table.columns.keys()}  # noqa: SIM118
        row[CHECKSUM_COLUMN] = row_checksum(table.name, row, samples)
        self.rows[model].append(tuple(row.values()))


class Filler:
    """Makes trials of one study after another.

    Args:
        first_trial_id: Ids go up from here.
    """

    def __init__(self, first_trial_id: int = 1) -> None:
        self._random = np.random.default_rng(SEED)
        self._trial_ids = itertools.count(first_trial_id)
        self._process_ids = itertools.count(1)
        self._validation_ids = itertools.count(1)

    def workload(
        self, batch: Batch, ids: dict[str, int], kernels: Sequence[Kernel], bytes_moved: int
    ) -> None:
        """Add a workload's trials in one environment.

        Args:
            batch: Where to.
            ids: Rows of study, workload, environment and protocol.
            kernels: What is swept.
            bytes_moved: Of the workload.
        """
        points = [(kernel, config) for kernel in kernels for config in kernel.configs]
        points = points[:TRIALS_PER_WORKLOAD]
        fates = self._random.choice(len(FATES), len(points))
        medians = bytes_moved / 2e6 * self._random.lognormal(0.3, 0.4, len(points)) + 2.0
        is_ok = [FATES[fate] == "ok" for fate in fates]
        ranked = sorted((m, i) for i, m in enumerate(medians) if is_ok[i])
        finalists = {index for _, index in ranked[:CONFIRMED]}
        for index, (kernel, config) in enumerate(points):
            trial = self._trial(ids, kernel, config, FATES[fates[index]])
            if is_ok[index]:
                trial["bytes_moved"] = bytes_moved
                trial |= self._measure(batch, trial, float(medians[index]), index in finalists)
            batch.add(TrialRow, trial)

    def _trial(
        self, ids: dict[str, int], kernel: Kernel, config: Config, fate: str
    ) -> dict[str, Any]:
        trial_id = next(self._trial_ids)
        started_at = FIRST_DAY + timedelta(seconds=trial_id * 0.75)
        trial: dict[str, Any] = {
            **ids,
            "id": trial_id,
            "implementation_id": kernel.row_id,
            "source_hash": kernel.source_hash,
            "config": canonical_json(dict(config)),
            "config_key": content_hash(dict(config)),
            "attempt": 0,
            "origin": "measured",
            "geometry": '{"grid":[1,1,1],"shared_bytes":0,"threads":256}',
            "outcome": fate,
            "message": "",
            "log": "",
            "confirmed": False,
            "warnings": "[]",
            "started_at": started_at,
            "finished_at": started_at + timedelta(seconds=0.7),
        }
        if fate == "ok":
            return trial
        stage = {"skipped": "plan", "compile_error": "build", "wrong_result": "validate"}[fate]
        log = LOG if fate == "compile_error" else ""
        return trial | {"stage": stage, "message": f"{fate}: made up for a benchmark", "log": log}

    def _measure(
        self, batch: Batch, trial: dict[str, Any], median_us: float, is_finalist: bool
    ) -> dict[str, Any]:
        """Add a trial's processes, samples and checks; return what follows for its row."""
        quick = self._process(batch, trial, "quick", 0, median_us, QUICK_SAMPLES)
        for phase in ("before", "after"):
            self._check(batch, trial["id"], quick[0], phase)
        changes = {
            "quick_median_us": quick[1],
            "build_s": 0.31,
            "validate_s": 0.04,
            "measure_s": 0.02,
            "binary_hash": trial["config_key"],
            "compiler": "made up 1.0",
            "build_options": '["-O3"]',
            "build_cached": False,
            "registers": 30,
            "spill_bytes": 0,
            "shared_bytes": 128,
            "code_bytes": 9064,
            "max_abs_error": 6.3e-07,
            "max_rel_error": 1.7e-07,
        }
        if not is_finalist:
            return changes
        processes = [
            self._process(batch, trial, "confirm", position, median_us, PROTOCOL.samples)
            for position in range(PROTOCOL.processes)
        ]
        return changes | reports.confirmed_values(
            [samples for _, _, samples in processes], trial["bytes_moved"]
        )

    def _process(
        self,
        batch: Batch,
        trial: dict[str, Any],
        stage: str,
        position: int,
        median_us: float,
        count: int,
    ) -> tuple[int, float, list[float]]:
        process_id = next(self._process_ids)
        level_us = median_us * math.exp(self._random.normal(0.0, 0.003))
        samples = (level_us * self._random.lognormal(0.0, 0.01, count)).tolist()
        measured_us = median(samples)
        values = {
            "id": process_id,
            "trial_id": trial["id"],
            "stage": stage,
            "position": position,
            "outcome": "ok",
            "message": "",
            "median_us": measured_us,
            "launches_per_sample": 5,
            "buffer_sets": 1,
            "submission": "graph",
            "clock_before_mhz": 1980.0,
            "clock_after_mhz": 1980.0,
            "recorded_at": trial["finished_at"],
        }
        batch.add(ProcessRow, values, samples)
        batch.rows[SampleRow] += [(process_id, i, value) for i, value in enumerate(samples)]
        return process_id, measured_us, samples

    def _check(self, batch: Batch, trial_id: int, process_id: int, phase: str) -> None:
        values = {
            "id": next(self._validation_ids),
            "trial_id": trial_id,
            "process_id": process_id,
            "phase": phase,
            "input_case": "normal",
            "seed": 20260719,
            "passed": True,
            "max_abs_error": 6.3e-07,
            "max_rel_error": 1.7e-07,
            "mismatches": 0,
            "message": "",
        }
        batch.add(ValidationRow, values)
