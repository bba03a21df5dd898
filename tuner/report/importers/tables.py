"""Reads the CSV tables that go with result lines: summaries, single samples, profiles."""

from __future__ import annotations

import csv
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from typing import TypeAlias

from tuner.domain.evidence import EvidenceRecord
from tuner.domain.evidence import RecordedTimes
from tuner.domain.evidence import Statistic
from tuner.domain.evidence import Timer
from tuner.domain.identity import Plain
from tuner.domain.outcome import Outcome
from tuner.report.importers.parsed import BadEntry
from tuner.report.importers.parsed import BadLine
from tuner.report.importers.parsed import LineProblem
from tuner.report.importers.parsed import ParsedFile
from tuner.report.importers.parsed import shown
from tuner.report.importers.parsed import text_of
from tuner.report.importers.parsed import whole_number
from tuner.report.importers.stated import checked_times
from tuner.report.importers.stated import NOT_APPLICABLE
from tuner.report.importers.stated import require_fields
from tuner.report.importers.stated import stated_record

Row: TypeAlias = dict[str, str]

_SUMMARY = {"config_id", "median_ms", "median_ms_run_min", "median_ms_run_max"}
_SAMPLES = {"sample", "ms"}
_PROFILE = {"kernel", "trace_median_ms"}
# Of the target kernel's own dispatches. The profiler's LDS size is the static part alone: 0 does
# not mean that a kernel uses none.
_RESOURCES = {
    "VGPR_Count": "vgprs",
    "SGPR_Count": "sgprs",
    "LDS_Block_Size": "static_lds_bytes",
    "Scratch_Size": "scratch_bytes",
}
_EXTENTS = {"Grid_Size": "grid_size", "Workgroup_Size": "workgroup_size"}


def table_kind(header: Sequence[str]) -> str | None:
    """Return the name of the format that a table with this header is in, or None."""
    names = {name.strip().strip('"') for name in header}
    for kind, columns in (
        ("summary-csv", _SUMMARY),
        ("profile-csv", _PROFILE),
        ("samples-csv", _SAMPLES),
    ):
        if columns <= names:
            return kind
    return None


def read_summary(content: bytes) -> ParsedFile:
    """Read a table with a row a config: median of the process medians, and their range."""
    return _read(content, _SUMMARY, lambda line, row: stated_record(line, row))


def read_profile(content: bytes) -> ParsedFile:
    """Read a table with a row a kernel. Its medians are the profiler's, not those of events."""
    return _read(content, _PROFILE, _profile_record)


def read_samples(content: bytes) -> ParsedFile:
    """Read a table with a row a sample. Rows that differ in nothing else are one record."""
    groups: dict[tuple[str, ...], _Group] = {}
    problems: list[LineProblem] = []

    def add(line: int, row: Row) -> None:
        number, time = row.pop("sample"), row.pop("ms")
        groups.setdefault(tuple(row.values()), _Group(line, row)).add(number, time)

    for line, row in _rows(content, _SAMPLES, problems):
        try:
            add(line, row)
        except BadEntry as error:
            problems.append(LineProblem(line, str(error)))
    records = []
    for group in groups.values():
        if group.is_broken:  # a record must not have a hole among its samples
            continue
        try:
            records.append(group.record())
        except BadEntry as error:
            problems.append(LineProblem(group.line, str(error)))
    problems.sort(key=lambda each: each.line)
    return ParsedFile(tuple(records), tuple(problems))


@dataclass(slots=True)
class _Group:
    """The samples of one record as they come in."""

    line: int
    fields: Row
    times: list[str] = field(default_factory=list)
    last: int = -1
    is_broken: bool = False

    def add(self, number: str, time: str) -> None:
        """Take a sample; one that can't be marks the whole record."""
        try:
            position = whole_number("sample", number)
            if self.times and position != self.last + 1:
                raise BadEntry(f"sample {position} comes after sample {self.last}")
            checked_times(RecordedTimes("ms", samples=(time.strip(),)))
        except BadEntry:
            self.is_broken = True
            raise
        self.last = position
        self.times.append(time.strip())

    def record(self) -> EvidenceRecord:
        """Return the record."""
        times = RecordedTimes("ms", Timer.EVENT, Statistic.MEDIAN, samples=tuple(self.times))
        return stated_record(self.line, self.fields, times=times)


def _profile_record(line: int, row: Row) -> EvidenceRecord:
    fields = dict(row)
    require_fields(fields, ["kernel"])
    details = _profile_details(fields)
    text = fields.pop("trace_median_ms")
    is_timed = text not in NOT_APPLICABLE
    times = RecordedTimes(
        "ms", Timer.KERNEL_TRACE, Statistic.MEDIAN, median=text if is_timed else None
    )
    if is_timed:
        checked_times(times)
    record = stated_record(line, fields, times=times)
    if not is_timed:
        record = replace(
            record,
            outcome=Outcome.SKIPPED,
            message="the profiler gives no time for this kernel",
            times=RecordedTimes(),
        )
    return replace(record, extra={**record.extra, **details})


def _profile_details(fields: Row) -> dict[str, Plain]:
    """Take resources, grid and block out of a row. What is not given is left out, never 0."""
    details: dict[str, Plain] = {}
    resources = {
        ours: whole_number(name, text)
        for name, ours in _RESOURCES.items()
        if (text := fields.pop(name, "")) not in NOT_APPLICABLE
    }
    if resources:
        details["resources"] = resources
    for name, ours in _EXTENTS.items():
        texts = [fields.pop(f"{name}_{axis}", "") for axis in "XYZ"]
        if all(text not in NOT_APPLICABLE for text in texts):
            details[ours] = [whole_number(name, text) for text in texts]
    return details


def _read(
    content: bytes, needed: set[str], make: Callable[[int, Row], EvidenceRecord]
) -> ParsedFile:
    records: list[EvidenceRecord] = []
    problems: list[LineProblem] = []
    for line, row in _rows(content, needed, problems):
        try:
            records.append(make(line, row))
        except BadEntry as error:
            problems.append(LineProblem(line, str(error)))
    return ParsedFile(tuple(records), tuple(problems))


def _rows(
    content: bytes, needed: set[str], problems: list[LineProblem]
) -> Iterator[tuple[int, Row]]:
    """Yield rows with the line they start at; put what is no row to the problems."""
    line = 1
    try:
        # newline="" semantics: the reader itself sees line breaks within quotes.
        reader = csv.reader(text_of(content).splitlines(keepends=True), strict=True)
        header = _header(next(reader, []), needed)
        while True:
            line = reader.line_num + 1
            cells = next(reader, None)
            if cells is None:
                return
            if not cells:
                continue
            if len(cells) != len(header):
                what = f"{len(cells)} cells where the header has {len(header)}"
                problems.append(LineProblem(line, what))
                continue
            yield line, dict(zip(header, cells, strict=True))
    except BadLine as error:
        problems.append(error.problem)
    except csv.Error as error:
        problems.append(LineProblem(line, f"not valid CSV: {error}"))


def _header(names: list[str], needed: set[str]) -> list[str]:
    header = [name.strip() for name in names]
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise BadLine(1, f"column {shown(twice)} is there twice")
    missing = sorted(needed - set(header))
    if missing:
        raise BadLine(1, f"column {missing[0]} is missing")
    return header
