"""Requests made up from the API's description: whatever comes, no answer is a server's error."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck
from hypothesis import settings as limits
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance
from schemathesis.specs.openapi.checks import negative_data_rejection
from schemathesis.specs.openapi.checks import response_schema_conformance
from schemathesis.specs.openapi.checks import status_code_conformance
from serving import TOKEN

from tuner import api
from tuner.service.app import create_app
from tuner.service.events import Streams
from tuner.service.limits import Rate
from tuner.settings import Settings

EXAMPLES = 8
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


HEADERS = {"Host": "127.0.0.1", "Authorization": f"Bearer {TOKEN}"}
# The description needs no database; the service that answers gets one below.
APP = create_app(Settings(db="none.db"), token=TOKEN, writes=Rate(10**6, 1e6))
schema = schemathesis.openapi.from_asgi("/openapi.json", APP, headers=HEADERS)


@pytest.fixture(scope="module", autouse=True)
def _database(filled: Settings, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let the service answer from a copy of the filled database."""
    path = tmp_path_factory.mktemp("fuzz") / "copy.db"
    shutil.copy(filled.db, path)
    settings = filled.model_copy(update={"db": str(path)})
    service = APP.state.service
    answers = api.BestAnswers(settings, service.devices.find)
    APP.state.service = replace(service, settings=settings, answers=answers, streams=Streams())
    APP.state.service.streams.stopping.set()  # each stream ends after its first event


@schema.parametrize()
@limits(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_is_a_servers_error(case: Any) -> None:
    case.call_and_validate(checks=CHECKS, headers=HEADERS)
