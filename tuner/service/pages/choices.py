"""What the forms of the pages offer."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from tuner import api
from tuner.domain.identity import Plain
from tuner.settings import Settings

MAX_ENVIRONMENTS = 100
_OF_GPUS = ("gfx", "sm_")


@dataclass(frozen=True, slots=True)
class LookupChoices:
    """What can be asked for.

    Attributes:
        operators: Names.
        dtypes: Of all of them.
        shape_hint: Dimensions of each operator, by name: ``rows x cols``.
        architectures: Measured on, those of GPUs first, else the newest first.
        devices: That jobs can run on.
    """

    operators: tuple[str, ...]
    dtypes: tuple[str, ...]
    shape_hint: str
    architectures: tuple[str, ...]
    devices: tuple[str, ...]

    def targets(self, asked: str | None) -> list[tuple[str, str]]:
        """Return what an answer can be for: value and words of each.

        Args:
            asked: For what it was asked, which is among them whatever it is; None where nothing
                was asked yet.
        """
        found = {f"arch:{name}": f"any {name}" for name in self.architectures}
        found |= {f"device:{name}": f"device {name}, exactly" for name in self.devices}
        if asked == "" or not found:
            found[""] = "this machine's device, exactly"
        elif asked is not None and asked not in found:
            kind, _, name = asked.partition(":")
            found[asked] = f"device {name}, exactly" if kind == "device" else f"any {name}"
        return list(found.items())


def lookup_choices(
    settings: Settings, devices: Sequence[Mapping[str, Plain]] | None = None
) -> LookupChoices:
    """Return what the form of a lookup offers.

    Args:
        settings: Say which database and operators.
        devices: That jobs can run on; None reads them.
    """
    rows = api.list_operators(settings)
    environments = api.page_environments(settings, MAX_ENVIRONMENTS).items
    architectures = dict.fromkeys(each["architecture"] for each in environments)
    dims = dict.fromkeys(" x ".join(row["dims"]) for row in rows)
    return LookupChoices(
        operators=tuple(dict.fromkeys(row["operator"] for row in rows)),
        dtypes=tuple(dict.fromkeys(dtype for row in rows for dtype in row["dtypes"])),
        shape_hint=", ".join(dims),
        architectures=tuple(sorted(architectures, key=lambda name: not name.startswith(_OF_GPUS))),
        devices=device_names(settings) if devices is None else _names(devices),
    )


def device_names(settings: Settings) -> tuple[str, ...]:
    """Return the devices that some process takes jobs for."""
    return _names(api.list_job_devices(settings))


def _names(devices: Sequence[Mapping[str, Plain]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each["device_id"] for each in devices))
