"""Shapes that a study planned and did not come to are in its tables, and said to be so."""

from __future__ import annotations

from fastapi.testclient import TestClient
from stored_studies import StudyMaker

from tuner import api
from tuner.api import viewing
from tuner.report.study_report import StudyReport
from tuner.report.tables import best_table
from tuner.report.tables import comparison_table
from tuner.service.app import create_app
from tuner.settings import Settings
from tuner.store import open_store
from tuner.store import Store


def test_planned_shapes_that_were_not_come_to_are_in_the_tables(
    store: Store, settings: Settings
) -> None:
    shapes = ["1024x64", "256x256", "64x1024", "3x13"]
    study = StudyMaker(store, name="stopped", spec={"shapes": shapes}, planned=9)
    study.measured("serial", (1024, 64), {"BLOCK": 64}, (500.0, 501.0), (502.0, 503.0))
    study.failed("serial", (256, 256), {"BLOCK": 64}, "no")
    # What a constraint refuses is stored for all shapes at the beginning: nothing was tried.
    study.skipped("block", (64, 1024), {"WIDTH": 13, "warps": 32}, "too_wide")
    study.recorder.release()
    store.close()

    found = read_report(settings, study.study_id)
    best, compared = best_table(found), comparison_table(found)
    assert [(row[0].text, row[1].text) for row in best.rows] == [
        ("1024x64", "serial"),
        ("256x256", "nothing valid yet"),
        ("64x1024", "nothing tried"),
        ("3x13", "nothing tried"),
    ]
    assert [row[0].text for row in compared.rows] == shapes
    assert {len(row) for row in compared.rows} == {1 + len(found.implementations)}
    view = api.study_view(study.study_id, settings)
    assert [each.label for each in view.workloads] == shapes
    client = TestClient(create_app(settings), base_url="http://127.0.0.1:8765")
    page = client.get(f"/studies/{study.study_id}").text
    for section in ("best", "coverage"):
        table = page.partition(f'<section aria-labelledby="{section}">')[2].partition("</table>")[0]
        assert table.count("nothing tried") == 2, section
        assert "3x13" in table


def read_report(settings: Settings, study_id: int) -> StudyReport:
    with open_store(settings.db, create=False, writable=False) as store, store.session() as session:
        return viewing.read_report(session, study_id)
