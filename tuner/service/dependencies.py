"""What handlers are given: the settings, the service's state, and parameters that are checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Annotated
from typing import TypeAlias

from fastapi import Depends
from fastapi import Path
from fastapi import Query
from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import Field
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.routing import Route

from tuner import api
from tuner.service.errors import InvalidRequest
from tuner.service.errors import PageRoute
from tuner.service.events import Streams
from tuner.service.metrics import Metrics
from tuner.service.security import Access
from tuner.service.telling import Teller
from tuner.settings import Settings


@dataclass(frozen=True, slots=True)
class ServiceState:
    """What one running service holds. Nothing in it is lost with the process.

    Attributes:
        settings: Of the service.
        access: Who may do what.
        teller: Says to clients what went wrong.
        metrics: What ``/metrics`` shows.
        devices: What device names stand for.
        answers: Which config is best; gives an answer again while it is right.
        answers_ahead: Makes answers before they are asked for, once it is entered.
        routes: All routes but those of static files, for the ``Allow`` header.
        streams: Open event streams; ended when the service is asked to end.
    """

    settings: Settings
    access: Access
    teller: Teller
    metrics: Metrics
    devices: api.DeviceMemory
    answers: api.BestAnswers
    answers_ahead: api.AnswersAhead
    routes: Sequence[Route] = ()
    streams: Streams = field(default_factory=Streams)


class Strict(BaseModel):
    """Base of parameters and bodies: what is not documented is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


REPEATABLE = frozenset({"scalar"})  # parameters that are lists; all others are given once


class NoParameters(Strict):
    """For what takes no parameters, or needs no body: none, or an empty object."""


class PageParameters(Strict):
    """Which part of a list."""

    limit: int = Field(default=100, ge=1, le=1000, description="At most so many")
    cursor: str | None = Field(
        default=None, max_length=100, description="`next` of the page before"
    )


def service_state(request: Request) -> ServiceState:
    """Return the state of the service that answers."""
    state = request.app.state.service
    assert isinstance(state, ServiceState)
    return state


# Coroutines: FastAPI runs a plain function in a thread, which takes longer than what these do.
async def _given_state(request: Request) -> ServiceState:
    return service_state(request)


async def _given_settings(request: Request) -> Settings:
    return service_state(request).settings


def repeated(query: QueryParams) -> str | None:
    """Return a parameter that is given more than once and is no list, or None."""
    names = [name for name, _ in query.multi_items() if name not in REPEATABLE]
    return next((name for name in names if names.count(name) > 1), None)


async def check_parameters(request: Request) -> None:
    """Refuse parameters that are given more than once: the framework takes the last one.

    Those that a page does not know are refused too. The API's refuse them themselves (`Strict`).

    Raises:
        InvalidRequest: There is one.
    """
    query = request.query_params
    name = repeated(query)
    if name is not None:
        raise InvalidRequest(
            f"parameter {name[:100]!r} is given more than once", hint="give it once"
        )
    route = request.scope["route"]
    if isinstance(route, PageRoute):
        known = [each.alias for each in route.dependant.query_params]
        unknown = next((each for each in query if each not in known), None)
        if unknown is not None:
            hint = f"known here: {', '.join(known)}" if known else "this page takes none"
            raise InvalidRequest(f"unknown parameter {unknown[:100]!r}", hint=hint)


SettingsDep = Annotated[Settings, Depends(_given_settings)]
StateDep = Annotated[ServiceState, Depends(_given_state)]
NoQuery = Annotated[NoParameters, Query()]
RowId: TypeAlias = Annotated[int, Path(ge=1, le=2**63 - 1)]
