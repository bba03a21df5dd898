"""The headers that every answer has."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.datastructures import MutableHeaders

# Plotly and htmx write `style` attributes; no script but our own files runs.
PAGE_POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
API_PREFIX = "/api/"
STATIC_PREFIX = "/static/"


def add_headers(headers: MutableHeaders, path: str, asked: Headers) -> None:
    """Add the headers that every answer has, unless the answer set its own.

    Files of the pages may be kept, but are asked for again each time (``ETag``): after an
    upgrade no page runs with an older script. All else is not kept.

    Args:
        headers: Of the answer.
        path: That was asked for.
        asked: Headers of the request.
    """
    for name, value in SECURITY_HEADERS.items():
        headers.setdefault(name, value)
    # Browsers say this to HTTPS and loopback only. Elsewhere they heed no such policy, and note an
    # error for each page that states one.
    if "sec-fetch-site" in asked:
        headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    if "accept-ranges" in headers:
        headers["Accept-Ranges"] = "none"
    headers.setdefault(
        "Cache-Control", "no-cache" if path.startswith(STATIC_PREFIX) else "no-store"
    )


def wants_page(path: str, headers: Headers) -> bool:
    """Tell whether a person reads the answer: a browser opens something that is not the API's.

    Under ``/api/`` every error is JSON: some programs say that they take HTML.
    """
    if path.startswith(API_PREFIX):
        return False
    return any("text/html" in each for each in headers.getlist("accept"))
