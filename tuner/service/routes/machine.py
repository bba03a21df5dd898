"""What there is to tune, on what, and with which toolchains it was done."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi import Query
from starlette.responses import Response

from tuner import api
from tuner.service import schemas
from tuner.service.answers import csv_answer
from tuner.service.answers import list_answer
from tuner.service.answers import page_answer
from tuner.service.dependencies import NoQuery
from tuner.service.dependencies import PageParameters
from tuner.service.dependencies import SettingsDep
from tuner.service.openapi import csv_text
from tuner.service.openapi import ok

router = APIRouter(prefix="/api/v1", tags=["machine"])


@router.get("/operators", responses=ok(schemas.OperatorList))
def list_operators(settings: SettingsDep, _none: NoQuery) -> Response:
    """List operators, a row for each implementation."""
    return list_answer("tuner.operators/1", api.list_operators(settings))


@router.get("/operators.csv", responses=csv_text())
def list_operators_csv(settings: SettingsDep, _none: NoQuery) -> Response:
    """List operators as CSV."""
    return csv_answer(
        api.list_operators(settings), schemas.columns(schemas.OperatorItem), "operators"
    )


@router.get("/devices", responses=ok(schemas.DeviceList))
def list_devices(settings: SettingsDep, _none: NoQuery) -> Response:
    """List the devices that jobs can run on, of all hosts, with what each does now."""
    return list_answer("tuner.job_devices/1", api.list_job_devices(settings))


@router.get("/devices.csv", responses=csv_text())
def list_devices_csv(settings: SettingsDep, _none: NoQuery) -> Response:
    """List the devices as CSV."""
    return csv_answer(
        api.list_job_devices(settings), schemas.columns(schemas.DeviceItem), "devices"
    )


@router.get("/environments", responses=ok(schemas.EnvironmentList))
def list_environments(
    settings: SettingsDep, parameters: Annotated[PageParameters, Query()]
) -> Response:
    """List machines and toolchains that something was measured with, newest first."""
    page = api.page_environments(settings, parameters.limit, parameters.cursor)
    return page_answer("tuner.environments/1", page)


@router.get("/environments.csv", responses=csv_text())
def list_environments_csv(settings: SettingsDep, _none: NoQuery) -> Response:
    """List machines and toolchains as CSV."""
    rows = api.page_environments(settings).items
    return csv_answer(rows, schemas.columns(schemas.EnvironmentItem), "environments")
