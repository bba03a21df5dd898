"""Table of controls: null kernel, copy and sentinel of each run.

Frozen: it says what revision 0005 was, and imports nothing that may change with the program.
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLE = "tuner_control"
OUTCOMES = (
    "'ok', 'wrong_result', 'non_finite', 'unstable_result', 'compile_error', 'compile_timeout', "
    "'launch_error', 'out_of_resources', 'out_of_memory', 'timeout', 'crash', 'timer_error', "
    "'skipped', 'interrupted'"
)
STAGES = "'plan', 'build', 'validate', 'measure', 'revalidate', 'confirm'"
READINGS = ("clock_{}_mhz", "memory_clock_{}_mhz", "temperature_{}_c", "power_{}_w")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        TABLE,
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("workload_id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=True),
        sa.Column("run_started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        _text("kind", nullable=False),
        sa.Column("bytes_moved", sa.BigInteger(), nullable=True),
        _text("outcome", nullable=False),
        _text("stage", nullable=True),
        _text("message", nullable=False),
        _text("log", nullable=False),
        _text("samples_us", nullable=True),
        sa.Column("median_us", sa.Double(), nullable=True),
        sa.Column("launches_per_sample", sa.BigInteger(), nullable=True),
        sa.Column("buffer_sets", sa.Integer(), nullable=True),
        _text("submission", nullable=True),
        *(
            sa.Column(name.format(when), sa.Double(), nullable=True)
            for name in READINGS
            for when in ("before", "after")
        ),
        sa.Column("recorded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("checksum", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{TABLE}"),
        sa.UniqueConstraint(
            *("study_id", "workload_id", "run_started_at", "position", "kind"),
            name=f"uq_{TABLE}_round",
        ),
        _check("kind_known", "kind IN ('null', 'copy', 'sentinel')"),
        _check("outcome_known", f"outcome IN ({OUTCOMES})"),
        _check("stage_known", f"stage IN ({STAGES})"),
        _check("position_not_negative", "position >= 0"),
        _check("sentinel_is_a_trial", "(kind = 'sentinel') = (trial_id IS NOT NULL)"),
        _check("copy_has_a_size", "(kind = 'copy') = (bytes_moved IS NOT NULL)"),
        _check("bytes_moved_positive", "bytes_moved > 0"),
        _check(
            "failure_has_a_reason",
            "outcome = 'ok' OR (length(message) > 0 AND stage IS NOT NULL)",
        ),
        _check("ok_has_a_median", "(outcome = 'ok') = (median_us IS NOT NULL)"),
        _check("samples_have_a_median", "(samples_us IS NULL) = (median_us IS NULL)"),
        _check("launches_per_sample_positive", "launches_per_sample > 0"),
        _check("buffer_sets_positive", "buffer_sets > 0"),
        _check("median_us_positive", "median_us > 0 AND median_us < 1e300"),
        _link("study_id", "tuner_study.id"),
        _link("workload_id", "tuner_workload.id"),
        _link("trial_id", "tuner_trial.id"),
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table(TABLE)


def _text(name: str, *, nullable: bool) -> sa.Column[str]:
    """Return a column of text, which a server sorts by its bytes as SQLite does."""
    is_server = op.get_bind().dialect.name == "postgresql"
    return sa.Column(name, sa.Text(collation="C") if is_server else sa.Text(), nullable=nullable)


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{TABLE}_{name}"))


def _link(column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [target], name=f"fk_{TABLE}_{column}")
