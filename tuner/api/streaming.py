"""CSV that is written as it is read, so that a list of any length needs little memory."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from tuner.domain.identity import Plain


def csv_chunks(rows: Iterable[Mapping[str, Plain]], columns: Sequence[str]) -> Iterator[str]:
    """Yield CSV with a header, in pieces of many rows; the text of ``tuner export`` to the byte."""
    from tuner.report.csv_text import csv_chunks as chunks

    return chunks(rows, columns)
