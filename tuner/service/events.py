"""Live events (SSE). Each is whole: a client that missed some, or a service that was restarted,
has lost nothing. All of it is read from the database, so that any host's jobs are seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.responses import StreamingResponse
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from tuner.domain.identity import canonical_json
from tuner.domain.identity import content_hash
from tuner.domain.identity import Plain
from tuner.errors import TunerError
from tuner.service.errors import error_answer
from tuner.service.errors import Problem

POLL_S = 1.0
HEARTBEAT_S = 15.0
RETRY_MS = 2000
MAX_STREAMS = 64
EVENTS_TYPE = "text/event-stream"
_ID_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What an event says.

    Attributes:
        fields: A JSON object; equal fields are sent once.
        is_last: Nothing will change any more.
    """

    fields: Plain
    is_last: bool = False

    @property
    def event_id(self) -> str:
        """What ``Last-Event-ID`` says of a client that has seen it."""
        return content_hash(self.fields)[:_ID_DIGITS]


class _Stream(StreamingResponse):
    """A stream of events that tells when it has ended, also where none of it was sent."""

    def __init__(self, events: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(events, media_type=EVENTS_TYPE)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


@dataclass(slots=True)
class Streams:
    """The open event streams. Each asks the database once a second, so there is a limit.

    Attributes:
        limit: How many may be open at once.
        stopping: Set when the service is to end: the streams end then.
    """

    limit: int = MAX_STREAMS
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _open: int = 0

    async def answer(
        self, event: str, read: Callable[[], Snapshot], last_event_id: str | None
    ) -> Response:
        """Return a stream of what ``read`` gives each time that it differs from before.

        Args:
            event: Name of the events.
            read: Asks the database; runs in a thread.
            last_event_id: Of the event that the client has seen last.

        Raises:
            TunerError: The first reading fails: there is no such thing, or no database.
        """
        first = await run_in_threadpool(read)
        if first.is_last and first.event_id == last_event_id:
            return Response(status_code=204)  # tells a browser not to come again
        if self._open >= self.limit:
            return error_answer(
                Problem(
                    503, "too many event streams are open", "close one, or ask again later",
                    "too_many_streams", {"Retry-After": "5"},
                )
            )  # fmt: skip
        self._open += 1  # before anything is waited for: the next client may ask meanwhile
        return _Stream(self._events(event, read, first, last_event_id), self._close)

    async def _events(
        self, event: str, read: Callable[[], Snapshot], found: Snapshot, seen: str | None
    ) -> AsyncIterator[str]:
        yield f"retry: {RETRY_MS}\n\n"
        sent_at = time.monotonic()
        while True:
            if found.event_id != seen:
                seen = found.event_id
                yield f"id: {seen}\nevent: {event}\ndata: {canonical_json(found.fields)}\n\n"
                sent_at = time.monotonic()
            elif time.monotonic() - sent_at >= HEARTBEAT_S:
                yield ": still here\n\n"
                sent_at = time.monotonic()
            if found.is_last or await self._is_stopping():
                return
            # A database that can't be read for a moment is asked again.
            with contextlib.suppress(TunerError):
                found = await run_in_threadpool(read)

    def _close(self) -> None:
        self._open -= 1

    async def _is_stopping(self) -> bool:
        """Wait for the next reading, or for the end of the service."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), POLL_S)
        return self.stopping.is_set()
