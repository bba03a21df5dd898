"""Reads ``RESULT name=value ...`` lines, and ``ENV`` lines before them, out of any log."""

from __future__ import annotations

import shlex

from tuner.domain.evidence import EvidenceRecord
from tuner.report.importers.parsed import BadEntry
from tuner.report.importers.parsed import checked_text
from tuner.report.importers.parsed import LineProblem
from tuner.report.importers.parsed import ParsedFile
from tuner.report.importers.parsed import shown
from tuner.report.importers.stated import require_fields
from tuner.report.importers.stated import stated_environment
from tuner.report.importers.stated import stated_record

MAX_LINE_CHARACTERS = 20_000
_IDENTITY = ("operator", "implementation", "shape", "dtype")


def read_log(content: bytes) -> ParsedFile:
    """Read a log. Lines that start with neither word are none of our business.

    An ``ENV`` line holds for the lines after it of the same ``runtime``; one without a runtime
    holds for all that have no other.
    """
    records: list[EvidenceRecord] = []
    problems: list[LineProblem] = []
    environments: dict[str, dict[str, str]] = {}
    # Other programs write into a log too: bytes that are no text matter in our lines only.
    text = content.decode("utf-8-sig", "replace")
    for number, line in enumerate(text.split("\n"), start=1):
        word, _, rest = line.partition(" ")
        if word not in ("RESULT", "ENV"):
            continue
        try:
            fields = _fields(rest)
            runtime = fields.get("runtime", "")
            if word == "ENV":
                fields.pop("runtime", None)
                environments[runtime] = stated_environment(fields)
                continue
            require_fields(fields, _IDENTITY)
            environment = environments.get(runtime, environments.get("", {}))
            records.append(stated_record(number, fields, environment=environment))
        except BadEntry as error:
            problems.append(LineProblem(number, str(error)))
    return ParsedFile(tuple(records), tuple(problems))


def _fields(text: str) -> dict[str, str]:
    if len(text) > MAX_LINE_CHARACTERS:
        raise BadEntry(f"longer than {MAX_LINE_CHARACTERS} characters")
    try:
        words = shlex.split(text)
    except ValueError as error:  # a quotation that does not end
        raise BadEntry(f"can't be split into words: {str(error).lower()}") from error
    fields: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        checked_text("a field's name", name)
        if not equals or not name:
            raise BadEntry(f"{shown(word)} is not name=value")
        if name in fields:
            raise BadEntry(f"{name} is given twice")
        fields[name] = value
    return fields
