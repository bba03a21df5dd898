"""The routes of ``/api/v1`` and of operation, one module a subject, each with its ``router``."""

from __future__ import annotations

from tuner.service.routes import comparing
from tuner.service.routes import evidence
from tuner.service.routes import exports
from tuner.service.routes import jobs
from tuner.service.routes import lookup
from tuner.service.routes import machine
from tuner.service.routes import operation
from tuner.service.routes import studies
from tuner.service.routes import trials
from tuner.service.routes import watching

API_ROUTERS = (
    machine.router,
    studies.router,
    trials.router,
    lookup.router,
    evidence.router,
    comparing.router,
    jobs.router,
    watching.router,
    exports.router,
    operation.router,
)
