"""Records of others, as an import stores them, for tests."""

from __future__ import annotations

from typing import Any

from scripted_device import Laboratory

from tuner.domain.evidence import EvidenceFile
from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import RecordedTimes
from tuner.domain.evidence import Statistic
from tuner.store import open_store
from tuner.store.evidence import add_evidence


def record(line: int, name: str, median: str, **fields: Any) -> EvidenceRecord:
    """Return a record with three process medians, as written."""
    low, high = fields.pop("range_ms", (None, None))
    return EvidenceRecord(
        line=line,
        operator="planted",
        implementation=name,
        shape="6x40",
        dtype="float32",
        config={"block": 64},
        environment={"architecture": "gfx1201", "name": "Radeon RX 9070 XT"},
        times=RecordedTimes(
            statistic=Statistic.MEDIAN_OF_PROCESS_MEDIANS, median=median, low=low, high=high
        ),
        **fields,
    )


def store_evidence(laboratory: Laboratory, *records: EvidenceRecord) -> None:
    """Store a set of records called ``table``."""
    file = EvidenceFile("0" * 64, "table.toml", "recorded", 100)
    with (
        open_store(laboratory.settings.db, create=True, writable=True) as store,
        store.transaction() as connection,
    ):
        add_evidence(connection, "table", file, records, may_extend=False)
