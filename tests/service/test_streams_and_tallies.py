"""The limit of event streams, and what the metrics say of a database that is down for a while."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from starlette.responses import Response

from tuner import api
from tuner.domain.queue import JobState
from tuner.service.events import Snapshot
from tuner.service.events import Streams
from tuner.service.metrics import Metrics
from tuner.settings import Settings
from tuner.store import open_store
from tuner.store.job_devices import register_device
from tuner.store.owner import this_process
from tuner.testing.store_values import make_environment


def test_of_clients_that_come_at_once_only_so_many_get_a_stream() -> None:
    async def run() -> None:
        streams = Streams(limit=2)

        async def ask() -> Response:
            return await streams.answer("state", lambda: Snapshot({"n": 1}), None)

        async def gone() -> dict[str, str]:
            return {"type": "http.disconnect"}

        async def unsent(_message: object) -> None:
            raise OSError("gone")

        answers = await asyncio.gather(*(ask() for _ in range(5)))
        assert sorted(each.status_code for each in answers) == [200, 200, 503, 503, 503]
        assert (await ask()).status_code == 503
        # A client that went away before anything was sent leaves room for another.
        scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
        first = next(each for each in answers if each.status_code == 200)
        streams.stopping.set()
        with pytest.raises(OSError, match="gone"):
            await first(scope, gone, unsent)
        assert [(await ask()).status_code for _ in range(2)] == [200, 503]

    asyncio.run(run())


def test_a_database_that_is_down_is_logged_once_and_asked_again_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(db=str(tmp_path / "late.db"))
    metrics = Metrics(settings, clock=lambda: 1.0)

    def is_up() -> bool:
        return b"tuner_database_up 1.0" in metrics.text()

    with caplog.at_level(logging.WARNING, logger="tuner.service"):
        assert not is_up()
        assert not is_up()
        (line,) = [each.getMessage() for each in caplog.records]
        assert "can't be read" in line
        assert "late.db" in line
        api.prepare_database(settings)
        assert is_up(), "a failure is not kept"
        assert is_up()
        assert len(caplog.records) == 2


def test_the_queue_of_a_device_without_jobs_is_empty_and_not_unknown(tmp_path: Path) -> None:
    settings = Settings(db=str(tmp_path / "idle.db"))
    with (
        open_store(settings.db, create=True, writable=True) as store,
        store.transaction() as connection,
    ):
        register_device(connection, this_process(), "cuda:1", "a GPU", make_environment())
    text = Metrics(settings).text().decode()
    assert 'tuner_queue_depth{device="cuda:1"} 0.0' in text
    for state in JobState:
        assert f'tuner_jobs{{device="cuda:1",state="{state}"}} 0.0' in text
