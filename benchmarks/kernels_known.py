"""Configs that the last runs of benchmarks/kernels.py found best, which later runs begin with.

A file is for one kind of GPU.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import astuple
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.dtypes import ELEMENT_TYPES
from tuner.domain.identity import Config
from tuner.domain.workload import Workload

COLUMNS = ("rows", "cols", "row_padding", "dtype", "cache", "implementation", "config")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a config was best: a cell and an implementation."""

    rows: int
    cols: int
    row_padding: int
    dtype: str
    cache: str
    implementation: str


class Known:
    """What the last run of each cell found best of each implementation.

    Args:
        path: A CSV file with COLUMNS, the config as tables show it; None: nothing is known or kept.
            It need not be there yet.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._configs: dict[Place, str] = {}
        if path is not None and path.is_file():
            with path.open(encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    self._configs[_place(row)] = row["config"]

    def configs(self, workload: Workload, implementation: str) -> list[Config]:
        """Return what was best with as many columns of the same size.

        Those of the same dtype come first, and of these, those with as many rows.
        """
        rows, cols = workload.shape
        item_bytes = ELEMENT_TYPES[workload.dtype].item_bytes
        found = [
            ((place.dtype != workload.dtype, place.rows != rows), text)
            for place, text in self._configs.items()
            if (place.implementation, place.cols) == (implementation, cols)
            and ELEMENT_TYPES[place.dtype].item_bytes == item_bytes
        ]
        return [_config(text) for _, text in sorted(found, key=lambda each: each[0])]

    def keep(self, workload: Workload, cache: str, configs: Mapping[str, str]) -> None:
        """Remember the best config of each implementation in a cell, in the file too."""
        rows, cols = workload.shape
        for name, text in configs.items():
            place = Place(rows, cols, workload.row_padding, workload.dtype, cache, name)
            self._configs[place] = text
        if self._path is not None:
            written = self._path.with_suffix(".new")
            with written.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(COLUMNS)
                for place in sorted(self._configs, key=_order):
                    writer.writerow([*astuple(place), self._configs[place]])
            written.replace(self._path)


def _config(text: str) -> Config:
    """Read a config as ``config_text`` writes it; none of RMSNorm's has a value that is a text."""
    return {name: json.loads(value) for name, value in (each.split("=") for each in text.split())}


def _place(row: Mapping[str, str]) -> Place:
    numbers = (int(row["rows"]), int(row["cols"]), int(row["row_padding"]))
    return Place(*numbers, row["dtype"], row["cache"], row["implementation"])


def _order(place: Place) -> tuple[str, str, int, int, int, str]:
    size = (place.cols, place.rows, place.row_padding)
    return (place.dtype, place.cache, *size, place.implementation)
