"""Tells whether a profiler's kernel name is that of an entry point."""

from __future__ import annotations

import re

_MANGLED = re.compile(r"_Z(?:N[rVK]*)?(?=\d)")
_LENGTH = re.compile(r"\d{1,4}")
# Triton before 3.0 added each argument's index and its specialisation: name_0d1d2d3de.
_TRITON_SUFFIX = re.compile(r"_0[0-9cde]*")
_CLONE = re.compile(r"(\.kd| ?\[clone [^\]]*\])+$")
# How the HIP runtime names the kernels with which it copies and fills memory.
_COPY = re.compile(r"__amd_rocclr_copy\w*|.*\bmemcpy\w*", re.IGNORECASE)
_FILL = re.compile(r"__amd_rocclr_fill\w*|.*\bmemset\w*", re.IGNORECASE)


def is_kernel(name: str, entry: str) -> bool:
    """Tell whether a kernel name means an entry point: plain, mangled, demangled or Triton's."""
    found = base_name(name)
    if found == entry:
        return True
    suffix = found.removeprefix(entry)
    return suffix != found and _TRITON_SUFFIX.fullmatch(suffix) is not None


def is_copy(name: str) -> bool:
    """Tell whether the runtime copies memory by this kernel."""
    return _COPY.fullmatch(base_name(name)) is not None


def is_fill(name: str) -> bool:
    """Tell whether the runtime fills memory by this kernel."""
    return _FILL.fullmatch(base_name(name)) is not None


def base_name(name: str) -> str:
    """Return a kernel's name without return type, namespaces, template and call arguments."""
    text = _CLONE.sub("", name.strip())
    if text.startswith("_Z"):
        return _mangled_name(text)
    text = _without_arguments(text)
    return re.split(r"::|\s", text)[-1].lstrip("*&")


def _mangled_name(text: str) -> str:
    """Return the last name of an Itanium-mangled one: ``_ZN2ns4nameIfEvPf`` gives ``name``."""
    start = _MANGLED.match(text)
    if start is None:
        return text
    at, found = start.end(), text
    while length := _LENGTH.match(text, at):
        end = length.end() + int(length[0])
        if end > len(text):
            break
        found, at = text[length.end() : end], end
    return found


def _without_arguments(text: str) -> str:
    """Cut what stands in (...) and <...>, also nested; ``(anonymous namespace)`` is cut too."""
    kept: list[str] = []
    depth = 0
    for character in text:
        if character in "(<":
            depth += 1
        elif character in ")>":
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(character)
    return "".join(kept).strip()
