"""Runs migrations. ``tuner.store.migrate`` hands in a connection with its transaction begun.

For work on the schema itself, ``alembic -x db=scratch.db revision --autogenerate`` opens one here.
"""

from __future__ import annotations

from alembic import context
from tuner.store.engine import sqlite_engine
from tuner.store.location import locate
from tuner.store.models import Base
from tuner.store.schema import VERSION_TABLE


def run(connection) -> None:
    """Run migrations on a connection, all in the transaction it is in."""
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table=VERSION_TABLE,
        render_as_batch=True,
        compare_type=True,
        transactional_ddl=True,
        # Optuna's tables may be in the same database; they are none of our business.
        include_name=lambda name, kind, _parents: kind != "table" or name.startswith("tuner_"),
    )
    with context.begin_transaction():
        context.run_migrations()


def run_standalone() -> None:
    """Run migrations on the SQLite file named by ``-x db=PATH``."""
    location = locate(context.get_x_argument(as_dictionary=True)["db"])
    if location.path is None:
        raise SystemExit("give -x db=PATH of an SQLite file")
    engine = sqlite_engine(location.path, "create")
    with engine.begin() as connection:
        run(connection)
    engine.dispose()


given = context.config.attributes.get("connection")
if given is None:
    run_standalone()
elif hasattr(given, "connect"):  # an engine, as test tools hand in
    with given.begin() as connection:
        run(connection)
else:
    run(given)
