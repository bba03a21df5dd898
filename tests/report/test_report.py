"""Reports as users get them: the files, what is in them, and what is never in them."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from places import OPERATORS
from stored_studies import StudyMaker

from tuner import api
from tuner.report.markdown import code
from tuner.report.study_report import StudyReport
from tuner.report.tables import best_table
from tuner.report.tables import comparison_table
from tuner.settings import Settings
from tuner.store import Store

ATTACK = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
FILES = (
    "best.csv", "best.csv.json", "processes.csv", "processes.csv.json", "report.html",
    "report.md", "trials.csv", "trials.csv.json",
)  # fmt: skip
CPU_STUDY = """
schema = 1
name = "planted"
operator = "planted"
device = "cpu"
shapes = ["6x40"]
[space.good]
BLOCK = [32, 64]
[space.broken-source]
BLOCK = [64]
[search]
finalists = 2
[protocol]
warmup = 1
samples = 5
processes = 2
launches_per_sample = 1
[quick]
warmup = 1
samples = 3
"""


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tuner", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )


class Page(HTMLParser):
    """What a browser would make of a page: elements, texts, and handlers in attributes."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.links: list[str] = []
        self.metas: dict[str, str] = {}
        self.texts: list[str] = []
        self.charts = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.handlers += [name for name in values if name.startswith("on")]
        self.links += [str(values[name]) for name in ("src", "href") if name in values]
        if tag == "meta":
            self.metas[str(values.get("http-equiv") or values.get("name"))] = str(
                values.get("content")
            )

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.get_starttag_text() == '<script type="application/json" id="charts">':
            self.charts += data


def page_charts(folder: Path) -> dict[str, Any]:
    page = Page((folder / "report.html").read_text("utf-8"))
    figures: dict[str, Any] = json.loads(page.charts.strip())["figures"]
    return figures


def test_a_study_on_the_cpu_is_reported_by_the_command(tmp_path: Path) -> None:
    study = tmp_path / "planted.toml"
    study.write_text(CPU_STUDY, encoding="utf-8")
    run = command("run", str(study), "--operators", str(OPERATORS), "--quiet")
    assert run.returncode == 0, run.stderr

    report = command("report", "planted", "--output", "out")

    assert report.returncode == 0, report.stderr
    assert report.stdout.split() == [str(Path("out", name)) for name in FILES]
    markdown = (tmp_path / "out/report.md").read_text("utf-8")
    assert "say nothing about a GPU" in markdown
    assert "compile_error" in markdown.replace("\\", "")
    (best,) = rows(tmp_path / "out/best.csv")
    answer = command("best", "planted", "--shape", "6x40", "--operators", str(OPERATORS),
                     "--device", "cpu", "--format", "json")  # fmt: skip
    found = json.loads(answer.stdout)["best"]
    assert (int(best["trial_id"]), float(best["median_us"])) == (
        found["trial_id"],
        found["median_us"],
    )


def test_figures_are_bit_equal_to_the_database(
    sweep: StudyMaker, settings: Settings, tmp_path: Path
) -> None:
    api.write_report("sweep", tmp_path / "out", formats=["csv"], settings=settings)

    with sqlite3.connect(settings.db) as database:
        trials = dict(database.execute("SELECT id, median_us FROM tuner_trial"))
        processes = database.execute(
            "SELECT trial_id, stage, position, median_us FROM tuner_process"
        ).fetchall()
    written = rows(tmp_path / "out/trials.csv")
    assert {int(row["trial_id"]): row["median_us"] for row in written} == {
        trial_id: "" if value is None else repr(value) for trial_id, value in trials.items()
    }
    found = {
        (int(row["trial_id"]), row["stage"], int(row["process"]), float(row["median_us"]))
        for row in rows(tmp_path / "out/processes.csv")
    }
    assert found == set(processes)
    for row in rows(tmp_path / "out/best.csv"):
        assert float(row["median_us"]) == trials[int(row["trial_id"])]


def test_trials_csv_is_the_export(sweep: StudyMaker, settings: Settings, tmp_path: Path) -> None:
    api.write_report("sweep", tmp_path / "out", formats=["csv"], settings=settings)

    export = command("export", "trials", "--study", "sweep", "--db", settings.db)

    assert (tmp_path / "out/trials.csv").read_text("utf-8") == export.stdout


