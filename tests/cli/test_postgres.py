"""The command over PostgreSQL: everything a file can do, and what a server can do to it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from command import Answer
from command import Command
from places import OPERATORS
from postgres import PostgresServer
from sqlalchemy import make_url

EXTRA = ("--operators", str(OPERATORS))
ASK = ("best", "planted", "--shape", "6x40", "--device", "cpu", *EXTRA, "--format", "json")
TRIALS = ("trials", "planted", "--format", "json")


@pytest.fixture
def url(make_postgres: Callable[..., str]) -> str:
    """An empty database, reached with a password that nobody must see."""
    made = make_url(make_postgres(empty=True)).set(password="very-secret")
    return made.render_as_string(hide_password=False)


def sound(answer: Answer, code: int = 0) -> Answer:
    """Check an exit code, and that the password was not shown."""
    assert answer.code == code, answer.err
    assert "very-secret" not in answer.out + answer.err
    return answer


@pytest.mark.timeout(300)  # a dozen processes, on a machine that may be busy
def test_every_verb_works_and_a_copy_gives_the_same_answers(tuner: Command, url: str) -> None:
    def ask(*words: str, code: int = 0) -> Answer:
        return sound(tuner(*words, TUNER_DB=url), code)

    assert "is empty: it has no tables" in ask(*ASK, code=4).err
    study = tuner.planted_study("wrong")
    run = sound(tuner("run", study, *EXTRA, "--db", url, "--format", "json"))
    assert run.json["finished"]
    assert run.json["database"].startswith("postgresql:///")
    assert "verdict: " in tuner("reproduce", "1", *EXTRA, TUNER_DB=url).err
    ask("report", "planted", "--format", "md", "--output", "report")
    ask("export", "bundle", "--output", "all.bundle")
    ask("import", "all.bundle")
    assert "no problem found" in ask("db", "check").err

    copied = sound(tuner("db", "copy", url, "copy.db")).err
    assert "copied to copy.db, each read back and checked" in copied
    for words in (ASK, ("show", "1"), ("export", "samples", "--format", "csv")):
        assert ask(*words).out == tuner(*words, "--db", "copy.db").out, words


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.05)


@pytest.mark.timeout(300)
def test_a_run_that_is_killed_or_loses_the_server_goes_on(
    tuner: Command, url: str, postgres: PostgresServer
) -> None:
    name = make_url(url).database or ""
    sound(tuner("run", tuner.planted_study(), *EXTRA, TUNER_DB=url))
    # Another study, which takes the good kernel's trial over and has one that takes 3 s.
    study = tuner.planted_study("hang")

    def hanging() -> bool:
        if not postgres.run("SELECT to_regclass('tuner_trial') IS NOT NULL", name)[0][0]:
            return False
        query = "SELECT count(*) FROM tuner_trial WHERE outcome IS NULL AND config IS NOT NULL"
        done = "SELECT count(*) FROM tuner_trial WHERE outcome = 'ok'"
        return postgres.run(query, name)[0][0] == 1 and postgres.run(done, name)[0][0] == 2

    killed = tuner.start("run", study, *EXTRA, TUNER_DB=url)
    wait_for(hanging)
    killed.kill()
    killed.communicate()

    cut_off = tuner.start("run", study, *EXTRA, TUNER_DB=url)
    wait_for(lambda: postgres.run("SELECT count(*) FROM tuner_trial", name)[0][0] == 4)
    postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    postgres.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    out, err = cut_off.communicate(timeout=60)
    postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert cut_off.returncode == 3, err
    assert "Traceback" not in err
    assert "very-secret" not in err
    assert out == ""
    assert [line[:6] for line in err.splitlines()[-2:]] == ["error:", "hint: "]
    assert sound(tuner("db", "check", "--db", url))

    done = sound(tuner("run", study, *EXTRA, TUNER_DB=url))
    assert "finished" in done.err
    rows = sound(tuner(*TRIALS, "--db", url)).json["rows"]
    found = [(row["implementation"], row["outcome"]) for row in rows]
    assert found == [
        ("good", "ok"),
        ("hang", "interrupted"),
        ("hang", "interrupted"),
        ("hang", "timeout"),
    ]
    assert rows[1]["message"].startswith(f"process {killed.pid} ended")
