"""Says why a trial was cut off, for its row."""

from __future__ import annotations

from tuner.errors import TunerError

_MAX_CHARACTERS = 500


def why_interrupted(error: BaseException) -> str:
    """Return in one line, and in words, what ended the run while a trial ran."""
    text = str(error).partition("\n")[0].strip()
    if isinstance(error, KeyboardInterrupt):
        return "stopped by the user"
    if text and (isinstance(error, TunerError) or not isinstance(error, Exception)):
        return text[:_MAX_CHARACTERS]
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"the run ended by an internal error: {what}"[:_MAX_CHARACTERS]
