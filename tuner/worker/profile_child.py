"""The process that a profiler watches: a worker that takes its requests from a file.

    python -m tuner.worker.profile_child REQUESTS REPLIES

REQUESTS holds what a worker is sent over its pipe, one message a line; the answers go to REPLIES.
The profiler may print to stdout and stderr, and so may the kernel: neither is read here.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tuner.worker.child import Worker


def main() -> None:
    """Answer the requests of the file named first in the file named second."""
    requests, replies = (Path(text) for text in sys.argv[1:3])
    with requests.open("rb") as source, replies.open("wb") as target:
        Worker(source, target).serve()


if __name__ == "__main__":
    main()
