"""Readings and driver facts from the vendors' monitoring interfaces. Everything is optional."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from typing import TypeVar

from tuner.domain.device import Telemetry
from tuner.domain.environment import unknown

_Value = TypeVar("_Value")
_PCI_DEVICES = Path("/sys/bus/pci/devices")


class NvmlReader:
    """NVIDIA's management library for one device, found by its PCI address.

    Not by index: CUDA_VISIBLE_DEVICES and CUDA's own ordering renumber devices, NVML's don't.

    Args:
        bus_id: PCI address as CUDA gives it, ``0000:19:00.0``.
        nvml: The ``pynvml`` module of nvidia-ml-py, or None where it is not installed.
    """

    def __init__(self, bus_id: str, nvml: Any | None) -> None:
        self._nvml = nvml
        self._handle: Any = None
        self.reason = "nvidia-ml-py is not installed"
        if nvml is None:
            return
        try:
            nvml.nvmlInit()
            self._handle = nvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
            self.reason = ""
        except nvml.NVMLError as error:
            self.reason = f"NVML: {error}"

    def read(self, get: Callable[[Any, Any], _Value]) -> _Value | None:
        """Return ``get(nvml, handle)``, or None where the device does not tell."""
        if self._nvml is None or self._handle is None:
            return None
        try:
            return get(self._nvml, self._handle)
        except (self._nvml.NVMLError, AttributeError, UnicodeDecodeError):
            return None

    def field(self, get: Callable[[Any, Any], Any]) -> str:
        """Return a reading as an environment field."""
        value = self.read(get)
        if value is None:
            return unknown(self.reason or "NVML does not tell")
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def telemetry(self) -> Telemetry:
        """Read clocks (MHz), temperature (°C) and power (W)."""
        clock = self.read(lambda m, h: m.nvmlDeviceGetClockInfo(h, m.NVML_CLOCK_SM))
        memory = self.read(lambda m, h: m.nvmlDeviceGetClockInfo(h, m.NVML_CLOCK_MEM))
        heat = self.read(lambda m, h: m.nvmlDeviceGetTemperature(h, m.NVML_TEMPERATURE_GPU))
        power_mw = self.read(lambda m, h: m.nvmlDeviceGetPowerUsage(h))
        return Telemetry(
            clock_mhz=None if clock is None else float(clock),
            memory_clock_mhz=None if memory is None else float(memory),
            temperature_c=None if heat is None else float(heat),
            power_w=None if power_mw is None else power_mw / 1000.0,
        )

    def context(self) -> dict[str, str]:
        """Return what describes the device's state but does not identify it."""

        def others(m: Any, h: Any) -> int:
            own = os.getpid()
            return sum(each.pid != own for each in m.nvmlDeviceGetComputeRunningProcesses(h))

        return {
            "vbios": self.field(lambda m, h: m.nvmlDeviceGetVbiosVersion(h)),
            "max_sm_clock_mhz": self.field(
                lambda m, h: m.nvmlDeviceGetMaxClockInfo(h, m.NVML_CLOCK_SM)
            ),
            "power_limit_w": self.field(lambda m, h: m.nvmlDeviceGetEnforcedPowerLimit(h) / 1000.0),
            "other_compute_processes": self.field(others),
            "persistence_mode": self.field(lambda m, h: m.nvmlDeviceGetPersistenceMode(h)),
            "ecc": self.field(lambda m, h: m.nvmlDeviceGetEccMode(h)[0]),
        }


def nvidia_driver(nvml: NvmlReader, proc: Path = Path("/proc/driver/nvidia/version")) -> str:
    """Return the NVIDIA driver's version, from NVML or else from the kernel module."""
    version = nvml.read(lambda m, _h: m.nvmlSystemGetDriverVersion())
    if version is not None:
        return version.decode() if isinstance(version, bytes) else str(version)
    found = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", _text(proc) or "")
    return found.group() if found else unknown(f"{nvml.reason}; {proc} can't be read")


def pci_model(bus_id: str, devices: Path = _PCI_DEVICES) -> str:
    """Return ``vendor:device`` of the model at a PCI address, e.g. ``10de:2335``."""
    folder = devices / bus_id.lower()
    vendor, device = _text(folder / "vendor"), _text(folder / "device")
    if vendor is None or device is None:
        return unknown(f"{folder} can't be read")
    return f"{vendor.removeprefix('0x')}:{device.removeprefix('0x')}"


class AmdSysfsReader:
    """What the amdgpu kernel driver shows of one device under /sys.

    Needs no library and no rights. File names and units are those of the kernel's hwmon and
    amdgpu documentation; not read on AMD hardware yet.

    Args:
        bus_id: PCI address, ``0000:03:00.0``.
        devices: Where the kernel lists PCI devices.
    """

    def __init__(self, bus_id: str, devices: Path = _PCI_DEVICES) -> None:
        self._folder = devices / bus_id.lower()

    def telemetry(self) -> Telemetry:
        """Read clocks (MHz), temperature (°C) and power (W)."""
        power_uw = self._number("power1_average")
        if power_uw is None:
            power_uw = self._number("power1_input")
        return Telemetry(
            clock_mhz=_scaled(self._number("freq1_input"), 1e-6),
            memory_clock_mhz=_scaled(self._number("freq2_input"), 1e-6),
            temperature_c=_scaled(self._number("temp1_input"), 1e-3),
            power_w=_scaled(power_uw, 1e-6),
        )

    def context(self) -> dict[str, str]:
        """Return what describes the device's state but does not identify it."""
        limit_w = _scaled(self._number("power1_cap"), 1e-6)
        level = _text(self._folder / "power_dpm_force_performance_level")
        return {
            "vbios": _text(self._folder / "vbios_version") or unknown("sysfs does not tell"),
            "power_limit_w": unknown("sysfs does not tell") if limit_w is None else str(limit_w),
            "performance_level": level or unknown("sysfs does not tell"),
        }

    def _number(self, name: str) -> float | None:
        for monitor in sorted(self._folder.glob("hwmon/hwmon*")):
            text = _text(monitor / name)
            if text is not None:
                try:
                    return float(text)
                except ValueError:
                    return None
        return None


def amdgpu_driver(module: Path = Path("/sys/module/amdgpu")) -> str:
    """Return the amdgpu driver's version; one from the kernel tree has the kernel's own."""
    if not module.is_dir():
        return unknown(f"{module} does not exist")
    return f"amdgpu {_text(module / 'version') or 'of kernel ' + os.uname().release}"


def amd_last_level_cache_bytes(
    bus_id: str, nodes: Path = Path("/sys/class/kfd/kfd/topology/nodes")
) -> int:
    """Return the size of a device's largest cache as the kernel lists it, 0 where it does not.

    HIP's own figure is the L2 alone; RDNA's and CDNA 3's last level is the Infinity Cache.
    """
    found = re.fullmatch(r"([0-9a-f]+):([0-9a-f]+):([0-9a-f]+)\.([0-9a-f])", bus_id.lower())
    if found is None:
        return 0
    domain, bus, slot, function = (int(part, 16) for part in found.groups())
    location = bus << 8 | slot << 3 | function
    for node in nodes.glob("*"):
        properties = _properties(node / "properties")
        if (properties.get("location_id"), properties.get("domain", 0)) == (location, domain):
            caches = [_properties(each).get("size", 0) for each in node.glob("caches/*/properties")]
            return 1024 * max(caches, default=0)
    return 0


def _properties(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in (_text(path) or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
