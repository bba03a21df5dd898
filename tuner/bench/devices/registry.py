"""Which devices there are, and how to open one by name. Imports a device module when it is used.

Other packages add kinds by an entry point in the group ``tuner.devices``: its name is the kind,
and it loads to an object with the two functions of `DeviceKind`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from tuner.bench.devices.base import Device
from tuner.bench.devices.base import OfflineToolchain
from tuner.bench.devices.base import Toolchain
from tuner.domain.device import DeviceFacts
from tuner.domain.device import DeviceListing
from tuner.domain.device import first_device
from tuner.errors import DeviceUnavailable
from tuner.errors import TunerError
from tuner.errors import UsageError

ENTRY_POINT_GROUP = "tuner.devices"
_DEVICE_ID = re.compile(r"([a-z][a-z0-9_]*)(?::(\d{1,4}))?")


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """Settings that devices are opened with.

    Attributes:
        cache_dir: Where compiled kernels are kept; None for nowhere.
        cpu_wave_size: Lanes of a wave on the CPU device, 32 or 64.
        compiler: Name or path of the C++ compiler of the CPU device; None finds one.
    """

    cache_dir: Path | None = None
    cpu_wave_size: int = 32
    compiler: str | None = None


class DeviceKind(Protocol):
    """What a kind of device offers to the registry."""

    def open(self, index: int, options: DeviceOptions) -> Device:
        """Open a device.

        Raises:
            DeviceUnavailable: It does not exist or can't be used.
            MissingDependency: Its vendor package is not installed.
        """

    def listings(self, options: DeviceOptions) -> list[DeviceListing]:
        """Describe each device of the kind.

        Raises:
            EnvironmentProblem: There is none, with reason and remedy.
        """

    def toolchain(self, target: str, wave_size: int, options: DeviceOptions) -> Toolchain:
        """Return what builds for a device of the kind without it.

        Called for a device whose facts name a ``target`` only; others need no such method.
        """


@dataclass(frozen=True, slots=True)
class _BuiltIn:
    open: Callable[[int, DeviceOptions], Device]
    listings: Callable[[DeviceOptions], list[DeviceListing]]
    toolchain: Callable[[str, int, DeviceOptions], Toolchain]


def open_device(device_id: str, options: DeviceOptions) -> Device:
    """Open ``cpu``, ``cuda:N``, ``hip:N`` or a device of an installed kind.

    ``cuda`` and ``hip`` alone mean the first one.

    Raises:
        UsageError: There is no such kind, or the text is not a device's name.
        DeviceUnavailable: The device does not exist or can't be used.
        MissingDependency: Its vendor package is not installed.
    """
    match = _DEVICE_ID.fullmatch(device_id)
    kinds = dict(_kinds())
    if match is None or match[1] not in kinds:
        raise UsageError(
            f"there is no device {device_id!r}",
            hint=f"kinds: {', '.join(kinds)}; tuner devices lists what is here",
        )
    return kinds[match[1]].open(int(match[2] or 0), options)


def open_toolchain(kind: str, target: str, wave_size: int, options: DeviceOptions) -> Toolchain:
    """Return what builds for a device of a kind, from what its facts say of it.

    Raises:
        UsageError: There is no such kind.
        MissingDependency: Its vendor package is not installed.
    """
    kinds = dict(_kinds())
    if kind not in kinds:
        raise UsageError(f"there is no kind of device {kind!r}", hint=f"kinds: {', '.join(kinds)}")
    return kinds[kind].toolchain(target, wave_size, options)


def list_devices(options: DeviceOptions) -> list[DeviceListing]:
    """List each device, and a line with reason and remedy for each kind that has none."""
    found: list[DeviceListing] = []
    for name, kind in _kinds():
        try:
            found += kind.listings(options)
        except TunerError as error:
            found.append(DeviceListing(name, False, reason=error.message, remedy=error.hint))
    return found


def choose_auto(options: DeviceOptions) -> str:
    """Return the first usable device: AMD, then NVIDIA, then other kinds, the CPU last.

    Raises:
        DeviceUnavailable: There is none at all.
    """
    chosen = first_device(each.device_id for each in list_devices(options) if each.usable)
    if chosen is None:
        raise DeviceUnavailable("no device is usable here", hint="tuner doctor says why")
    return chosen


def listing_of(facts: DeviceFacts) -> DeviceListing:
    """Return the line of a usable device."""
    return DeviceListing(
        facts.device_id, True, facts.architecture, facts.name, languages=dict(facts.languages)
    )


def _kinds() -> Iterator[tuple[str, DeviceKind]]:
    yield "hip", _BuiltIn(_open_amd, _list_amd, _amd_toolchain)
    yield "cuda", _BuiltIn(_open_nvidia, _list_nvidia, _nvidia_toolchain)
    yield "cpu", _BuiltIn(_open_cpu, _list_cpu, _cpu_toolchain)
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda each: each.name):
        try:
            kind: DeviceKind = point.load()
        except (ImportError, AttributeError) as error:
            yield point.name, _broken(point.name, point.value, error)
        else:
            yield point.name, kind


def _broken(name: str, target: str, error: Exception) -> DeviceKind:
    def fail() -> DeviceUnavailable:
        return DeviceUnavailable(
            f"the device plug-in {name} ({target}) can't be loaded: {error}",
            hint="mend or uninstall the package that declares it",
        )

    def open_device_of_kind(_index: int, _options: DeviceOptions) -> Device:
        raise fail()

    def listings(_options: DeviceOptions) -> list[DeviceListing]:
        raise fail()

    def toolchain(_target: str, _wave_size: int, _options: DeviceOptions) -> Toolchain:
        raise fail()

    return _BuiltIn(open_device_of_kind, listings, toolchain)


def _open_amd(index: int, options: DeviceOptions) -> Device:
    from tuner.bench.devices.amd import AmdDevice

    return AmdDevice(index, cache_dir=options.cache_dir)


def _list_amd(_options: DeviceOptions) -> list[DeviceListing]:
    from tuner.bench.devices import amd

    return [listing_of(facts) for facts in amd.all_facts()]


def _amd_toolchain(target: str, wave_size: int, options: DeviceOptions) -> Toolchain:
    from tuner.bench.devices import amd

    return amd.toolchain(target, wave_size, cache_dir=options.cache_dir)


def _open_nvidia(index: int, options: DeviceOptions) -> Device:
    from tuner.bench.devices.nvidia import NvidiaDevice

    return NvidiaDevice(index, cache_dir=options.cache_dir)


def _list_nvidia(_options: DeviceOptions) -> list[DeviceListing]:
    from tuner.bench.devices import nvidia

    return [listing_of(facts) for facts in nvidia.all_facts()]


def _nvidia_toolchain(target: str, wave_size: int, options: DeviceOptions) -> Toolchain:
    from tuner.bench.devices import nvidia

    return nvidia.toolchain(target, wave_size, cache_dir=options.cache_dir)


def _cpu_toolchain(_target: str, _wave_size: int, options: DeviceOptions) -> Toolchain:
    from tuner.bench.devices.cpu_compiler import find_compiler
    from tuner.bench.devices.cpu_compiler import HostCompiler

    compiler = HostCompiler(find_compiler(options.compiler), options.cache_dir)
    return OfflineToolchain(None, compiler.compile)


def _open_cpu(index: int, options: DeviceOptions) -> Device:
    from tuner.bench.devices.cpu import CpuDevice

    if index:
        raise DeviceUnavailable(f"cpu:{index} does not exist", hint="write cpu")
    return CpuDevice(
        wave_size=options.cpu_wave_size, cache_dir=options.cache_dir, compiler=options.compiler
    )


def _list_cpu(options: DeviceOptions) -> list[DeviceListing]:
    device = _open_cpu(0, options)
    try:
        return [listing_of(device.facts)]
    finally:
        device.close()
