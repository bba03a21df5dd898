"""A database with some of everything, made once for all tests of the service."""

from __future__ import annotations

from pathlib import Path

from places import OPERATORS

from tuner import api
from tuner.domain.evidence import Reproduction
from tuner.settings import Settings
from tuner.store import open_store
from tuner.store.job_devices import register_device
from tuner.store.owner import Owner
from tuner.store.owner import this_process
from tuner.store.reproductions import add_reproduction
from tuner.testing.store_values import GEOMETRY
from tuner.testing.store_values import make_definition
from tuner.testing.store_values import make_environment
from tuner.testing.store_values import make_failure
from tuner.testing.store_values import make_point
from tuner.testing.store_values import make_report

FORMULA = "=cmd|' /C calc'!A0"
MARKUP = "<img src=x onerror=alert(1)>"
STUDY = """
schema = 1
name = "planted"
description = "one good kernel and one wrong"
operator = "planted"
device = "cpu"
shapes = ["6x40", "3x13"]
[space.good]
BLOCK = [32, 64]
[space.second-good]
BLOCK = [64]
[space.wrong]
BLOCK = [64]
[protocol]
warmup = 1
samples = 5
processes = 2
launches_per_sample = 1
[quick]
warmup = 1
samples = 3
"""
LOG = """\
RESULT operator=planted implementation=good runtime=hip shape=6x40 rows=6 cols=40 dtype=float32 \
block=64 warmup=10 repeat=50 seed=7 timed=1 correct=OK precheck=OK postcheck=OK min_ms=0.058 \
median_ms=0.0584 mean_ms=0.0587 max_abs_error=1e-06
"""


def fill(folder: Path, cache_dir: Path) -> Settings:
    """Make a database: a real study, an odd one, evidence, reruns, a device and jobs."""
    studies = folder / "studies"
    studies.mkdir()
    (studies / "planted.toml").write_text(STUDY, encoding="utf-8")
    settings = Settings(
        db=str(folder / "results.db"),
        cache_dir=cache_dir,
        operators=(OPERATORS,),
        studies=(studies,),
        device="cpu",
    )
    api.run_study(studies / "planted.toml", settings=settings)
    log = folder / "recorded.log"
    log.write_text(LOG, encoding="utf-8")
    api.import_file(log, format_name=None, partial=False, name="recorded", settings=settings)
    _store_odd_things(settings)
    for number in range(3):
        api.launch_study("planted", device="cpu", idempotency_key=f"k{number}", settings=settings)
    api.pause_job(2, settings)
    api.cancel_job(3, settings)
    return settings


def _store_odd_things(settings: Settings) -> None:
    """Store a study whose texts are a formula and markup, a rerun, and a device that is gone."""
    with open_store(settings.db, create=False, writable=True) as store:
        recorder = store.recorder()
        study_id = recorder.open_study(make_definition(FORMULA), fresh=False).study_id
        failing = recorder.start_trial(study_id, make_point(), GEOMETRY)
        recorder.finish_trial(failing, make_failure(message=MARKUP), bytes_moved=1)
        quick = recorder.start_trial(study_id, make_point(128), GEOMETRY)
        recorder.finish_trial(quick, make_report(), bytes_moved=1)
        with store.transaction() as connection:
            for verdict in ("same", "slower", "not_comparable"):
                add_reproduction(
                    connection,
                    Reproduction(
                        original_kind="trial",
                        original_id="1",
                        verdict=verdict,
                        rerun_study_id=study_id,
                        rerun_trial_id=quick,
                        ratio=1.5,
                        ratio_low=1.4,
                        ratio_high=1.6,
                        threshold=0.05,
                        differences=("driver: 1 -> 2",),
                    ),
                )
            owner = Owner(this_process().host, 4_000_000, "long-gone-1")
            register_device(connection, owner, "cpu", "Test device", make_environment())
