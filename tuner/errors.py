"""Every error this project raises on purpose. Imports nothing of the project but its words.

Each carries a one-line message, a ``hint`` that says what to do, and the exit code of the CLI.
"""

from __future__ import annotations

from tuner.ways import COMMAND_WORDS
from tuner.ways import in_words
from tuner.ways import Words


class TunerError(Exception):
    """Base of all errors meant for the user's eyes.

    Args:
        message: One line that names the thing that is wrong.
        hint: One line that says what to do about it, or an empty string. What is done in another
            way on another surface is named in it by a ``Way``.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self._hint = hint

    @property
    def hint(self) -> str:
        """What to do about it, in the words of the command line."""
        return self.hint_in(COMMAND_WORDS)

    def hint_in(self, words: Words) -> str:
        """Return what to do about it, in the words of a surface."""
        return in_words(self._hint, words)


class NoValidConfig(TunerError):
    """A study ended and not one trial was valid."""


class UsageError(TunerError):
    """The user's words or files are wrong; nothing was stored."""

    exit_code = 2


class BrokenOperator(UsageError):
    """The files of an operator are not as they must be. Whoever asks for it elsewhere did no wrong.

    Args:
        message: One line that names the file.
        hint: What to do about it, or an empty string.
        operator: Its name; "" where a folder holds none.
    """

    def __init__(self, message: str, *, hint: str = "", operator: str = "") -> None:
        super().__init__(message, hint=hint)
        self.operator = operator


class Conflict(UsageError):
    """What is asked for does not go with what is there already; nothing was stored."""


class EnvironmentProblem(TunerError):
    """The machine, a package or the database is not fit for the command."""

    exit_code = 3


class DeviceUnavailable(EnvironmentProblem):
    """A device does not exist or can't be used here."""


class MissingDependency(EnvironmentProblem):
    """An optional package is needed and is not installed."""


class DatabaseProblem(EnvironmentProblem):
    """The database can't be opened, read or written. The file is left as it was.

    Args:
        message: One line that names the database.
        hint: What to do about it, or an empty string.
        what: What the matter is, in words that don't tell where the database is; or "".
    """

    def __init__(self, message: str, *, hint: str = "", what: str = "") -> None:
        super().__init__(message, hint=hint)
        self.what = what


class SchemaMismatch(DatabaseProblem):
    """The database has an older, newer or foreign schema. The file is left as it was."""


class NotFound(TunerError):
    """What was asked for is not in the database or on disk."""

    exit_code = 4


class NoDatabase(NotFound):
    """There is no database where one should be, or nothing in it."""


class BudgetExhausted(TunerError):
    """A deadline passed before the work was done."""

    exit_code = 124


class TrialError(Exception):
    """A trial failed. Raised in the bench half only; ``bench.trial`` turns it into an outcome.

    Args:
        message: One line for the trial's row.
        log: Longer text (compiler output, stack trace) for the trial's row.
    """

    def __init__(self, message: str, *, log: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.log = log


class BuildFailed(TrialError):
    """The compiler refused the kernel."""


class LaunchFailed(TrialError):
    """The device refused the launch (geometry, arguments)."""


class DeviceFault(TrialError):
    """The kernel broke the device context (illegal address); the process must be given up."""


class OutOfResources(TrialError):
    """The kernel asks for more registers, shared memory or threads than the device has."""


class OutOfDeviceMemory(TrialError):
    """The device has not enough memory for the workload's buffers."""


class BadTimerValue(TrialError):
    """The device timer gave a zero, negative or non-finite duration."""


class WrongResult(TrialError):
    """The output differs from the reference by more than the tolerance."""


class NonFiniteResult(WrongResult):
    """The output has a NaN or an infinity where the reference has none."""


class UnstableResult(WrongResult):
    """The output was right before timing and wrong after it."""
