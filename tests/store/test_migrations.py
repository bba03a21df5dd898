"""Migrations: the same schema as a fresh database, one transaction, a backup before."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from tuner.errors import DatabaseProblem
from tuner.errors import NotFound
from tuner.errors import SchemaMismatch
from tuner.errors import UsageError
from tuner.resources import alembic_dir
from tuner.store import migrate
from tuner.store import open_store
from tuner.store import schema
from tuner.store.check import describe_schema
from tuner.store.check import fresh_schema
from tuner.store.engine import sqlite_engine
from tuner.testing.store_values import make_definition

MIGRATION = """
from alembic import op
import sqlalchemy as sa

revision = "{next}"
down_revision = "{head}"


def upgrade():
    with op.batch_alter_table("tuner_study") as batch:
        batch.add_column(sa.Column("note", sa.Text(), nullable=True))
    {more}


def downgrade():
    with op.batch_alter_table("tuner_study") as batch:
        batch.drop_column("note")
"""


HEAD = schema.head()
NEXT = f"{int(HEAD) + 1:04}"


def planted(more: str = "") -> str:
    return MIGRATION.format(next=NEXT, head=HEAD, more=more)


def make_database(path: Path) -> None:
    with open_store(str(path), create=True, writable=True) as store:
        store.recorder().open_study(make_definition(), fresh=False)


def sql_dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.fixture
def empty(database: Path) -> Engine:
    """An engine for a database without tables."""
    return sqlite_engine(database, "create")


@pytest.fixture
def next_scripts(folder: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of today, migrations with a planted next one, and a program that needs it."""
    make_database(database)
    scripts = folder / "scripts"
    shutil.copytree(alembic_dir(), scripts)
    (scripts / "versions" / "next_note.py").write_text(planted())
    monkeypatch.setattr(schema, "REVISIONS", (*schema.REVISIONS, NEXT))
    return scripts


def test_the_program_knows_exactly_the_migrations_there_are() -> None:
    config = Config()
    config.set_main_option("script_location", str(alembic_dir()))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [schema.head()]
    newest_first = [each.revision for each in scripts.walk_revisions()]
    assert tuple(reversed(newest_first)) == schema.REVISIONS


def test_migrations_lead_to_the_schema_of_a_fresh_database(empty: Engine) -> None:
    with empty.begin() as connection:
        migrate.run_migrations(connection, alembic_dir())
        assert describe_schema(connection) == fresh_schema()
        schema.require_current(connection, "it")


def test_upgrade_downgrade_upgrade_gives_the_same_schema(empty: Engine) -> None:
    with empty.begin() as connection:
        migrate.run_migrations(connection, alembic_dir())
        migrate.run_migrations(connection, alembic_dir(), "base")
        assert describe_schema(connection) == {}
        migrate.run_migrations(connection, alembic_dir())
        assert describe_schema(connection) == fresh_schema()


def test_every_constraint_has_a_name() -> None:
    for table, parts in fresh_schema().items():
        names = [parts["key"][0]]
        for kind in ("checks", "uniques", "links", "indexes"):
            names += [each[0] for each in parts[kind]]
        assert all(name.startswith(("pk_", "uq_", "ck_", "fk_", "ix_")) for name in names), table


def test_alembic_has_no_init_and_does_not_hide_the_package() -> None:
    assert not (alembic_dir() / "__init__.py").exists()
    code = "import alembic.command; print(alembic.__file__)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=alembic_dir().parent, check=True, capture_output=True, text=True
    )
    assert str(alembic_dir()) not in done.stdout


def test_opening_and_creating_do_not_load_alembic(database: Path) -> None:
    code = (
        "import sys\n"
        "from tuner.store import open_store\n"
        "for create in (True, False):\n"
        "    open_store(sys.argv[1], create=create, writable=True).close()\n"
        "print([name for name in ('alembic', 'pandas', 'optuna') if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", code, str(database)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


def test_upgrade_keeps_the_rows_and_a_backup(database: Path, next_scripts: Path) -> None:
    before = sql_dump(database)
    lines = migrate.upgrade(str(database), next_scripts)
    backup = database.with_name(f"results.db.before-{NEXT}.bak")
    assert lines[0].endswith(f"upgraded to {NEXT}")
    assert str(backup) in lines[1]
    assert sql_dump(backup) == before
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT name, note FROM tuner_study").fetchall() == [
            ("nightly", None)
        ]
    assert "nothing to do" in migrate.upgrade(str(database), next_scripts)[0]


def test_a_failed_upgrade_changes_nothing_and_can_be_repeated(
    database: Path, next_scripts: Path
) -> None:
    before = sql_dump(database)
    script = next_scripts / "versions" / "next_note.py"
    script.write_text(planted('op.execute("INSERT INTO nowhere VALUES (1)")'))
    with pytest.raises(DatabaseProblem, match="no such table: nowhere"):
        migrate.upgrade(str(database), next_scripts)
    assert sql_dump(database) == before
    script.write_text(planted(""))
    lines = migrate.upgrade(str(database), next_scripts)
    assert f"before-{NEXT}.2.bak" in lines[1]  # the first backup is kept


def test_a_migration_that_breaks_references_is_rolled_back(
    database: Path, next_scripts: Path
) -> None:
    before = sql_dump(database)
    script = next_scripts / "versions" / "next_note.py"
    script.write_text(planted('op.execute("DELETE FROM tuner_protocol")'))
    with pytest.raises(DatabaseProblem, match="would break references"):
        migrate.upgrade(str(database), next_scripts)
    assert sql_dump(database) == before


def test_upgrade_refuses_what_it_does_not_know(database: Path) -> None:
    with pytest.raises(NotFound):
        migrate.upgrade(str(database))
    make_database(database)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE tuner_alembic_version SET version_num = '0042'")
    before = database.read_bytes()
    with pytest.raises(SchemaMismatch, match="0042"):
        migrate.upgrade(str(database))
    assert database.read_bytes() == before
    assert migrate.info(str(database)).state == "unknown"


def test_backup_is_whole_and_never_replaces_a_file(database: Path) -> None:
    target = database.with_name("copy.db")
    with open_store(str(database), create=True, writable=True) as store:
        store.recorder().open_study(make_definition(), fresh=False)
        migrate.backup(str(database), target)  # while it is open and in use
    assert migrate.check(str(target)) == []
    assert migrate.info(str(target)).counts["study"] == 1
    content = target.read_bytes()
    with pytest.raises(UsageError, match="exists"):
        migrate.backup(str(database), target)
    assert target.read_bytes() == content
    with pytest.raises(DatabaseProblem):
        migrate.backup(str(database), database.parent / "missing" / "copy.db")
    assert not list(database.parent.glob("*.partial"))
