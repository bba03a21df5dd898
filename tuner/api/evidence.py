"""Reading imported evidence."""

from __future__ import annotations

from tuner.api.common import open_database
from tuner.api.plain import plain
from tuner.domain.evidence import derived_claims
from tuner.domain.evidence import StoredRecord
from tuner.domain.identity import Plain
from tuner.settings import Settings


def list_evidence(settings: Settings) -> list[dict[str, Plain]]:
    """Return the stored sets of evidence as rows, by name.

    Raises:
        NotFound: There is no database.
    """
    from tuner.store import evidence

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = evidence.list_evidence(session)
    return [
        {
            "evidence": each.name,
            "records": each.records,
            "ok": each.ok,
            "operators": list(each.operators),
            "architectures": list(each.architectures),
            "measured_on": list(each.measured_on),
            "files": list(each.files),
            "formats": list(each.formats),
            "imported_at": each.imported_at.isoformat(timespec="seconds"),
        }
        for each in found
    ]


def show_evidence(name: str, settings: Settings) -> dict[str, Plain]:
    """Return the records of a set and the ratios that follow from them, JSON-ready.

    Raises:
        NotFound: There is no such set, or no database.
    """
    from tuner.store import evidence

    with open_database(settings, create=False, writable=False) as store, store.session() as session:
        found = evidence.find_records(session, name)
    return {
        "schema": "tuner.evidence.set/1",
        "evidence": name,
        "rows": [_row(each) for each in found],
        "claims": plain(derived_claims([each.record for each in found])),
    }


def _row(stored: StoredRecord) -> dict[str, Plain]:
    record, times = stored.record, stored.record.times
    low_us, high_us = times.range_us or (None, None)
    return {
        "record_id": stored.id,
        "file": stored.file.name,
        "file_sha256": stored.file.sha256,
        "line": record.line,
        "origin": "imported",
        "operator": record.operator,
        "implementation": record.implementation,
        "language": record.language,
        "runtime": record.runtime,
        "shape": record.shape,
        "dtype": record.dtype,
        "scalars": plain(record.scalars),
        "config": plain(record.config),
        "outcome": record.outcome.value,
        "message": record.message,
        "unit": times.unit,
        "median": times.median,
        "low": times.low,
        "high": times.high,
        "median_us": times.median_us,
        "low_us": low_us,
        "high_us": high_us,
        "samples_us": list(times.samples_us),
        "timer": times.timer.value,
        "statistic": times.statistic.value,
        "max_abs_error": record.max_abs_error,
        "max_rel_error": record.max_rel_error,
        "measured_on": record.measured_on,
        "environment": plain(record.environment),
        "protocol": plain(record.protocol),
        "extra": plain(record.extra),
    }