def test_sidecars_say_what_the_csv_does_not(
    sweep: StudyMaker, settings: Settings, tmp_path: Path
) -> None:
    api.write_report("sweep", tmp_path / "out", formats=["csv"], settings=settings)

    for name in ("trials", "best", "processes"):
        sidecar = json.loads((tmp_path / f"out/{name}.csv.json").read_text("utf-8"))
        table = rows(tmp_path / f"out/{name}.csv")
        assert sidecar["schema"] == "tuner.report.csv/1"
        assert sidecar["filter"] == {"study": "sweep", "study_id": sweep.study_id}
        assert sidecar["rows"] == len(table) > 0
        assert sidecar["columns"] == list(table[0])
        assert {"database_revision", "created_at", "program_version"} <= set(sidecar)
        assert not {"database_revision", "created_at", "schema"} & set(table[0])


def test_best_tells_ties_and_the_next(
    sweep: StudyMaker, settings: Settings, tmp_path: Path
) -> None:
    api.write_report("sweep", tmp_path / "out", formats=["csv"], settings=settings)

    best = {row["shape"]: row for row in rows(tmp_path / "out/best.csv")}

    assert best["1024x64"]["tie_count"] == "1"
    assert "warps=8" in best["1024x64"]["ties"]
    assert best["1024x64"]["runner_up_implementation"] == "serial"
    assert best["256x256"]["tie_count"] == "0"
    assert json.loads(best["256x256"]["runner_up_config"]) == {"WIDTH": 256, "warps": 8}
    assert float(best["256x256"]["runner_up_ratio"]) == pytest.approx(1.5)
    low, high = (float(best["256x256"][f"runner_up_ratio_{end}"]) for end in ("low", "high"))
    assert low < 1.5 < high


def test_the_best_of_each_row_is_strong(
    sweep: StudyMaker, read: Callable[..., StudyReport]
) -> None:
    table = comparison_table(read("sweep"))

    assert table.columns == ("shape", "block", "serial")
    for _, block, serial in table.rows:
        assert (block.text, block.strong) == ("5.015", True)
        assert (serial.text, serial.strong) == ("501.5", False)


def hostile_study(store: Store) -> StudyMaker:
    """Store a study whose every free text is an attack, or too long."""
    study = StudyMaker(
        store, name=ATTACK, implementations=(ATTACK, "n" * 300), spec={"description": ATTACK}
    )
    study.measured(ATTACK, (2, 8), {"A": ATTACK, "B": "</script>|`"}, (1.0, 2.0), (1.5, 2.5))
    study.measured("n" * 300, (2, 8), {"PARAMETER" * 40: "v" * 400}, (3.0, 4.0), (3.5, 4.5))
    study.failed(ATTACK, (2, 8), {"A": "=cmd|' /C calc'!A0"}, f"{ATTACK}\n| a | `b` |\n# c")
    return study


def test_stored_text_is_never_markup(store: Store, settings: Settings, tmp_path: Path) -> None:
    study = hostile_study(store)
    api.write_report(str(study.study_id), tmp_path / "out", settings=settings)

    page = Page((tmp_path / "out/report.html").read_text("utf-8"))
    assert page.tags.count("script") == 3  # chart data, Plotly, ours
    assert "img" not in page.tags
    assert page.handlers == []
    assert ATTACK in page.texts  # whole, letter by letter
    assert "<" not in page.charts
    markdown = (tmp_path / "out/report.md").read_text("utf-8")
    outside_code = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", markdown)
    assert "<img" not in outside_code
    assert "<script" not in outside_code
    for line in markdown.splitlines():
        if line.startswith("| compile"):
            cells = line.replace(r"\|", "").count("|")
            assert cells == 7  # six columns, and no more by a bar in the message


