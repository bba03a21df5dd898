"""Charts as data: what is drawn, on which scale, in which words. Plotly checks each figure."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from datetime import datetime
from datetime import timedelta
from datetime import UTC
from pathlib import Path

import pytest
from stored_studies import StudyMaker
from stored_studies import SWEEP

from tuner.api import write_report
from tuner.errors import NotFound
from tuner.report import images
from tuner.report.chart_bars import bar_panels
from tuner.report.chart_heatmap import fixed_parameters
from tuner.report.chart_heatmap import slowdown_cells
from tuner.report.chart_style import Chart
from tuner.report.chart_style import label
from tuner.report.chart_style import PALETTE
from tuner.report.chart_style import slug
from tuner.report.chart_style import styles
from tuner.report.chart_style import template
from tuner.report.chart_sweep import sweeps
from tuner.report.charts import all_charts
from tuner.report.charts import MAX_CHARTS_OF_A_KIND
from tuner.report.charts import study_charts
from tuner.report.study_report import StudyReport
from tuner.settings import Settings
from tuner.store import Store

Read = Callable[..., StudyReport]


def charts_of(report: StudyReport, group: str) -> tuple[Chart, ...]:
    groups = {each.name: each.charts for each in study_charts(report)}
    return groups.get(f"chart-{group}", ())


def sweep_note(report: StudyReport) -> str:
    return next(each.note for each in study_charts(report) if each.name == "chart-sweep")


def test_plotly_knows_every_property(sweep: StudyMaker, read: Read) -> None:
    go = pytest.importorskip("plotly.graph_objects")

    charts = all_charts(study_charts(read("sweep")))

    assert len({chart.name for chart in charts}) == len(charts) == 4 + 1 + 2 + 4
    for chart in charts:
        for dark in (False, True):
            layout = {**chart.figure["layout"], "template": template(dark=dark)}
            go.Figure({"data": chart.figure["data"], "layout": layout})
        json.dumps(chart.figure, allow_nan=False)


def test_bars_start_at_zero_in_panels_of_their_own(sweep: StudyMaker, read: Read) -> None:
    chart = charts_of(read("sweep"), "implementations")[0]

    layout = chart.figure["layout"]
    assert layout["yaxis"]["range"][0] == layout["yaxis2"]["range"][0] == 0.0
    assert layout["yaxis"]["range"][1] < 10 < 500 < layout["yaxis2"]["range"][1]
    fast, slow = (trace for trace in chart.figure["data"] if trace["type"] == "bar")
    assert fast["y"] == [pytest.approx(5.015)]
    assert slow["y"] == [501.5]
    # Whiskers reach the process medians, 500.5 and 502.5.
    assert slow["error_y"]["array"] == slow["error_y"]["arrayminus"] == [1.0]


def test_a_panel_ends_at_a_jump_or_an_order_of_magnitude(store: Store, read: Read) -> None:
    names = [f"n{index}" for index in range(6)]
    study = StudyMaker(store, name="panels", implementations=names)
    for name, time_us in zip(names, (5.4, 40.8, 41.5, 81.5, 200.0, 450.0), strict=True):
        study.measured(name, (2, 8), {"B": 1}, (time_us, time_us))

    panels = bar_panels(read("panels").workloads[0].confirmed)

    assert [[each.median_us for each in panel] for panel in panels] == [
        [5.4], [40.8, 41.5, 81.5, 200.0], [450.0]
    ]  # fmt: skip


def test_the_sweep_holds_shapes_of_equal_element_count_only(sweep: StudyMaker, read: Read) -> None:
    (chart,) = charts_of(read("sweep"), "sweep")

    for trace in chart.figure["data"]:
        assert trace["x"] == [64, 256, 1024]
    assert "Not drawn, as no other shape can stand beside it: 3x13." in sweep_note(read("sweep"))
    assert "Dashed" not in chart.caption  # no copy was measured


def test_the_copy_line_is_what_was_measured_beside_the_best(store: Store, read: Read) -> None:
    sweep = StudyMaker(store, name="sweep")
    for shape in ((1024, 64), (64, 1024), (3, 13)):
        sweep.measured("block", shape, {"A": 1}, (5.0, 5.0))
    began = datetime.now(UTC) - timedelta(hours=1)
    sweep.controls((1024, 64), 4.0, 3.9, started_at=began)
    sweep.controls((64, 1024), None, 2.0, started_at=began)
    sweep.controls((3, 13), 1.0, started_at=began)  # not of the sweep
    sweep.controls((1024, 64), 1.0, started_at=datetime.now(UTC))  # after the trials

    (chart,) = charts_of(read("sweep"), "sweep")

    time, bandwidth = (each for each in chart.figure["data"] if each["name"].startswith("copy"))
    assert time["x"] == bandwidth["x"] == [64, 1024]
    assert time["y"] == [3.9, 2.0]
    assert bandwidth["y"] == pytest.approx([1e6 / 3.9e3, 500.0])
    assert chart.figure["layout"]["yaxis2"]["range"][1] > 500.0
    assert "Dashed: a copy of as many bytes" in chart.caption


def test_shapes_are_drawn_beside_those_they_share_elements_or_rows_with() -> None:
    def drawn(*shapes: tuple[int, ...]) -> list[tuple[str, tuple[tuple[int, ...], ...]]]:
        return [(each.title, each.shapes) for each in sweeps(shapes)]

    assert drawn((3, 13), *SWEEP, (8192, 8)) == [("65536 elements", ((8192, 8), *SWEEP))]
    assert drawn((1, 1), *SWEEP, (1, 4096), (3, 13), (33, 257)) == [
        ("65536 elements", SWEEP),
        ("1 row", ((1, 1), (1, 4096))),
        ("Other shapes", ((3, 13), (33, 257))),
    ]
    # Each shape once where that will do: by rows here, where each shape has its like by elements.
    assert drawn((2, 8), (2, 16), (2, 32), (4, 8), (4, 16), (4, 32)) == [
        ("4 rows", ((4, 8), (4, 16), (4, 32))),
        ("2 rows", ((2, 8), (2, 16), (2, 32))),
    ]
    assert drawn((3, 13), (5, 7)) == [("Other shapes", ((5, 7), (3, 13)))]
    assert drawn((4, 2, 8), (2, 4, 8)) == []  # the last dimension is the same
    assert drawn((16,), (8,)) == [("One dimension", ((8,), (16,)))]
    assert drawn((4, 2, 8), (4, 2, 16)) == [("4x2 rows", ((4, 2, 8), (4, 2, 16)))]
    assert drawn((3, 13)) == drawn() == []


def test_shapes_that_share_nothing_are_points_of_bandwidth_beside_their_copies(
    store: Store, read: Read
) -> None:
    study = StudyMaker(store, name="edges")
    for shape in ((3, 13), (33, 257)):
        study.measured("block", shape, {"A": 1}, (5.0, 5.0))
    study.controls((3, 13), 4.0, started_at=datetime.now(UTC) - timedelta(hours=1))

    (chart,) = charts_of(read("edges"), "sweep")

    pytest.importorskip("plotly.graph_objects").Figure(chart.figure)
    block, copy = chart.figure["data"]
    assert block["mode"] == copy["mode"] == "markers"
    assert (block["x"], block["y"]) == ([13, 257], [200.0, 200.0])
    assert (copy["x"], copy["y"]) == ([13], [250.0])
    assert "times say nothing beside each other" in chart.caption
    assert "Grey: a copy of as many bytes" in chart.caption
    assert "Not drawn" not in sweep_note(read("edges"))


def test_why_nothing_is_drawn_over_one_column_count_is_said(store: Store, read: Read) -> None:
    study = StudyMaker(store, name="narrow")
    for shape in ((2, 8), (4, 8)):
        study.measured("block", shape, {"A": 1}, (5.0, 5.0))

    assert charts_of(read("narrow"), "sweep") == ()
    assert sweep_note(read("narrow")) == (
        "Not drawn: something is confirmed for one column count only (8)."
    )


def test_the_heat_map_tells_quick_from_confirmed_and_failed(sweep: StudyMaker, read: Read) -> None:
    block, serial = charts_of(read("sweep"), "slowdown")

    heat, gaps = block.figure["data"]
    assert heat["y"] == ["warps=4", "warps=8", "warps=16"]
    assert [row[1] for row in heat["text"]] == ["1.00", "1.50", "~5.00"]
    assert heat["z"][0] == [0.0] * 4
    assert heat["z"][2][1] == pytest.approx(math.log(5.0))
    assert "WIDTH follows from the shape" in block.caption
    assert gaps["text"] == []  # what ran nowhere has no row
    assert serial.figure["data"][0]["text"] == [["100"] * 4]


def test_what_failed_at_one_shape_is_marked_there(store: Store, read: Read) -> None:
    study = StudyMaker(store, name="mixed")
    study.measured("block", (2, 8), {"B": 1}, (1.0, 1.0))
    study.failed("block", (4, 4), {"B": 1}, "error: <b>no</b>")
    study.measured("block", (2, 8), {"B": 2})
    study.skipped("block", (4, 4), {"B": 2}, "too_wide: B 2")

    (chart,) = charts_of(read("mixed"), "slowdown")

    gaps = chart.figure["data"][1]
    marks = dict(zip(gaps["y"], gaps["text"], strict=True))
    assert marks == {"B=1": "✕", "B=2": "·"}
    assert "compile_error: error: &lt;b&gt;no&lt;/b&gt;" in gaps["customdata"]


def test_a_parameter_that_varies_within_a_shape_keeps_its_name(
    sweep: StudyMaker, read: Read
) -> None:
    workloads = read("sweep").workloads

    assert fixed_parameters(slowdown_cells(workloads, "block")) == ("WIDTH",)
    assert fixed_parameters(slowdown_cells(workloads, "serial")) == ()


def test_samples_stay_in_order_with_their_process(sweep: StudyMaker, read: Read) -> None:
    chart = charts_of(read("sweep"), "samples")[0]

    first, second = chart.figure["data"]
    assert (first["x"], first["y"]) == ([0, 1], [5.0, 5.02])
    assert (second["x"], second["y"]) == ([2, 3], [5.01, 5.03])


def test_chosen_trials_come_first_and_once(sweep: StudyMaker, store: Store, read: Read) -> None:
    report = read("sweep")
    winner = report.workloads[0].answer
    quick = next(trial for trial in report.trials if not trial.confirmed)
    assert winner is not None

    charts = charts_of(read("sweep", quick.id, winner.best.trial_id), "samples")

    assert len(charts) == 1 + 4
    assert charts[0].caption == f"Trial {quick.id}, quick stage only."


def test_a_trial_of_another_study_is_not_drawn(sweep: StudyMaker, store: Store, read: Read) -> None:
    StudyMaker(store, name="other").measured("block", (2, 8), {"B": 1}, (1.0, 2.0))

    with pytest.raises(NotFound, match="not one of study other"):
        read("other", 1)


def test_a_study_without_results_has_no_charts(store: Store, read: Read) -> None:
    StudyMaker(store, name="broken").failed("block", (2, 8), {"B": 1}, "error")

    assert study_charts(read("broken")) == ()


def test_too_many_shapes_are_cut_and_said(store: Store, read: Read) -> None:
    study = StudyMaker(store, name="many")
    for size in range(1, MAX_CHARTS_OF_A_KIND + 3):
        study.measured("block", (size, 8), {"B": 1}, (5.0, 5.0))

    bars, *_ = study_charts(read("many"))

    assert len(bars.charts) == MAX_CHARTS_OF_A_KIND
    assert f"The first {MAX_CHARTS_OF_A_KIND} of {MAX_CHARTS_OF_A_KIND + 2} shapes" in bars.note


def test_labels_are_short_and_plain() -> None:
    assert label("<b>&</b>") == "&lt;b&gt;&amp;&lt;/b&gt;"
    assert len(label("x" * 500)) == 26
    assert slug("../../etc/passwd", 3) == "03-etc-passwd"
    assert slug("<>", 1) == "01-x"
    assert len({style.color for style in styles("abcdefg").values()}) == len(PALETTE)
    nine = styles("abcdefghi")
    assert nine["a"].color == nine["h"].color
    assert nine["a"].dash != nine["h"].dash


def test_pictures_are_drawn_at_their_size(sweep: StudyMaker, read: Read, tmp_path: Path) -> None:
    pytest.importorskip("kaleido")
    chart = charts_of(read("sweep"), "samples")[0]

    problem = images.write_images([chart], tmp_path, "png")

    if "neither is installed" in problem:
        pytest.skip(problem)
    assert problem == ""
    content = (tmp_path / f"{chart.name}.png").read_bytes()
    assert struct.unpack(">II", content[16:24]) == (2 * chart.width_px, 2 * chart.height_px)


def test_without_a_browser_the_rest_is_written(
    sweep: StudyMaker, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kaleido")
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "absent"))

    written = write_report("sweep", tmp_path / "out", images="png", settings=settings)

    assert written.problem == "pictures need Chrome or Chromium, and neither is installed"
    assert "report.html" in written.files
    assert not [name for name in written.files if name.endswith(".png")]


def test_without_kaleido_the_reason_is_said(
    sweep: StudyMaker, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(images, "import_module", refuse)

    problem = images.write_images(charts_of(read("sweep"), "sweep"), tmp_path, "svg")

    assert problem.startswith("pictures need Kaleido")
    assert list(tmp_path.glob("*.svg")) == []
