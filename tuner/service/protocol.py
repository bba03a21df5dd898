"""HTTP connections with a deadline for their headers: uvicorn itself waits for them for ever.

What is not HTTP is answered in the one shape of errors, too, where uvicorn has a line of text.
"""

from __future__ import annotations

import asyncio
import re
import sys
from http import HTTPStatus
from urllib.parse import urlsplit

from httptools import HttpParserError
from httptools import HttpParserInvalidMethodError
from httptools import HttpParserInvalidURLError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tuner.service.errors import error_answer
from tuner.service.errors import Problem
from tuner.service.headers import SECURITY_HEADERS
from tuner.service.limits import CONNECTIONS

HEADER_TIMEOUT_S = 15.0
LINGER_S = 1.0
MAX_HEADER_BYTES = 64 * 1024
MAX_ADDRESS_BYTES = 8192
_MAX_SHOWN = 40
_VERSIONS = ("1.0", "1.1")
_BEGINNING = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) \S+ HTTP/")  # with any method
_NO_METHOD = "a method is one of GET, HEAD and POST, in capitals"
_NOT_ASCII = Problem(
    400,
    "the address has characters that are not ASCII",
    "percent-encode them as UTF-8: é is %C3%A9",
    "invalid_request",
)
_NO_PATH = Problem(400, "the address is no path", "begin it with a /", "invalid_request")
_NOT_HTTP = Problem(
    400, "this is no HTTP/1.1 request", "speak plain HTTP/1.1 here, not HTTPS", "invalid_request"
)
_ADDRESS_TOO_LONG = Problem(
    414,
    f"the address has more than {MAX_ADDRESS_BYTES} bytes",
    "what needs many words goes into the body of a POST",
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
    _is_refused = False

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
        if self._is_refused:
            return
        self._data = data
        super().data_received(data)
        self._data = b""
        if self._deadline is not None and not self._is_refused:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self._refuse(_TOO_LONG)

    def on_url(self, url: bytes) -> None:
        """Read the address on.

        Raises:
            _Refused: It is longer than any that is meant.
        """
        super().on_url(url)
        if len(self.url) > MAX_ADDRESS_BYTES:
            raise _Refused(_ADDRESS_TOO_LONG)

    def on_message_begin(self) -> None:
        """Wait for the headers of a request, the first one's or a later one's."""
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        """Go on with the request.

        Raises:
            _Refused: It is not for us, or its headers are too long.
        """
        self._have_headers()
        self.scope["state"][CONNECTIONS] = len(self.connections)
        if sum(len(name) + len(value) for name, value in self.headers) > MAX_HEADER_BYTES:
            raise _Refused(_TOO_LONG)
        version = self.parser.get_http_version()
        if version not in _VERSIONS:
            raise _Refused(_other_version(version))
        if self.parser.get_method() == b"CONNECT":
            raise _Refused(Problem(501, "this is no proxy", _NO_METHOD))
        if not self.url.startswith((b"/", b"*")):
            self.url = self._place_here()
        super().on_headers_complete()

    def send_400_response(self, _msg: str) -> None:
        """Answer what the parser can't make out, or was told to leave."""
        error = sys.exception()
        cause = None if error is None else error.__context__
        self._refuse(cause.problem if isinstance(cause, _Refused) else self._fault(error))

    def _fault(self, error: BaseException | None) -> Problem:
        """Return what the parser did not like."""
        line = self._data.lstrip().partition(b"\n")[0]
        beginning = _BEGINNING.match(line)
        if isinstance(error, HttpParserInvalidMethodError) and beginning is not None:
            method = beginning[1][:_MAX_SHOWN].decode("ascii")
            return Problem(501, f"there is no method {method!r}", _NO_METHOD)
        if isinstance(error, HttpParserInvalidURLError):
            return _NO_PATH if line.isascii() else _NOT_ASCII
        if type(error) is not HttpParserError:
            return _NOT_HTTP
        version = self.parser.get_http_version()
        if version not in ("0.0", *_VERSIONS):
            return _other_version(version)
        return Problem(
            400,
            f"this is no HTTP/1.1 request: {error}",
            "a request is a line as GET /path HTTP/1.1, then one for each header, as Name: value",
            "invalid_request",
        )

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
        self._is_refused = True
        if self.cycle is not None:  # of this request's beginning: it gets one answer
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(head + bytes(answer.body))
        # What still comes is read and dropped: a socket that is closed with something unread tells
        # the client so, which then drops the answer.
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)

    def _expect_headers(self) -> None:
        if self._deadline is None:
            self._header_bytes = 0
            self._deadline = self.loop.call_later(HEADER_TIMEOUT_S, self.transport.close)

    def _have_headers(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _other_version(version: str) -> Problem:
    return Problem(505, f"HTTP/{version} is not spoken here", "speak HTTP/1.1")
