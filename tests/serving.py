"""``tuner serve`` in a process of its own, as users start it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2
import psutil
from places import OPERATORS

TOKEN = "0123456789abcdef-of-the-tests"
START_TIMEOUT_S = 60.0


def own_addresses() -> list[str]:
    """Return the IPv4 addresses of this machine's interfaces."""
    found = [each for interface in psutil.net_if_addrs().values() for each in interface]
    return [each.address for each in found if each.family == socket.AF_INET]


class Serving:
    """A running service on a free port; a context manager that ends it.

    Attributes:
        process: Its process.
        client: Knows the token; with the service's address once that answers.
    """

    def __init__(self, db: str, cache_dir: Path, folder: Path, *words: str) -> None:
        token_file = folder / "token"
        token_file.touch(mode=0o600)
        token_file.write_text(TOKEN + "\n", encoding="ascii")
        self._log = folder / "serve.log"
        with self._log.open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tuner", "serve", "--port", "0", "--db", db),
                    *("--token-file", str(token_file), "--operators", str(OPERATORS), *words),
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "TUNER_CACHE_DIR": str(cache_dir)},
                cwd=folder,
            )
        self.client = httpx2.Client(
            base_url=self._url(), headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30.0
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()

    @property
    def log(self) -> str:
        """What it has said so far."""
        return self._log.read_text(encoding="utf-8")

    def _url(self) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for line in self.log.splitlines():
                if line.startswith("listening on "):
                    return line.split()[-1]
            time.sleep(0.02)
        self.process.kill()
        raise AssertionError(f"it does not answer: {self.log}")
