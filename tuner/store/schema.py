"""The schema's revision: which one this program knows, writes and demands.

A fresh database is made from the models and stamped, without Alembic, whose import alone takes
0.4 s. A test holds that migrations lead to the same schema, and that ``REVISIONS`` is theirs.
"""

from __future__ import annotations

from sqlalchemy import Column
from sqlalchemy import Connection
from sqlalchemy import insert
from sqlalchemy import inspect
from sqlalchemy import MetaData
from sqlalchemy import PrimaryKeyConstraint
from sqlalchemy import select
from sqlalchemy import String
from sqlalchemy import Table

from tuner.errors import NoDatabase
from tuner.errors import SchemaMismatch
from tuner.store import control_models  # noqa: F401 - registers its table with Base
from tuner.store import evidence_models  # noqa: F401 - likewise
from tuner.store import job_models  # noqa: F401 - likewise
from tuner.store import profile_models  # noqa: F401 - likewise
from tuner.store.models import Base

REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
)  # oldest first; the last one is what the models say

# Not Alembic's default name: Optuna's tables bring an `alembic_version` of their own.
VERSION_TABLE = "tuner_alembic_version"
_VERSION = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def head() -> str:
    """Return the revision of the schema that this program reads and writes."""
    return REVISIONS[-1]


def create_schema(connection: Connection) -> None:
    """Create all tables and stamp them with the head revision."""
    Base.metadata.create_all(connection)
    _VERSION.create(connection)
    connection.execute(insert(_VERSION).values(version_num=head()))


def has_schema(connection: Connection) -> bool:
    """Tell whether the database holds tables of this program."""
    return inspect(connection).has_table(VERSION_TABLE)


def read_revision(connection: Connection, database: str) -> str:
    """Return the revision a database is stamped with.

    Raises:
        NoDatabase: It is a server's, and there is nothing in it.
        SchemaMismatch: It is not a database of this program, or its stamp is damaged.
    """
    if not has_schema(connection):
        tables = sorted(inspect(connection).get_table_names())
        if not tables and connection.dialect.name != "sqlite":
            raise NoDatabase(
                f"database {database} is empty: it has no tables", hint="`tuner run` makes them"
            )
        listed = ", ".join(tables[:5]) + (", …" if len(tables) > 5 else "")
        raise SchemaMismatch(
            f"database {database} is not one of tuner (it holds {listed or 'no tables'})",
            hint="check which one is meant; give each program a file of its own",
        )
    stamps = list(connection.scalars(select(_VERSION.c.version_num)))
    if len(stamps) != 1:
        raise SchemaMismatch(
            f"database {database} has {len(stamps)} schema revisions instead of one",
            hint="restore a backup",
        )
    return str(stamps[0])


def require_known(revision: str, database: str) -> None:
    """Check that a revision is the head or one before it.

    Raises:
        SchemaMismatch: It is not; most likely a newer program made the database.
    """
    if revision not in REVISIONS:
        raise SchemaMismatch(
            f"database {database} has schema {revision}, this program knows {head()} and older",
            hint="use the newer version of tuner that made it",
        )


def require_current(connection: Connection, database: str) -> None:
    """Check that a database has the head revision.

    Raises:
        SchemaMismatch: It is older, newer or foreign.
    """
    revision = read_revision(connection, database)
    require_known(revision, database)
    if revision != head():
        is_server = connection.dialect.name != "sqlite"
        backup = "make a backup with pg_dump first" if is_server else "it makes a backup first"
        raise SchemaMismatch(
            f"database {database} has schema {revision}, this program needs {head()}",
            hint=f"run `tuner db upgrade --db {database}`; {backup}",
        )
