"""Studies to report on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from datetime import datetime
from datetime import UTC
from pathlib import Path

import pytest
from scripted_device import Laboratory
from stored_studies import StudyMaker
from stored_studies import SWEEP

from tuner.domain.identity import Scalar
from tuner.report.study_report import read_study_report
from tuner.report.study_report import StudyReport
from tuner.settings import Settings
from tuner.store import open_store
from tuner.store import queries
from tuner.store import Store


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings of a database in the test's own folder."""
    return Settings(db=str(tmp_path / "results.db"), cache_dir=tmp_path / "cache")


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """An open, writable store."""
    with open_store(settings.db, create=True, writable=True) as store:
        yield store


@pytest.fixture
def sweep(store: Store) -> StudyMaker:
    """A finished study of two implementations on three shapes of 65536 elements and an odd one.

    ``serial`` takes a hundred times as long at most shapes; ``block`` has a width that follows
    from the shape, and its two configs tie at 1024x64.
    """
    study = StudyMaker(store, name="sweep", planned=17)
    for shape in (*SWEEP, (3, 13)):
        study.measured("serial", shape, {"BLOCK": 64}, (500.0, 501.0), (502.0, 503.0))
        for warps, slower in ((4, 1.0), (8, 1.0 if shape == SWEEP[0] else 1.5)):
            config: dict[str, Scalar] = {"WIDTH": shape[1], "warps": warps}
            times = [[5.0 * slower, 5.02 * slower], [5.01 * slower, 5.03 * slower]]
            study.measured("block", shape, config, *times)
        study.measured("block", shape, {"WIDTH": shape[1], "warps": 16}, quick_us=25.075)
    study.skipped("block", (3, 13), {"WIDTH": 13, "warps": 32}, "too_wide: 32 warps > 13 columns")
    study.recorder.finish_study(study.study_id)
    return study


@pytest.fixture
def read(store: Store) -> Callable[..., StudyReport]:
    """Return what reads the report of a study by name."""

    def read_report(name: str, *chosen: int) -> StudyReport:
        with store.session() as session:
            return read_study_report(
                session,
                queries.find_study(session, name),
                chosen=chosen,
                revision="0001",
                program_version="0.0",
                created_at=datetime(2026, 1, 2, tzinfo=UTC),
            )

    return read_report


@pytest.fixture
def laboratory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Laboratory]:
    """A scripted device with a database of its own, in memory where there is such a disk."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where, prefix="tuner-test-") as name:
        yield Laboratory(Path(name), monkeypatch)
