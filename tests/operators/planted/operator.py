"""y = 2 * x, by one good kernel and by many that fail in a known way. For tests only."""

from __future__ import annotations

from tuner.operator import Array
from tuner.operator import Fill
from tuner.operator import Implementation
from tuner.operator import InputCase
from tuner.operator import LaunchGeometry
from tuner.operator import Operator
from tuner.operator import Tolerance

FAULTS = (
    "good",
    "second-good",
    "wrong",
    "one-element",
    "half",
    "nothing",
    "last-row",
    "nan",
    "infinite",
    "hang",
    "abort",
    "segfault",
    "out-of-bounds",
    "print",
    "eleven-times",
    "cached-answer",
    "changes-input",
    "broken-source",
    "counts",
    "leaves-count",
)


def implementation(fault: str) -> Implementation:
    """Return the kernel with a fault."""
    return Implementation(
        name=fault,
        language="hip",
        source="broken.hip" if fault == "broken-source" else "planted.hip",
        entry="planted_" + fault.replace("-", "_"),
        arguments=("x", "y", *(("count",) if "count" in fault else ()), "rows", "cols"),
        parameters=lambda _dims: {"BLOCK": (32, 64)},
        default=lambda _dims, _facts: {"BLOCK": 64},
        geometry=lambda config, dims: LaunchGeometry((dims["rows"], 1, 1), int(config["BLOCK"])),
    )


OPERATOR = Operator(
    name="planted",
    dims=("rows", "cols"),
    arrays=(
        Array("x", ("rows", "cols")),
        Array("y", ("rows", "cols"), role="output"),
        Array("count", lambda dims: (dims["rows"], 2), role="scratch", dtype="uint64"),
    ),
    tolerances={"float32": Tolerance(absolute=1e-6, relative=1e-6)},
    cases=(
        InputCase("normal", {"x": Fill("normal")}),
        InputCase("uniform", {"x": Fill("uniform")}),
    ),
    reference="twice",
    bytes_moved=lambda dims, item: 2 * dims["rows"] * dims["cols"] * item,
    operations=lambda dims: dims["rows"] * dims["cols"],
    implementations=tuple(implementation(fault) for fault in FAULTS),
)
