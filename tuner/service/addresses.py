"""Addresses that a server listens on. Standard library only: the dashboard has no Starlette."""

from __future__ import annotations

import ipaddress
import socket
import threading

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_LOOK_UP_S = 1.0


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    bare = host.strip("[]")
    return bare == "localhost" or (is_ip(bare) and ipaddress.ip_address(bare).is_loopback)


def is_ip(host: str) -> bool:
    """Tell whether a host is an address in figures, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def own_names() -> tuple[str, ...]:
    """Return the names that this machine has: as it is called, short, and with its domain.

    The last one may take a question to a name server, which is not waited for for long.
    """
    name = socket.gethostname()
    found = [name, name.partition(".")[0]]
    asking = threading.Thread(target=lambda: found.append(socket.getfqdn(name)), daemon=True)
    asking.start()
    asking.join(_LOOK_UP_S)
    return tuple(dict.fromkeys(each.lower() for each in found if each and not is_ip(each)))


def url_of(host: str, port: int) -> str:
    """Return the URL at which a server on an address is found."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
