"""The command line of benchmarks/kernels.py, and the cells that it asks for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tuner.domain.workload import parse_shape
from tuner.domain.workload import Workload
from tuner.errors import UsageError
from tuner.operator import Operator

COLUMNS = (
    *(64, 128, 256, 512, 1023, 1024, 2047, 4096, 5120, 8192, 16384),
    *(32768, 65536, 131072, 262144),
)
LARGE_ELEMENTS = 64 * 2**20
FEW_ROWS = 1024
DTYPES = ("float32", "bfloat16", "float16")


def parse(description: str | None, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options; what contradicts itself ends the program with a message."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    cells = parser.add_mutually_exclusive_group(required=True)
    cells.add_argument(
        "--cells",
        choices=("large", "hot", "cold"),
        action="append",
        help="64 M elements with a cold cache, or 1024 rows",
    )
    cells.add_argument("--shape", type=_shape, action="append", metavar="RxC")
    parser.add_argument("--cache", choices=("hot", "cold"), help="for --shape")
    parser.add_argument("--columns", type=int, action="append", help="of --cells; default: all 15")
    parser.add_argument("--dtype", choices=DTYPES, action="append", help="default: all three")
    parser.add_argument(
        "--row-padding", type=int, default=0, help="elements between a row's end and the next row"
    )
    parser.add_argument(
        "--peers", choices=("all", "none"), default="all", help="none: only copies are compared"
    )
    parser.add_argument("--until-s", type=float, default=1e9, help="begin no cell after so long")
    parser.add_argument(
        "--known", type=Path, help="CSV of best configs to begin with; this run's are added to it"
    )
    parser.add_argument("--operator", type=Path, default=Path("kernels/rmsnorm"))
    parser.add_argument("--cache-dir", type=Path, default=Path("/tmp/kernels-benchmark"))
    parser.add_argument("--output", type=Path, required=True, help="without suffix")
    options = parser.parse_args(arguments)
    if bool(options.shape) != bool(options.cache):
        parser.error("--shape and --cache go together")
    if options.shape and options.columns:
        parser.error("--columns belongs to --cells")
    return options


def cells(options: argparse.Namespace, operator: Operator) -> list[tuple[Workload, str]]:
    """Return what is to be measured, each with the state of the cache, in order."""
    groups = [(options.cache, options.shape)] if options.shape else []
    for kind in options.cells or ():
        shapes = [(_rows(kind, cols), cols) for cols in options.columns or COLUMNS]
        groups.append(("hot" if kind == "hot" else "cold", shapes))
    return [
        (operator.workload(shape, dtype, row_padding=options.row_padding), cache)
        for cache, shapes in groups
        for dtype in options.dtype or DTYPES
        for shape in shapes
    ]


def _shape(text: str) -> tuple[int, ...]:
    try:
        return parse_shape(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from error


def _rows(kind: str, cols: int) -> int:
    return LARGE_ELEMENTS // cols if kind == "large" else FEW_ROWS
