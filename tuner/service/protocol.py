"""HTTP connections with a deadline for their headers: uvicorn itself waits for them for ever."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_TIMEOUT_S = 15.0
MAX_HEADER_BYTES = 64 * 1024


class DeadlineProtocol(HttpToolsProtocol):
    """Closes a connection whose request does not begin, or whose headers do not end."""

    _deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0

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
        super().data_received(data)
        if self._deadline is not None:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES:
                self.transport.close()

    def on_message_begin(self) -> None:
        """Wait for the headers of a request, the first one's or a later one's."""
        super().on_message_begin()
        self._expect_headers()

    def on_headers_complete(self) -> None:
        """Go on with the request."""
        self._have_headers()
        super().on_headers_complete()

    def _expect_headers(self) -> None:
        if self._deadline is None:
            self._header_bytes = 0
            self._deadline = self.loop.call_later(HEADER_TIMEOUT_S, self.transport.close)

    def _have_headers(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
