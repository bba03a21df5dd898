"""Lines to copy that use a config: through Python, in a Triton call, in a HIP launch."""

from __future__ import annotations

from collections.abc import Mapping

from tuner import api
from tuner.domain.identity import Plain
from tuner.domain.workload import shape_text

# Say which device it was built for, or are of the program that measured: not the caller's.
_NOT_THE_CALLERS = ("target=", "--pre-include", "-I", "--gpu-architecture", "--offload-arch")


def python_snippet(answer: Mapping[str, Plain], kind: str, name: str) -> str:
    """Return a question to the database that gives the same answer.

    Args:
        answer: As ``tuner best --format json`` has it.
        kind: ``arch`` or ``device``, or "" where neither was named.
        name: Which one.
    """
    asked = answer["asked"]
    words = [repr(asked["operator"]), repr(shape_text(asked["shape"])), f"dtype={asked['dtype']!r}"]
    if kind:
        words.append(f"{'architecture' if kind == 'arch' else 'device'}={name!r}")
    # An architecture is matched by it anyway.
    if answer["match"] != "exact" and kind != "arch":
        words.append(f"match={answer['match']!r}")
    return "\n".join(
        [
            "import tuner",
            "",
            "answer = tuner.best(",
            f"    {', '.join(words)}",
            ")",
            "config = dict(answer.best.config)",
            f"# {answer['best']['config']!r}",
        ]
    )


def triton_snippet(launch: api.Launch) -> str:
    """Return a launch of the Triton kernel with its constants and options."""
    options = [each for each in launch.options if not each.startswith(_NOT_THE_CALLERS)]
    grid = tuple((launch.geometry or {}).get("grid", ("...",)))
    lines = ["    ...,  # its arguments", *(f"    {each}," for each in options)]
    return "\n".join([_origin("#", launch), f"{launch.entry}[{_tuple(grid)}](", *lines, ")"])


def hip_snippet(launch: api.Launch) -> str:
    """Return a launch of the HIP kernel, and the options that it was built with."""
    options = [each for each in launch.options if not each.startswith(_NOT_THE_CALLERS)]
    geometry = launch.geometry or {"grid": ["..."], "threads": "...", "shared_bytes": 0}
    grid = ", ".join(str(size) for size in geometry["grid"])
    how = f"dim3({grid}), dim3({geometry['threads']}), {geometry['shared_bytes']}"
    return "\n".join(
        [
            _origin("//", launch),
            f"// built with {' '.join(options) or 'no options'}",
            f"{launch.entry}<<<{how}>>>(/* its arguments */);",
        ]
    )


def _origin(sign: str, launch: api.Launch) -> str:
    time = api.figure_text(launch.median_us)
    return f"{sign} {launch.implementation}, {time} us a launch (trial {launch.trial_id})"


def _tuple(values: tuple[Plain, ...]) -> str:
    return f"({', '.join(str(each) for each in values)}{',' if len(values) == 1 else ''})"
