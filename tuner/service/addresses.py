"""Addresses that a server listens on. Standard library only: the dashboard has no Starlette."""

from __future__ import annotations

import ipaddress

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def url_of(host: str, port: int) -> str:
    """Return the URL at which a server on an address is found."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
