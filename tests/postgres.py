"""A real PostgreSQL for tests: one server a test process, one database a test.

The server is Debian's (``/usr/lib/postgresql/15/bin``) and refuses to run as root, so that root
starts it as the user ``postgres``. It waits for no disk (``fsync=off``): no test here cuts the
power, and a killed server or client leaves what it wrote to the operating system.

``TUNER_TEST_POSTGRES_URL`` names a server to use instead, by a role that may create databases.
Where neither is possible the tests are skipped, with the reason.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url

from tuner.store import open_store

URL_VARIABLE = "TUNER_TEST_POSTGRES_URL"
EXISTING_URL = os.environ.get(URL_VARIABLE, "")  # read before a fixture clears TUNER_*
START_TIMEOUT_S = 30.0
# Newest first; then whatever is on the path.
_DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "logging_collector": "off",
    "autovacuum": "off",
}


class PostgresServer:
    """A server that makes databases for tests.

    Attributes:
        owned: It was started here, and can be stopped and started.
    """

    def __init__(self, url: str, folder: Path | None = None) -> None:
        self.owned = folder is not None
        self._url = make_url(url)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._template = ""

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self._folder is not None
        settings = {**_OPTIONS, "unix_socket_directories": str(self._folder)}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [str(_binary("postgres")), "-D", str(self._folder / "data"), *words]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                _as_server_user(command), stdout=log, stderr=log, cwd=self._folder
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"no answer; {self._last_words()}") from None
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT closes all connections, SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_TIMEOUT_S)
            self._process = None

    def run(self, statement: str | sql.Composed, database: str = "postgres") -> list[tuple]:
        """Run a statement outside of a transaction and return its rows."""
        url = self._url.set(drivername="postgresql", database=database)
        text = url.render_as_string(hide_password=False)
        with psycopg.connect(text, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return [] if cursor.description is None else cursor.fetchall()

    def create(self, *, empty: bool = False) -> str:
        """Make a database with the schema of today, or an empty one; return its URL."""
        if not empty and not self._template:
            self._template = self._name()
            url = self._create(self._template, "template0")
            open_store(url, create=True, writable=True).close()
        return self._create(self._name(), "template0" if empty else self._template)

    def drop(self, url: str) -> None:
        """Drop a database, whoever is connected to it."""
        name = sql.Identifier(make_url(url).database or "")
        self.run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def close(self) -> None:
        """Drop the template, or end the server."""
        if self.owned:
            self.stop()
        elif self._template:
            self.drop(self.url_of(self._template))

    def _create(self, name: str, template: str) -> str:
        names = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
        statement = sql.SQL("CREATE DATABASE {name} TEMPLATE {template} ENCODING 'UTF8'")
        self.run(statement.format(**names))
        return self.url_of(name)

    def _name(self) -> str:
        self._number += 1
        return f"tuner_test_{os.getpid()}_{self._number}"

    def url_of(self, name: str) -> str:
        """Return the URL of a database."""
        url = self._url.set(drivername="postgresql", database=name)
        return url.render_as_string(hide_password=False)

    def _last_words(self) -> str:
        assert self._folder is not None
        return " ".join((self._folder / "log").read_text("utf-8", "replace").split())[-300:]


@contextlib.contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Give a server for tests; skips them where there can be none."""
    if EXISTING_URL:
        server = PostgresServer(EXISTING_URL)
        yield server
        server.close()
        return
    if _binary("initdb") is None:
        pytest.skip(f"no PostgreSQL server here (package postgresql-15), and no {URL_VARIABLE}")
    if os.geteuid() == 0 and _server_user() is None:
        pytest.skip("root can't run PostgreSQL, and there is no user postgres")
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, prefix="tuner-pg-") as name:
        folder = Path(name)
        user = _server_user()
        if os.geteuid() == 0 and user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        server = PostgresServer(f"postgresql://postgres@/postgres?host={folder}", folder)
        _make_cluster(folder)  # what is installed and does not start is a failure, not a skip
        server.start()
        yield server
        server.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server of this test process."""
    with running_server() as server:
        yield server


@pytest.fixture
def make_postgres(postgres: PostgresServer) -> Iterator[Callable[..., str]]:
    """A maker of databases that are dropped after the test; gives URLs."""
    made: list[str] = []

    def make(*, empty: bool = False) -> str:
        made.append(postgres.create(empty=empty))
        return made[-1]

    yield make
    for url in made:
        postgres.drop(url)


@pytest.fixture
def postgres_url(make_postgres: Callable[..., str]) -> str:
    """The URL of a database with the schema of today and no rows."""
    return make_postgres()


def _make_cluster(folder: Path) -> None:
    command = [
        *(str(_binary("initdb")), "--pgdata", str(folder / "data"), "--username", "postgres"),
        *("--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
        # Sorted by a language on purpose: no answer may follow the server's order of letters.
        *("--locale-provider", "icu", "--icu-locale", "en-US"),
    ]
    done = subprocess.run(_as_server_user(command), capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(" ".join(done.stderr.split())[-300:])


def _as_server_user(command: list[str]) -> list[str]:
    """Run a command as a user that the server accepts; it ends with this process."""
    words = ["setpriv", "--pdeathsig", "INT"]
    user = _server_user()
    if os.geteuid() == 0 and user is not None:
        words += [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [*words, *command]


def _server_user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return None


@functools.cache
def _binary(name: str) -> Path | None:
    for folder in _DEBIAN:
        if (folder / name).exists():
            return folder / name
    found = shutil.which(name)
    return None if found is None else Path(found)
