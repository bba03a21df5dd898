"""What a hint names is said by every surface, and no shared hint speaks of one surface only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tuner.errors import NotFound
from tuner.service.wording import HTTP_WORDS
from tuner.service.wording import PAGE_WORDS
from tuner.ways import COMMAND_WORDS
from tuner.ways import in_words
from tuner.ways import Way

PACKAGE = Path(__file__).resolve().parent.parent / "tuner"
# What commands, HTTP and pages all go through: here a hint names things by `Way`.
SHARED = (
    *("api/answer.py", "api/answers.py", "api/changing.py", "api/common.py", "api/comparing.py"),
    *("api/evidence.py", "api/listing.py", "api/lookup.py", "api/originals.py", "api/paging.py"),
    *("api/question.py", "api/reading.py", "api/reproducing.py", "domain/*.py", "operator.py"),
    *("api/jobs.py", "api/registered.py", "api/resuming.py", "api/viewing.py"),
    *("report/best.py", "report/comparison.py", "report/provenance.py", "report/study_report.py"),
    *("store/evidence.py", "store/jobs.py", "store/job_wishes.py", "store/paging.py"),
    *("store/queries.py", "study/overrides.py"),
)
OF_COMMANDS = re.compile(r"`|(?<![\w-])--[a-z]")
# What is done by a command only, by whoever is on the machine.
BY_COMMAND_ONLY = ("--export", "--current-source", "--name ")


def texts(tree: ast.AST) -> list[str]:
    """Return the texts that calls are given: messages and hints, not docstrings."""
    given = [
        value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for value in (*node.args, *(each.value for each in node.keywords))
    ]
    return [ast.unparse(each) for each in given if isinstance(each, ast.Constant | ast.JoinedStr)]


@pytest.mark.parametrize("pattern", SHARED)
def test_no_shared_text_speaks_of_commands(pattern: str) -> None:
    paths = sorted(PACKAGE.glob(pattern))
    assert paths
    for path in paths:
        for text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            if not any(each in text for each in BY_COMMAND_ONLY):
                assert not OF_COMMANDS.search(text), path


def test_every_surface_has_words_for_every_way() -> None:
    for words in (COMMAND_WORDS, HTTP_WORDS, PAGE_WORDS):
        assert set(words) == set(Way)
        assert all(in_words(text, words) == text for text in words.values())
    for way in Way:
        if way is not Way.UPGRADE_DATABASE:  # for whoever watches the service
            assert not OF_COMMANDS.search(HTTP_WORDS[way].replace("`next`", ""))
        assert not OF_COMMANDS.search(PAGE_WORDS[way])
        assert "/api/" not in PAGE_WORDS[way]


def test_a_hint_is_said_in_the_words_of_the_surface() -> None:
    error = NotFound("x", hint=f"{Way.LIST_TRIALS.of(12)} or {Way.LIST_TRIALS}; <<no-way>>")

    assert error.hint == "`tuner trials 12` or `tuner trials STUDY`; <<no-way>>"
    assert error.hint_in(HTTP_WORDS).startswith("GET /api/v1/studies/12/trials or GET ")
    assert error.hint_in(PAGE_WORDS).startswith("the study's list of trials or ")
