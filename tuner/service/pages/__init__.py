"""The pages of the service, rendered on the server; htmx replaces the parts that change."""

from __future__ import annotations

from tuner.service.pages import comparing
from tuner.service.pages import evidence
from tuner.service.pages import files
from tuner.service.pages import home
from tuner.service.pages import jobs
from tuner.service.pages import lookup
from tuner.service.pages import session
from tuner.service.pages import studies
from tuner.service.pages import trials

PAGE_ROUTERS = (
    home.router,
    studies.router,
    trials.router,
    lookup.router,
    comparing.router,
    evidence.router,
    jobs.router,
    session.router,
    files.router,
)