def test_the_page_asks_for_nothing_from_outside(
    sweep: StudyMaker, settings: Settings, tmp_path: Path
) -> None:
    api.write_report("sweep", tmp_path / "out", formats=["html"], settings=settings)

    page = Page((tmp_path / "out/report.html").read_text("utf-8"))
    assert [link for link in page.links if not link.startswith(("#", "data:"))] == []
    policy = page.metas["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    scripts = policy.split(";")[1]
    assert "unsafe" not in scripts
    assert "http" not in policy


def test_a_study_without_trials_has_a_report(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    StudyMaker(store, name="empty")

    written = api.write_report("empty", tmp_path / "out", settings=settings)

    assert written.files == FILES
    assert rows(tmp_path / "out/trials.csv") == []
    assert "none stored yet" in (tmp_path / "out/report.md").read_text("utf-8")
    page = Page((tmp_path / "out/report.html").read_text("utf-8"))
    assert "script" not in page.tags


def test_a_study_of_failures_tells_them_by_outcome(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    study = StudyMaker(store, name="broken")
    for block in range(5):
        study.failed("block", (2, 8), {"BLOCK": block}, f"error: line {block}")
    study.skipped("serial", (2, 8), {"BLOCK": 7}, "odd: BLOCK 7")
    study.recorder.finish_study(study.study_id)

    api.write_report("broken", tmp_path / "out", settings=settings)

    markdown = (tmp_path / "out/report.md").read_text("utf-8").replace("\\", "")
    assert "| compile_error | `block` | build | 5 | `error: line 0` | 1, 2, 3, … |" in markdown
    assert "| skipped | `serial` | plan | 1 | `odd: BLOCK 7` | 6 |" in markdown
    assert "no valid config" in markdown
    assert rows(tmp_path / "out/best.csv") == []


def test_one_single_sample_is_enough(store: Store, settings: Settings, tmp_path: Path) -> None:
    study = StudyMaker(store, name="single")
    study.measured("block", (2, 8), {"BLOCK": 1}, (5.0,))
    study.measured("block", (2, 8), {"BLOCK": 2}, (50.0,))

    api.write_report("single", tmp_path / "out", settings=settings)

    (best,) = rows(tmp_path / "out/best.csv")
    assert best["median_us"] == "5.0"
    # One sample can't tell how samples vary, so nothing is known to be slower.
    assert (best["tie_count"], best["runner_up_ratio_high"]) == ("1", "")
    chart = next(each for each in page_charts(tmp_path / "out") if each.startswith("samples"))
    assert page_charts(tmp_path / "out")[chart]["data"][0]["y"] == [5.0]


def test_a_reused_verdict_is_shown_by_its_origin(
    sweep: StudyMaker, store: Store, settings: Settings, tmp_path: Path
) -> None:
    second = StudyMaker(store, name="second")
    point = second.point("serial", (3, 13), {"BLOCK": 64})
    with store.session() as session:
        origin = next(
            trial.id
            for trial in store.queries.list_trials(session, sweep.study_id)
            if trial.implementation == "serial" and trial.workload.shape == (3, 13)
        )
    second.recorder.reuse_trial(second.study_id, point, origin)

    api.write_report("second", tmp_path / "out", formats=["csv"], settings=settings)

    (best,) = rows(tmp_path / "out/best.csv")
    assert (int(best["trial_id"]), best["median_us"]) == (origin, "501.5")


def test_code_spans_hold_any_text() -> None:
    assert code("a`b``c") == "```a`b``c```"
    assert code("`") == "`` ` ``"
    assert code("a|b\nc") == r"`a\|b c`"


def test_notebooks_show_results_escaped(store: Store, read: Callable[..., StudyReport]) -> None:
    hostile_study(store)
    (workload,) = read(ATTACK).workloads
    assert workload.answer is not None
    result = api.StudyResult(
        1, ATTACK, True, {"ok": 2}, (workload.answer,), (workload.workload,), (), (), "db", 1.0
    )

    for shown in (workload.answer._repr_html_(), result._repr_html_()):
        page = Page(shown)
        assert set(page.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "p"}
        assert ATTACK in "".join(page.texts)
    assert "no valid config" in result._repr_html_()


def test_the_range_is_that_of_the_processes(
    sweep: StudyMaker, read: Callable[..., StudyReport]
) -> None:
    first = best_table(read("sweep")).rows[0]

    assert [cell.text for cell in first[3:5]] == ["5.015", "5.010 to 5.020"]


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    return found or pytest.skip("no Chromium on this machine")


def test_a_browser_draws_the_page_without_complaint(
    sweep: StudyMaker, settings: Settings, tmp_path: Path
) -> None:
    browser = chromium()
    api.write_report("sweep", tmp_path / "out", formats=["html"], settings=settings)

    seen = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--v=0", "--window-size=1600,6000", "--virtual-time-budget=20000", "--dump-dom",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}",
            (tmp_path / "out/report.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip

    assert "CONSOLE" not in seen.stderr, seen.stderr
    page: Any = seen.stdout
    # Four shapes, one sweep, two heat maps, four winners.
    assert page.count('class="main-svg"') >= 11
    assert "modebar-btn" in page
    assert "cloud" not in page[page.index("<body") : page.index("<script type")].lower()
