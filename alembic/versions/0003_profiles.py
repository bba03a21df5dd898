"""Table of profiles.

Frozen: it says what revision 0003 was, and imports nothing that may change with the program.
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLE = "tuner_profile"
COUNTS = ("excluded_dispatches", "copy_dispatches", "fill_dispatches", "other_dispatches")
SIZES = (
    *("registers", "accumulation_registers", "scalar_registers"),
    *("shared_static_bytes", "shared_dynamic_bytes", "scratch_bytes"),
)
AXES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def upgrade() -> None:
    """Create the table; those of earlier revisions stay as they are."""
    op.create_table(
        TABLE,
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("environment_id", sa.Integer(), nullable=True),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=True),
        sa.Column("file_sha256", sa.String(64), nullable=True),
        sa.Column("profiler", sa.Text(), nullable=False),
        sa.Column("profiler_version", sa.Text(), nullable=True),
        sa.Column("kernel_name", sa.Text(), nullable=False),
        sa.Column("dispatches", sa.Integer(), nullable=False),
        sa.Column("excluded_dispatches", sa.Integer(), nullable=False),
        sa.Column("copy_dispatches", sa.Integer(), nullable=True),
        sa.Column("fill_dispatches", sa.Integer(), nullable=True),
        sa.Column("other_dispatches", sa.Integer(), nullable=False),
        sa.Column("samples_us", sa.Text(), nullable=True),
        sa.Column("median_us", sa.Double(), nullable=True),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in (*SIZES, *AXES)),
        sa.Column("extra", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("checksum", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("id", name=f"pk_{TABLE}"),
        sa.UniqueConstraint("trial_id", "file_sha256", name=f"uq_{TABLE}_trial_id_file_sha256"),
        *_checks(),
        _link("trial_id", "tuner_trial.id"),
        _link("environment_id", "tuner_environment.id"),
    )
    op.create_index(f"ix_{TABLE}_trial_id", TABLE, ["trial_id"])


def downgrade() -> None:
    """Drop the table."""
    op.drop_table(TABLE)


def _checks() -> list[sa.CheckConstraint]:
    return [
        _check("origin_known", "origin IN ('run', 'file')"),
        _check("profiler_known", "profiler IN ('ncu', 'rocprofv3')"),
        _check(
            "file_has_a_hash",
            "(origin = 'file') = (file_sha256 IS NOT NULL) "
            "AND (file_sha256 IS NULL) = (file_name IS NULL)",
        ),
        _check("run_has_an_environment", "(origin = 'run') = (environment_id IS NOT NULL)"),
        _check("samples_have_a_median", "(samples_us IS NULL) = (median_us IS NULL)"),
        _check("has_dispatches", "dispatches > excluded_dispatches AND length(kernel_name) > 0"),
        _check("median_us_positive", "median_us > 0 AND median_us < 1e300"),
        *(_check(f"{name}_not_negative", f"{name} >= 0") for name in (*COUNTS, *SIZES)),
        *(_check(f"{name}_positive", f"{name} > 0") for name in AXES),
    ]


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{TABLE}_{name}"))


def _link(column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [target], name=f"fk_{TABLE}_{column}")
