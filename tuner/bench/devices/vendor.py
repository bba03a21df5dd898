"""Vendor libraries: imported only when a device needs them, and every status code checked."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NoReturn

from tuner.errors import DeviceFault
from tuner.errors import LaunchFailed
from tuner.errors import MissingDependency
from tuner.errors import TrialError


def import_vendor(module: str, package: str, extra: str) -> Any:
    """Import a vendor module.

    Args:
        module: Dotted name, e.g. ``cuda.bindings.driver``.
        package: Name of the distribution that holds it.
        extra: Extra of this project that installs it.

    Raises:
        MissingDependency: The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(
            f"{package} is not installed: {error}", hint=f"pip install 'tuner[{extra}]'"
        ) from error


def why_no_triton() -> str:
    """Return "" where Triton is installed, else the reason. Does not import it (0.6 s)."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed (pip install 'tuner[triton]')"
    return ""


def text_of(value: Any) -> str:
    """Return a C string as text, whatever a binding gives it as."""
    content = value if isinstance(value, bytes) else str(value).encode()
    return content.split(b"\0", 1)[0].decode(errors="replace")


class CheckedCalls:
    """Calls the functions of a driver library and turns bad status codes into trial errors.

    Both vendors' bindings return a tuple with the status first. A fault is sticky, as it is in
    the driver: once a kernel has broken the context, every later call raises `DeviceFault`, so
    that no later configuration is blamed for it.

    Args:
        module: The binding module, e.g. ``cuda.bindings.driver``.
        errors: Type to raise, by name of the status code; others raise `LaunchFailed`.
        describe: Returns the vendor's text for a status code.
    """

    def __init__(
        self,
        module: Any,
        errors: Mapping[str, type[TrialError]],
        describe: Callable[[Any], str],
    ) -> None:
        self._module = module
        self._errors = errors
        self._describe = describe
        self.fault = ""

    def __call__(self, name: str, *arguments: Any) -> Any:
        """Call a function and return what it gives beside the status.

        Raises:
            DeviceFault: The context is broken, now or since an earlier call.
            OutOfDeviceMemory: The device has not enough memory.
            OutOfResources: The launch needs more than the device has.
            LaunchFailed: Anything else the driver refuses.
        """
        self.raise_if_broken()
        status, *payload = getattr(self._module, name)(*arguments)
        if status:
            self.fail(name, status)
        if len(payload) == 1:
            return payload[0]
        return tuple(payload) or None

    def quiet(self, name: str, *arguments: Any) -> None:
        """Call a clean-up function; a broken context makes it pointless and its status moot."""
        if not self.fault:
            getattr(self._module, name)(*arguments)

    def raise_if_broken(self) -> None:
        """Raise DeviceFault when an earlier call found the context broken."""
        if self.fault:
            raise DeviceFault(f"the device context was broken earlier: {self.fault}")

    def fail(self, name: str, status: Any) -> NoReturn:
        """Raise the error that belongs to a status code."""
        code = str(getattr(status, "name", status))
        kind = self._errors.get(code, LaunchFailed)
        message = f"{name}: {code}: {self._describe(status)}"
        if kind is DeviceFault:
            self.fault = message
        raise kind(message)
