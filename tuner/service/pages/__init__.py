"""The pages of the service, rendered on the server; htmx replaces the parts that change."""

from __future__ import annotations

from fastapi import APIRouter

from tuner.service.pages import comparing
from tuner.service.pages import evidence
from tuner.service.pages import files
from tuner.service.pages import home
from tuner.service.pages import jobs
from tuner.service.pages import lookup
from tuner.service.pages import session
from tuner.service.pages import studies
from tuner.service.pages import trials

router = APIRouter(include_in_schema=False)
for each in (home, studies, trials, lookup, comparing, evidence, jobs, session, files):
    router.include_router(each.router)
