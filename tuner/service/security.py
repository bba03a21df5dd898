"""Who may do what: the token, the pages' session, and which hosts and origins are answered.

A write needs ``Authorization: Bearer TOKEN`` or the session that ``POST /login`` gives for the
token. On a loopback address reads are free; anywhere else they need the same. Browsers are kept
from writing for another site by the cookie's ``SameSite=Strict``, by the ``Origin`` and
``Sec-Fetch-Site`` headers, and from reading through a rebound name by the ``Host`` header: it must
hold a name that is known here. An address in figures is no name that anybody could lead elsewhere,
so where others can reach the service, it is called by any: which ones lead here is not always known
here, as in a container.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from tuner.errors import UsageError
from tuner.service.addresses import called_as
from tuner.service.addresses import is_any
from tuner.service.addresses import is_ip
from tuner.service.addresses import is_loopback
from tuner.service.addresses import LOOPBACK_NAMES
from tuner.service.addresses import own_names

SESSION_COOKIE = "tuner_session"
SESSION_S = 12 * 3600
MIN_TOKEN_CHARACTERS = 16
READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Answered without a token wherever the service listens: a container's health check has none.
OPEN_PATHS = ("/healthz", "/readyz", "/login", "/static/")
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_PORT = re.compile(r"(:[0-9]*)?")
_MAX_SHOWN = 100
HOW_TO_SET_ONE = "start the service with --token-file FILE, or set TUNER_TOKEN"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    error: str
    message: str
    hint: str = ""
    retry_after_s: int = 0


class Access:
    """Decides on each request by its headers alone.

    Args:
        token: What a client must know to write; None refuses all writes.
        address: That the service listens on, in figures.
        allowed_hosts: Further names that clients may call it by; several may share a text, with
            commas between them.

    Raises:
        UsageError: The token is too short, there is none and others can reach the address, or what
            is allowed is no name.
    """

    def __init__(self, token: str | None, address: str, allowed_hosts: Iterable[str] = ()) -> None:
        self.is_loopback = is_loopback(address)
        if token is None and not self.is_loopback:
            raise UsageError(
                f"without a token the service listens on this machine only, not on {address}",
                hint=HOW_TO_SET_ONE + "; or leave --host out",
            )
        if token is not None and (len(token) < MIN_TOKEN_CHARACTERS or not token.isascii()):
            raise UsageError(
                f"the token must be at least {MIN_TOKEN_CHARACTERS} ASCII characters",
                hint="make one with: openssl rand -hex 32",
            )
        self._token = None if token is None else token.encode()
        # Derived, so that a cookie that leaks does not give the token away, and a new token
        # ends all sessions.
        self._session_key = hashlib.sha256(b"tuner session\0" + (self._token or b"")).digest()
        self._address = address
        self._names = {_allowed(name) for each in allowed_hosts for name in each.split(",")}
        if address in LOOPBACK_NAMES or is_any(address):
            self._names.add("localhost")
        if not self.is_loopback:
            self._names.update(own_names())
        self._hosts = LOOPBACK_NAMES.union((_bare(address),), self._names)

    @property
    def called(self) -> str:
        """By what clients may call the service, for whoever starts it."""
        return called_as(self._address, self._names)

    @property
    def has_token(self) -> bool:
        """Whether anybody can write at all."""
        return self._token is not None

    def knows(self, token: str) -> bool:
        """Tell whether this is the token, in time that does not depend on where it differs."""
        given = token.encode("utf-8", "surrogatepass")
        return self._token is not None and hmac.compare_digest(given, self._token)

    def new_session(self, now_s: float | None = None) -> str:
        """Return the value of a session's cookie: its end, a nonce, and our signature."""
        end = int((time.time() if now_s is None else now_s) + SESSION_S)
        payload = f"{end}.{secrets.token_urlsafe(12)}"
        return f"{payload}.{self._signature(payload)}"

    def is_session(self, value: str, now_s: float | None = None) -> bool:
        """Tell whether a cookie's value is a session of ours that has not ended."""
        payload, _, signature = value.rpartition(".")
        given = signature.encode("utf-8", "surrogatepass")
        if self._token is None or not hmac.compare_digest(given, self._signature(payload).encode()):
            return False
        return int(payload.partition(".")[0]) > (time.time() if now_s is None else now_s)

    def is_known(self, headers: Headers) -> bool:
        """Tell whether a request carries the token or a session."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.knows(token.strip()):
            return True
        return self.is_session(_cookie(headers))

    def refusal(self, method: str, path: str, headers: Headers) -> Refusal | None:
        """Return why a request is refused, or None where it is to be answered."""
        asked = _bare(headers.get("host", ""))
        if asked not in self._hosts and (self.is_loopback or not is_ip(asked)):
            return self._host_refusal(asked)
        if method in READ_METHODS:
            is_open = self.is_loopback or path.startswith(OPEN_PATHS)
            return None if is_open or self.is_known(headers) else _unauthorized()
        if not _is_same_origin(headers):
            return Refusal(
                403, "origin_not_allowed", "another site's page can't write here",
                "send no Origin header, or that of the service",
            )  # fmt: skip
        if self._token is None:
            return Refusal(403, "no_token", "the service has no token, so it takes no writes",
                           HOW_TO_SET_ONE)  # fmt: skip
        return None if path == "/login" or self.is_known(headers) else _unauthorized()

    def _host_refusal(self, asked: str) -> Refusal:
        known = f"the service is not known as {asked[:_MAX_SHOWN]!r}"
        way = "by its IP address or its host name"
        if self.is_loopback:
            way = "localhost" if self._address in LOOPBACK_NAMES else self._address
        return Refusal(
            403, "host_not_allowed", known if asked else "the request names no host",
            f"call it {way}; whoever runs it can allow a name: tuner serve --allowed-host NAME",
        )  # fmt: skip

    def _signature(self, payload: str) -> str:
        content = payload.encode("utf-8", "surrogatepass")
        return hmac.new(self._session_key, content, hashlib.sha256).hexdigest()


def _unauthorized() -> Refusal:
    return Refusal(
        401, "unauthorized", "the token is missing or wrong",
        "send the header Authorization: Bearer TOKEN, or log in at /login",
    )  # fmt: skip


def _bare(host: str) -> str:
    """Return a host without its port, in lower case: ``[::1]:80`` gives ``::1``.

    What is no number is no port, and makes the whole a name that nothing has.
    """
    name = host.strip().lower()
    if name.startswith("["):
        address, _, rest = name[1:].partition("]")
        return address if _PORT.fullmatch(rest) else name
    if name.count(":") > 1:
        return name
    bare, colon, port = name.partition(":")
    return bare.rstrip(".") if _PORT.fullmatch(colon + port) else name


def _allowed(text: str) -> str:
    """Return a name that clients may call the service by, as it is in their ``Host`` header.

    Raises:
        UsageError: It is none.
    """
    name = "" if "/" in text else _bare(text)
    if not (_NAME.fullmatch(name) or is_ip(name)):
        raise UsageError(
            f"--allowed-host {text[:_MAX_SHOWN]!r} is no host name",
            hint="give the name as in the address bar, without http:// and path: gpu.example.org",
        )
    return name


def _is_same_origin(headers: Headers) -> bool:
    """Tell whether a page of ours, or no page at all, sends a write."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").strip().lower()
    except ValueError:
        return False


def _cookie(headers: Headers) -> str:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        return ""
    found = cookies.get(SESSION_COOKIE)
    return "" if found is None else found.value
