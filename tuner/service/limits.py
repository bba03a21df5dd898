"""What a client may send: how much, of which type, and how often."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import Message
from starlette.types import Receive
from starlette.types import Scope

from tuner.service.headers import API_PREFIX
from tuner.service.security import READ_METHODS
from tuner.service.security import Refusal

MAX_BODY_BYTES = 64 * 1024
BODY_TIMEOUT_S = 20.0
MAX_CLIENTS = 10_000
MAX_CONNECTIONS = 1000
CONNECTIONS = "connections"  # key of a request's state: how many were open when it came
HEALTH_PATH = "/healthz"
_MAX_SHOWN = 100
# Headers that are read here and have one value: of two, somebody else may have read the other one.
# What is a list may come in several, such as Accept.
GIVEN_ONCE = frozenset(
    {
        *("authorization", "content-encoding", "content-length", "content-type", "cookie"),
        *("host", "hx-current-url", "idempotency-key", "last-event-id", "origin", "referer"),
        *("if-modified-since", "sec-fetch-site"),
    }
)
_GIVEN_ONCE_BYTES = frozenset(name.encode() for name in GIVEN_ONCE)


@dataclass(frozen=True, slots=True)
class Rate:
    """How often one client may write: ``burst`` at once, then ``per_s`` a second."""

    burst: int = 60
    per_s: float = 5.0


class RateLimit:
    """A token bucket for each client. The clients last seen are kept, so many cost no memory."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str) -> float:
        """Count a write of a client; return 0, or the seconds after which it may come again."""
        now = self._clock()
        left, seen = self._buckets.pop(client, (float(self._rate.burst), now))
        left = min(float(self._rate.burst), left + (now - seen) * self._rate.per_s)
        is_allowed = left >= 1.0
        self._buckets[client] = (left - 1.0 if is_allowed else left, now)
        while len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if is_allowed else (1.0 - left) / self._rate.per_s


class BodyRefused(Exception):
    """A body is too large or did not come in time."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


BUSY = Refusal(
    503, "too_many_connections", f"more than {MAX_CONNECTIONS} connections are open",
    "close those that are not in use, and ask again", retry_after_s=5,
)  # fmt: skip
TOO_LARGE = Refusal(413, "body_too_large", f"a body has at most {MAX_BODY_BYTES} bytes")


def is_too_busy(scope: Scope) -> bool:
    """Tell whether a request is refused because of the many connections beside its own.

    Not so where only is asked whether the process lives: one that is busy need not be restarted.
    """
    connections: int = scope.get("state", {}).get(CONNECTIONS, 0)
    return connections > MAX_CONNECTIONS and scope["path"] != HEALTH_PATH


def header_refusal(scope: Scope) -> Refusal | None:
    """Return why a request is refused for headers that are missing or doubled, or None."""
    given = [name for name, _ in scope["headers"] if name in _GIVEN_ONCE_BYTES]
    if len(set(given)) < len(given):
        name = next(each for each in given if given.count(each) > 1).decode().title()
        return Refusal(
            400, "invalid_request", f"the header {name} is given more than once", "give it once"
        )
    if b"host" not in given and scope.get("http_version") != "1.0":
        return Refusal(
            400, "invalid_request", "the request has no header Host", "say which host is called"
        )
    return None


def content_refusal(method: str, path: str, headers: Headers) -> Refusal | None:
    """Return why the announced body of a request is refused, or None."""
    if method in READ_METHODS:
        return None
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > MAX_BODY_BYTES:
        return TOO_LARGE
    if headers.get("content-encoding", "identity").lower() != "identity":
        return Refusal(415, "unsupported_media_type", "a compressed body is not accepted")
    has_body = length not in ("", "0") or "transfer-encoding" in headers
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if (
        path.startswith(API_PREFIX)
        and (has_body or media_type)
        and media_type != "application/json"
    ):
        return Refusal(
            415, "unsupported_media_type", "the body must be JSON",
            "send the header Content-Type: application/json",
        )  # fmt: skip
    return None


def body_refusal(path: str, body: bytes) -> Refusal | None:
    """Return why the body of a request to the API is refused before anybody reads it, or None.

    The framework would take the last of two equal keys, and NaN, which is no JSON.
    """
    if not path.startswith(API_PREFIX) or not body:
        return None
    try:
        json.loads(
            body.decode("utf-8"), object_pairs_hook=_with_each_key_once, parse_constant=_refused
        )
    except _RepeatedKey as error:
        key = str(error)[:_MAX_SHOWN]
        return Refusal(400, "invalid_request", f"the body has the key {key!r} twice",
                       "give each key once")  # fmt: skip
    except UnicodeDecodeError:
        fault = "it is not UTF-8"
    except json.JSONDecodeError as error:
        fault = f"{error.msg.lower()} at line {error.lineno}, column {error.colno}"
    except (ValueError, RecursionError) as error:  # NaN, a number of very many digits, or depth
        fault = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    else:
        return None
    return Refusal(400, "invalid_request", f"the body is not JSON: {fault}",
                   'send an object such as {"study": "NAME"}; see /openapi.json')  # fmt: skip


class _RepeatedKey(Exception):
    """An object has two equal keys."""


def _with_each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise _RepeatedKey(key)
        found[key] = value
    return found


def _refused(name: str) -> object:
    raise ValueError(f"it has {name}")


async def whole_body(receive: Receive) -> bytes:
    """Return a request's body.

    Raises:
        BodyRefused: It is too large, also where its length was not announced, or too slow.
    """
    chunks: list[bytes] = []
    size_bytes = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BodyRefused(Refusal(400, "bad_request", "the client went away"))
                chunks.append(message.get("body", b""))
                size_bytes += len(chunks[-1])
                if size_bytes > MAX_BODY_BYTES:
                    raise BodyRefused(TOO_LARGE)
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        text = f"the body did not come within {BODY_TIMEOUT_S:g} s"
        raise BodyRefused(Refusal(408, "request_timeout", text)) from None


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read already, then what comes after it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
