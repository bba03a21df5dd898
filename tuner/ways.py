"""Names of what a user may do next, so that one hint serves commands, HTTP and pages.

How a thing is done is said by the surface through which the user came: a hint holds a name such as
``<<list-studies>>``, and each surface puts its own words there. The words of the command line are
here, as they are what an error shows where nobody says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

_NAMED = re.compile(r"<<([a-z-]+)(?: ([^<>]*))?>>")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Way(StrEnum):
    """A thing to do. In a text, it stands for the words of the surface."""

    LIST_STUDIES = "<<list-studies>>"
    LIST_TRIALS = "<<list-trials>>"
    LIST_OK_TRIALS = "<<list-ok-trials>>"
    FIND_TRIAL = "<<find-trial>>"
    SHOW_TRIAL = "<<show-trial>>"
    EXPORT_TRIALS = "<<export-trials>>"
    LIST_EVIDENCE = "<<list-evidence>>"
    SHOW_EVIDENCE = "<<show-evidence>>"
    ADD_EVIDENCE = "<<add-evidence>>"
    LIST_RECORDS = "<<list-records>>"
    LIST_JOBS = "<<list-jobs>>"
    TAKE_JOBS = "<<take-jobs>>"
    NEXT_PAGE = "<<next-page>>"
    REPORT_STUDY = "<<report-study>>"
    FINISH_STUDY = "<<finish-study>>"
    ADD_OPERATORS = "<<add-operators>>"
    ADD_STUDIES = "<<add-studies>>"
    UPGRADE_DATABASE = "<<upgrade-database>>"
    ASK_NEAREST_SHAPE = "<<ask-nearest-shape>>"
    ASK_SAME_ARCHITECTURE = "<<ask-same-architecture>>"
    NAME_NO_ARCHITECTURE = "<<name-no-architecture>>"

    def of(self, name: object) -> str:
        """Return the thing with what it is done to."""
        return f"{self.value[:-2]} {name}>>"


Words: TypeAlias = Mapping[Way, str]  # a word in braces is what stands there where none is given

COMMAND_WORDS: Words = {
    Way.LIST_STUDIES: "`tuner studies`",
    Way.LIST_TRIALS: "`tuner trials {STUDY}`",
    Way.LIST_OK_TRIALS: "`tuner trials {STUDY} --outcome ok`",
    Way.FIND_TRIAL: "`tuner trials STUDY` lists a study's",
    Way.SHOW_TRIAL: "`tuner show {TRIAL}`",
    Way.EXPORT_TRIALS: "`tuner export trials`",
    Way.LIST_EVIDENCE: "`tuner evidence`",
    Way.SHOW_EVIDENCE: "`tuner evidence {NAME}`",
    Way.ADD_EVIDENCE: "`tuner import FILE` adds to it",
    Way.LIST_RECORDS: "`tuner studies` and `tuner evidence` list what is stored; a folder is one "
    "that `tuner show TRIAL --export DIR` wrote",
    Way.LIST_JOBS: "the service",
    Way.TAKE_JOBS: "on its machine, `tuner work --device {DEVICE}` takes them",
    Way.NEXT_PAGE: "pass back `next` of the page before, with the same filters",
    Way.REPORT_STUDY: "so has `tuner report {STUDY}`, where the database is",
    Way.FINISH_STUDY: "`tuner run`",
    Way.ADD_OPERATORS: "--operators DIR adds yours",
    Way.ADD_STUDIES: "--studies DIR adds yours",
    Way.UPGRADE_DATABASE: "`tuner db upgrade`",
    Way.ASK_NEAREST_SHAPE: "ask with --match nearest-shape",
    Way.ASK_SAME_ARCHITECTURE: "ask with --match same-arch",
    Way.NAME_NO_ARCHITECTURE: "leave --arch out",
}


def in_words(text: str, words: Words) -> str:
    """Return a text with a surface's words for each thing that is named in it."""

    def said(found: re.Match[str]) -> str:
        name, given = found.groups()
        try:
            way = Way(f"<<{name}>>")
        except ValueError:  # of a text that somebody else wrote
            return found[0]
        return _PLACEHOLDER.sub(lambda holder: given or holder[1], words[way])

    return _NAMED.sub(said, text)
