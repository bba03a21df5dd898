"""What several verbs need: operators, the database, workers, source hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.errors import BrokenOperator
from tuner.errors import NotFound
from tuner.errors import UsageError
from tuner.operator import load_operator
from tuner.operator import Operator
from tuner.resources import operator_dirs
from tuner.settings import Settings
from tuner.ways import Way

if TYPE_CHECKING:
    from tuner.store import Store
    from tuner.worker.pool import DeviceWorker


def find_operator(name: str, settings: Settings) -> Operator:
    """Load an operator by name, from the setting's folders or the shipped ones.

    Raises:
        NotFound: There is none of that name.
        BrokenOperator: Its files are not as they must be, or a folder holds no operator.
    """
    directories = operator_dirs(settings.operators)
    if name not in directories:
        raise NotFound(
            f"no operator {name!r}",
            hint=f"there are {', '.join(directories)}; {Way.ADD_OPERATORS}",
        )
    return load_operator(directories[name])


def operator_if_known(name: str, settings: Settings) -> Operator | None:
    """Return an operator, or None where this machine hasn't got it, or not a sound one."""
    try:
        return find_operator(name, settings)
    except (NotFound, UsageError):
        return None


def all_operators(settings: Settings) -> tuple[list[Operator], list[BrokenOperator]]:
    """Load every operator there is, by name: return the sound ones, and the faults of others.

    Raises:
        BrokenOperator: A folder of the settings holds no operator.
    """
    sound, faults = [], []
    for _, path in sorted(operator_dirs(settings.operators).items()):
        try:
            sound.append(load_operator(path))
        except BrokenOperator as error:
            faults.append(error)
    return sound, faults


def source_hashes(operator: Operator) -> dict[str, str]:
    """Return today's source hash of each implementation."""
    return {each.name: operator.source(each).source_hash for each in operator.implementations}


def open_database(settings: Settings, *, create: bool, writable: bool) -> Store:
    """Open the results database of the settings. Use as a context manager.

    Raises:
        NotFound: There is none and ``create`` is false.
        UsageError: It is to be created in a folder that was named and does not exist.
        DatabaseProblem: It can't be used.
    """
    from tuner.store import open_store

    is_default = "db" not in settings.model_fields_set
    return open_store(settings.db, create=create, writable=writable, make_folder=is_default)


def open_worker(device_id: str, settings: Settings) -> DeviceWorker:
    """Start a worker with a device. Use as a context manager.

    Raises:
        DeviceUnavailable: The device can't be used, with the reason.
    """
    from tuner.worker.pool import DeviceWorker

    return DeviceWorker(device_id, settings)


def device_for(flag: str | None, file: str, settings: Settings) -> str:
    """Return the device to use: flag > study file (unless auto) > setting."""
    if flag is not None:
        return flag
    return settings.device if file == "auto" else file
