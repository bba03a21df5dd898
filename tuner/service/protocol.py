"""HTTP connections with a deadline for their headers: uvicorn itself waits for them for ever.

What is not HTTP is answered in the one shape of errors, too, where uvicorn has a line of text.
"""

from __future__ import annotations

import asyncio
import re
import sys
from http import HTTPStatus
from urllib.parse import urlsplit

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tuner.service.errors import error_answer
from tuner.service.errors import Problem
from tuner.service.headers import SECURITY_HEADERS
from tuner.service.limits import CONNECTIONS

HEADER_TIMEOUT_S = 15.0
MAX_HEADER_BYTES = 64 * 1024


_BEGINNING = re.compile(rb"[A-Z]+ ")
_NOT_ASCII = Problem(
    400,
    "the address has characters that are not ASCII",
    "percent-encode them as UTF-8: é is %C3%A9",
    "invalid_request",
)
_NOT_HTTP = Problem(
    400, "this is no HTTP/1.1 request", "speak plain HTTP/1.1 here, not HTTPS", "invalid_request"
)
_TOO_LONG = Problem(
    431, f"the headers have more than {MAX_HEADER_BYTES} bytes", "send fewer cookies or headers"
)
_OTHER_HOST = Problem(
    400,
    "the address names another host than the header Host",
    "send the path alone, or http:// with what Host says",
    "invalid_request",
)


class _Refused(Exception):
    """A request is not taken on. The parser carries it from a callback out to its caller."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class DeadlineProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not begin, or whose headers do not end."""

    _deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0
    _data = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._have_headers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the headers are longer than any that are meant."""
        self._data = data
        super().data_received(data)
        self._data = b""
        if self._deadline is not None:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self._refuse(_TOO_LONG)

    def on_message_begin(self) -> None:
        """Wait for the headers of a request, the first one's or a later one's."""
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        """Go on with the request."""
        self._have_headers()
        self.scope["state"][CONNECTIONS] = len(self.connections)
        if not self.url.startswith((b"/", b"*")):
            self.url = self._place_here()
        super().on_headers_complete()

    def send_400_response(self, _msg: str) -> None:
        """Answer what the parser can't make out, or was told to leave."""
        error = sys.exception()
        cause = None if error is None else error.__context__
        if isinstance(cause, _Refused):
            self._refuse(cause.problem)
            return
        line = self._data.partition(b"\n")[0]
        is_in_address = _BEGINNING.match(line) is not None and not line.isascii()
        self._refuse(_NOT_ASCII if is_in_address else _NOT_HTTP)

    def _place_here(self) -> bytes:
        """Return the path of an address with scheme and host, as proxies are sent it.

        Raises:
            _Refused: It leads elsewhere.
        """
        host = next((value for name, value in self.headers if name == b"host"), b"")
        try:
            asked = urlsplit(self.url)
        except ValueError:
            raise _Refused(_OTHER_HOST) from None
        if asked.scheme != b"http" or asked.netloc.lower() != host.strip().lower():
            raise _Refused(_OTHER_HOST)
        return (asked.path or b"/") + (b"?" + asked.query if asked.query else b"")

    def _refuse(self, problem: Problem) -> None:
        """Answer and hang up: what follows on the connection can't be made out either."""
        answer = error_answer(problem)
        headers = {**answer.headers, **SECURITY_HEADERS, "Connection": "close"}
        lines = [f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        self.transport.write(head + bytes(answer.body))
        self.transport.close()

    def _expect_headers(self) -> None:
        if self._deadline is None:
            self._header_bytes = 0
            self._deadline = self.loop.call_later(HEADER_TIMEOUT_S, self.transport.close)

    def _have_headers(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
