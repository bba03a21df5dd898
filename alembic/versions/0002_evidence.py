"""Tables of imported evidence and of reproductions.

Frozen: it says what revision 0002 was, and imports nothing that may change with the program.
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

OUTCOMES = (
    "outcome IN ('ok', 'wrong_result', 'non_finite', 'unstable_result', 'compile_error', "
    "'compile_timeout', 'launch_error', 'out_of_resources', 'out_of_memory', 'timeout', "
    "'crash', 'timer_error', 'skipped', 'interrupted')"
)


def upgrade() -> None:
    """Create the tables; those of revision 0001 stay as they are."""
    _create_evidence_file()
    _create_record()
    _create_reproduction()


def downgrade() -> None:
    """Drop the tables."""
    for table in ("tuner_reproduction", "tuner_record", "tuner_evidence_file"):
        op.drop_table(table)


def _create_evidence_file() -> None:
    table = "tuner_evidence_file"
    _table(
        table,
        sa.Column("sha256", sa.String(64), nullable=False),
        *_texts("name", "format"),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("imported_at", _instant(), nullable=False),
        sa.UniqueConstraint("sha256", name=f"uq_{table}_sha256"),
        _check(table, "size_bytes_not_negative", "size_bytes >= 0"),
    )


def _create_record() -> None:
    table = "tuner_record"
    times = ("median_us", "low_us", "high_us")
    errors = ("max_abs_error", "max_rel_error")
    _table(
        table,
        sa.Column("file_id", sa.Integer(), nullable=False),
        sa.Column("line", sa.Integer(), nullable=False),
        *_texts("evidence", "origin", "outcome", "message", "timer", "statistic", "unit"),
        *_texts("scalars", "config", "protocol", "environment", "extra"),
        *_texts(
            *("operator", "implementation", "language", "runtime", "shape", "dtype"),
            *("median_text", "low_text", "high_text", "sample_texts", "samples_us"),
            nullable=True,
        ),
        *(sa.Column(name, sa.Double(), nullable=True) for name in (*times, *errors)),
        sa.Column("measured_on", sa.String(10), nullable=True),
        sa.UniqueConstraint("file_id", "line", name=f"uq_{table}_file_id_line"),
        *_record_checks(table),
        *(_check(table, f"{name}_positive", f"{name} > 0 AND {name} < 1e300") for name in times),
        *(
            _check(table, f"{name}_not_negative", f"{name} >= 0 AND {name} < 1e300")
            for name in errors
        ),
        _link(table, "file_id", "tuner_evidence_file.id"),
    )
    op.create_index(f"ix_{table}_evidence", table, ["evidence"])


def _record_checks(table: str) -> tuple[sa.CheckConstraint, ...]:
    return (
        _check(table, "line_positive", "line > 0"),
        _check(table, "origin_known", "origin = 'imported'"),
        _check(table, "outcome_known", OUTCOMES),
        _check(table, "unit_known", "unit IN ('s', 'ms', 'us', 'ns')"),
        _check(table, "timer_known", "timer IN ('event', 'kernel_trace', 'unstated')"),
        _check(
            table,
            "statistic_known",
            "statistic IN ('median', 'median_of_process_medians', 'mean')",
        ),
        _check(table, "ok_has_a_figure", "(outcome = 'ok') = (median_us IS NOT NULL)"),
        _check(table, "failure_has_a_reason", "outcome = 'ok' OR length(message) > 0"),
        _check(
            table,
            "range_is_a_range",
            "(low_us IS NULL) = (high_us IS NULL) AND (low_us IS NULL OR low_us <= high_us)",
        ),
        _check(table, "samples_as_written_too", "(samples_us IS NULL) = (sample_texts IS NULL)"),
        _check(table, "measured_on_a_day", "measured_on IS NULL OR length(measured_on) = 10"),
    )


def _create_reproduction() -> None:
    table = "tuner_reproduction"
    ratios = ("ratio", "ratio_low", "ratio_high")
    _table(
        table,
        *_texts("original_kind", "original_id", "verdict", "differences"),
        sa.Column("rerun_study_id", sa.Integer(), nullable=True),
        sa.Column("rerun_trial_id", sa.Integer(), nullable=True),
        *(sa.Column(name, sa.Double(), nullable=True) for name in (*ratios, "threshold")),
        sa.Column("created_at", _instant(), nullable=False),
        _check(
            table,
            "original_kind_known",
            "original_kind IN ('trial', 'record', 'study', 'folder')",
        ),
        _check(table, "original_has_an_id", "length(original_id) > 0"),
        _check(
            table,
            "verdict_known",
            "verdict IN ('same', 'faster', 'slower', 'ambiguous', 'wrong', 'not_comparable')",
        ),
        _check(
            table,
            "verdict_has_a_ratio",
            "verdict IN ('wrong', 'not_comparable') OR ratio IS NOT NULL",
        ),
        _check(
            table,
            "interval_is_an_interval",
            "(ratio_low IS NULL) = (ratio_high IS NULL) "
            "AND (ratio_low IS NULL OR ratio_low <= ratio_high)",
        ),
        *(_check(table, f"{name}_positive", f"{name} > 0 AND {name} < 1e300") for name in ratios),
        _check(table, "threshold_not_negative", "threshold >= 0 AND threshold < 1e300"),
        _link(table, "rerun_study_id", "tuner_study.id"),
        _link(table, "rerun_trial_id", "tuner_trial.id"),
    )
    op.create_index(
        f"ix_{table}_original_kind_original_id", table, ["original_kind", "original_id"]
    )
    op.create_index(f"ix_{table}_rerun_study_id", table, ["rerun_study_id"])


def _table(name: str, *items: sa.schema.SchemaItem) -> None:
    """Create a table with an id of its own and a row checksum."""
    key = sa.PrimaryKeyConstraint("id", name=f"pk_{name}")
    checksum = sa.Column("checksum", sa.String(16), nullable=False)
    op.create_table(name, sa.Column("id", sa.Integer(), nullable=False), *items, checksum, key)


def _texts(*names: str, nullable: bool = False) -> list[sa.Column]:
    return [sa.Column(name, sa.Text(), nullable=nullable) for name in names]


def _instant() -> sa.DateTime:
    return sa.DateTime(timezone=True)


def _check(table: str, name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{table}_{name}"))


def _link(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [target], name=f"fk_{table}_{column}")
