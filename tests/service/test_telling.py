"""What clients are told: in their own words, and not where things are on the machine."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from tuner.errors import DatabaseProblem
from tuner.errors import NoDatabase
from tuner.errors import SchemaMismatch
from tuner.errors import UsageError
from tuner.service.telling import Teller
from tuner.settings import Settings

Maker = Callable[..., TestClient]
# What is done on the machine itself is named as it is done there.
ON_THE_MACHINE = re.compile(
    r"`tuner (db upgrade|work --device [^`]*|report \d+|import FILE)`|--(operators|studies) DIR"
)
OF_COMMANDS = re.compile(r"`tuner |(?<![\w-])--[a-z]")
ASKED = [
    "/api/v1/best?operator=none&shape=6x40",
    "/api/v1/best?operator=planted&shape=9x9",
    "/api/v1/best?operator=planted&shape=9x9&device=cpu",
    "/api/v1/best?operator=planted&shape=6x40&arch=x86_64&match=exact",
    "/api/v1/best?operator=planted&shape=6x40&scalar=x",
    "/api/v1/studies/none",
    "/api/v1/studies/none/trials",
    "/api/v1/trials/999999",
    "/api/v1/evidence/none",
    "/api/v1/compare?a=env:zz&b=planted",
    "/api/v1/compare?a=env:0000&b=planted",
    "/api/v1/compare?a=source:0000&b=planted",
    "/api/v1/jobs/999",
    "/api/v1/exports/trials.csv?study=none",
    "/studies/999999",
    "/trials/999999",
    "/evidence/none",
    "/compare?a=none&b=none",
    "/compare?a=source:0000&b=1",
    "/lookup?operator=planted&shape=9x9&target=device:cpu",
    "/lookup?operator=planted&shape=6x40&match=exact&target=arch:x86_64",
]


@pytest.mark.parametrize("path", ASKED)
def test_no_answer_speaks_of_options_of_commands(reader: TestClient, path: str) -> None:
    answer = reader.get(path)

    if path.startswith("/api/"):
        fields = answer.json()
        told = f"{fields['message']} {fields['hint']}"
        assert answer.status_code in (400, 404)
    else:
        alert = re.search(r"<main.*?</main>", answer.text, re.DOTALL)
        assert alert is not None
        told = html.unescape(alert[0])
        assert "/api/v1/" not in re.sub(r'href="[^"]*"', "", told)
    assert not OF_COMMANDS.search(ON_THE_MACHINE.sub("", told)), told
    assert "<<" not in told


def test_a_writer_is_answered_in_words_of_http(client: TestClient) -> None:
    for path, body in (
        ("studies", {"study": "none"}),
        ("studies", {"study": "planted", "device": "cuda:7"}),
        ("studies", {"study": "planted", "shapes": ["1x2x3"]}),
        ("studies", {"study": "planted", "budget": "x"}),
        ("reproductions", {"record": "none"}),
        ("reproductions", {"record": "odd"}),
    ):
        fields = client.post(f"/api/v1/{path}", json=body).json()
        told = f"{fields['message']} {fields['hint']}"
        assert not OF_COMMANDS.search(ON_THE_MACHINE.sub("", told)), fields


def test_places_are_kept_back_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(
        db="postgresql://tuner:secret@db.example/results", studies=(tmp_path / "st",),
        operators=(Path("ops"),), cache_dir=tmp_path / "cache",
    )  # fmt: skip
    teller = Teller(settings)
    database = "postgresql://db.example/results"
    problem = DatabaseProblem(
        f'database {database}: it is gone (server at "10.0.0.5")', what="it is gone"
    )
    told = [
        teller.told(problem),
        teller.told(SchemaMismatch(f"database {database} has schema 1", hint=f"--db {database}")),
        teller.told(NoDatabase(f"database {database} is empty")),
        teller.told(UsageError(f"the largest that {database} can hold")),
        teller.told(UsageError(f"{tmp_path}/st/y.toml:1: bad", hint=f"tuner import {tmp_path}/st")),
        teller.told(UsageError(f"{Path('ops').absolute()}/mine/operator.py: bad; latest ops/x")),
    ]

    for message, hint in told:
        for place in ("example", "10.0.0.5", "secret", str(tmp_path), str(Path.cwd())):
            assert place not in message + hint
    assert told[0][0] == "the database can't be used: it is gone"
    assert told[3][0] == "the largest that database can hold"
    assert told[4][0] == "y.toml:1: bad"
    assert told[5][0] == "mine/operator.py: bad; latest x"
    lines = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(lines) == len(told)
    assert "10.0.0.5" in lines[0]


def test_what_is_kept_back_is_logged_once_while_it_lasts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    teller = Teller(Settings(db=str(tmp_path / "x.db")))
    for _ in range(3):
        teller.told(DatabaseProblem("database x: disk full"))

    assert len(caplog.records) == 1


def test_ready_names_no_server(make_client: Maker, settings: Settings) -> None:
    url = "postgresql://tuner:geheim@127.0.0.1:1/results"
    client = make_client(settings=settings.model_copy(update={"db": url}), headers={})

    for path in ("/readyz", "/api/v1/studies", "/studies", "/"):
        answer = client.get(path)
        assert answer.status_code == 503, path
        assert "can't be reached" in html.unescape(answer.text)
        for word in ("127.0.0.1", "geheim", "results", "port 1", "Connection refused"):
            assert word not in answer.text


def test_a_registered_study_that_is_wrong_is_named_without_its_folder(
    make_client: Maker, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "st").mkdir()
    (tmp_path / "st" / "y.toml").write_text("colour = 1\n", encoding="utf-8")
    client = make_client(settings=settings.model_copy(update={"studies": (tmp_path / "st",)}))

    as_json = client.post("/api/v1/studies", json={"study": "y"})
    as_page = client.post("/studies", data={"study": "y"})

    assert as_json.status_code == as_page.status_code == 400
    assert as_json.json()["message"].startswith("y.toml:1: key 'schema'")
    assert ">y.toml:1: key 'schema'" in html.unescape(as_page.text)
    for answer in (as_json, as_page):
        assert str(tmp_path) not in answer.text
