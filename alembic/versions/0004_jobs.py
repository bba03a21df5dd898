"""Tables of devices, jobs and leases; a study's trials by page; a server sorts texts by bytes.

Frozen: it says what revision 0004 was, and imports nothing that may change with the program.
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_OLD_INDEX = "ix_tuner_trial_study_id_outcome"


def upgrade() -> None:
    """Create the tables, and indexes by which a page of a study's trials is read in order."""
    _create_device()
    _create_job()
    _create_lease()
    op.drop_index(_OLD_INDEX, "tuner_trial")
    _sort_texts("C")  # makes indexes of texts anew: those to come are made after it, once
    op.create_index(f"{_OLD_INDEX}_id", "tuner_trial", ["study_id", "outcome", "id"])
    op.create_index("ix_tuner_trial_study_id_id", "tuner_trial", ["study_id", "id"])


def downgrade() -> None:
    """Drop the tables, and put the index back."""
    op.drop_index("ix_tuner_trial_study_id_id", "tuner_trial")
    op.drop_index(f"{_OLD_INDEX}_id", "tuner_trial")
    for table in ("tuner_lease", "tuner_job", "tuner_device"):
        op.drop_table(table)
    _sort_texts("default")
    op.create_index(_OLD_INDEX, "tuner_trial", ["study_id", "outcome"])


def _sort_texts(collation: str) -> None:
    """Set how a server sorts the texts of all tables: as SQLite does, or by its language."""
    bind = op.get_bind()
    if bind.dialect.name != "postgresql":
        return
    inspector = sa.inspect(bind)
    for table in inspector.get_table_names():
        if not table.startswith("tuner_"):
            continue
        for column in inspector.get_columns(table):
            if isinstance(column["type"], sa.Text):
                op.alter_column(table, column["name"], type_=sa.Text(collation=collation))


def _create_device() -> None:
    table = "tuner_device"
    op.create_table(
        table,
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(16), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("checksum", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("host", "device_id", name=f"uq_{table}_host_device_id"),
        _link(table, "environment_id", "tuner_environment.id"),
    )


def _create_job() -> None:
    table = "tuner_job"
    op.create_table(
        table,
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("device_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("wish", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("study_id", sa.Integer(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("checksum", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("idempotency_key", name=f"uq_{table}_idempotency_key"),
        _check(table, "kind_known", "kind IN ('study', 'reproduce')"),
        _check(
            table,
            "state_known",
            "state IN ('queued', 'running', 'paused', 'finished', 'failed', 'cancelled')",
        ),
        _check(table, "wish_known", "wish IN ('run', 'pause', 'cancel')"),
        _check(table, "runs_somewhere", "(state = 'running') = (owner IS NOT NULL)"),
        _check(
            table,
            "end_has_a_time",
            "(state IN ('finished', 'failed', 'cancelled')) = (finished_at IS NOT NULL)",
        ),
        _check(table, "failure_has_a_reason", "state <> 'failed' OR length(message) > 0"),
        _link(table, "study_id", "tuner_study.id"),
    )
    op.create_index(f"ix_{table}_state_device_id", table, ["state", "device_id"])
    op.create_index(f"ix_{table}_study_id", table, ["study_id"])


def _create_lease() -> None:
    table = "tuner_lease"
    op.create_table(
        table,
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("checksum", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("study_id", name=f"uq_{table}_study_id"),
        _link(table, "study_id", "tuner_study.id"),
    )


def _check(table: str, name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{table}_{name}"))


def _link(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [target], name=f"fk_{table}_{column}")
