"""Makes the application: state, layers, routes and error answers."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path

from fastapi import APIRouter
from fastapi import Depends
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from tuner import __version__
from tuner import api
from tuner.service.dependencies import check_parameters
from tuner.service.dependencies import ServiceState
from tuner.service.errors import handlers
from tuner.service.gate import Gate
from tuner.service.heads import Heads
from tuner.service.limits import Rate
from tuner.service.limits import RateLimit
from tuner.service.metrics import Metrics
from tuner.service.openapi import describe
from tuner.service.pages import PAGE_ROUTERS
from tuner.service.pages.rendering import error_page
from tuner.service.routes import API_ROUTERS
from tuner.service.security import Access
from tuner.service.shortcut import BEST_PATH
from tuner.service.shortcut import Shortcut
from tuner.service.telling import Teller
from tuner.service.traffic import Traffic
from tuner.settings import Settings

_STATIC = Path(__file__).resolve().parent / "static"
DESCRIPTION = """Start tuning studies, watch them, look up winners, download CSV.

Every object has a `schema` key, every error one shape. Lists come in pages: pass `next` back as
`cursor`; each list is also there as CSV, whole, under the same path with `.csv`."""


def create_app(
    settings: Settings,
    *,
    token: str | None = None,
    address: str = "127.0.0.1",
    allowed_hosts: Iterable[str] = (),
    writes: Rate | None = None,
) -> FastAPI:
    """Make the application for one database.

    Args:
        settings: Say which database and operators.
        token: What a client must know to write; None refuses all writes.
        address: That the service listens on, in figures.
        allowed_hosts: Further names that clients may call it by.
        writes: How often one client may write; None takes the default.

    Raises:
        UsageError: The token is too short, or there is none and others can reach the address.
    """
    api.load_all()
    access = Access(token, address, allowed_hosts)
    metrics = Metrics(settings)
    devices = api.DeviceMemory()
    answers = api.BestAnswers(settings, devices.find, devices.recall)
    traffic = Traffic()
    answers_ahead = api.AnswersAhead(answers, traffic.free_share)
    metrics.show_answers(kept=lambda: answers.kept, waiting=lambda: answers_ahead.waiting)
    routes = _routes((*API_ROUTERS, *PAGE_ROUTERS))
    state = ServiceState(
        settings, access, Teller(settings), metrics, devices, answers, answers_ahead, routes=routes
    )
    app = FastAPI(
        title="tuner",
        version=__version__,
        description=DESCRIPTION,
        openapi_url=None,  # a route of ours, which refuses parameters as the others do
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        middleware=_layers(state, RateLimit(writes or Rate()), traffic),
        exception_handlers=handlers(error_page),
    )
    _include(app)
    app.state.service = state
    app.mount("/static", StaticFiles(directory=_STATIC, check_dir=False), name="static")
    describe(app)
    return app


def _layers(state: ServiceState, writes: RateLimit, traffic: Traffic) -> list[Middleware]:
    """Return what a request goes through on its way to a route, the outermost first."""
    best_route = next(each for each in state.routes if each.path == BEST_PATH)
    return [
        Middleware(
            Gate,
            access=state.access,
            writes=writes,
            metrics=state.metrics,
            traffic=traffic,
            page=error_page,
        ),
        Middleware(Heads),
        Middleware(
            Shortcut,
            route=best_route,
            settings=state.settings,
            answers=state.answers,
            metrics=state.metrics,
            teller=state.teller,
        ),
    ]


def _include(app: FastAPI) -> None:
    """Add all routes; none of them passes over a parameter."""
    checks = [Depends(check_parameters)]
    for router in API_ROUTERS:
        app.include_router(router, dependencies=checks)
    for router in PAGE_ROUTERS:
        app.include_router(router, dependencies=checks, include_in_schema=False)


def _routes(routers: Sequence[APIRouter]) -> tuple[APIRoute, ...]:
    return tuple(each for router in routers for each in router.routes if isinstance(each, APIRoute))
