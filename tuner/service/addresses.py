"""Addresses that a server listens on. Standard library only: the dashboard has no Starlette."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterable

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_LOOK_UP_S = 1.0


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    bare = host.strip("[]")
    return bare == "localhost" or (is_ip(bare) and ipaddress.ip_address(bare).is_loopback)


def address_of(host: str) -> str:
    """Return the address in figures that a host means on this machine.

    Raises:
        OSError: It means none.
    """
    bare = host.strip("[]")
    if is_ip(bare):
        return bare
    return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])


def called_as(address: str, names: Iterable[str]) -> str:
    """Return by what clients may call a server, in words.

    Args:
        address: That it listens on, in figures.
        names: That it answers to. Which of them lead to the address is for others to know: what a
            name means on this machine is often another thing than elsewhere.
    """
    listed = ", ".join(sorted(names))
    if is_loopback(address):
        return ", ".join(filter(None, (listed, address, "from this machine only")))
    if not is_any(address):
        found, there = address, "there"
    elif ":" in address:
        found, there = "any of its IPv6 addresses, none of its IPv4 ones", "to one"
    else:
        found, there = "any of its IPv4 addresses", "to one"
    return f"{found}, and to {listed} where that leads {there}" if listed else found


def is_any(address: str) -> bool:
    """Tell whether an address stands for all of a machine."""
    return ipaddress.ip_address(address).is_unspecified


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
