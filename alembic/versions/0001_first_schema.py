"""First schema.

Frozen: it says what revision 0001 was, and imports nothing that may change with the program.
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

OUTCOMES = (
    "outcome IN ('ok', 'wrong_result', 'non_finite', 'unstable_result', 'compile_error', "
    "'compile_timeout', 'launch_error', 'out_of_resources', 'out_of_memory', 'timeout', "
    "'crash', 'timer_error', 'skipped', 'interrupted')"
)
STAGES = "stage IN ('plan', 'build', 'validate', 'measure', 'revalidate', 'confirm')"


def upgrade() -> None:
    """Create all tables."""
    _create_vocabulary()
    _create_study()
    _create_trial()
    _create_process()
    _create_validation()


def downgrade() -> None:
    """Drop all tables."""
    for table in (
        *("validation", "sample", "process", "trial", "study"),
        *("workload", "source", "protocol", "implementation", "environment"),
    ):
        op.drop_table(f"tuner_{table}")


def _create_vocabulary() -> None:
    _table(
        "tuner_workload",
        *_texts("operator", "shape", "strides", "dtype", "scalars"),
        _hash("key"),
        _unique("tuner_workload", "key"),
    )
    op.create_index(
        "ix_tuner_workload_operator_dtype_shape", "tuner_workload", ["operator", "dtype", "shape"]
    )
    names = ("operator", "name", "language")
    _table("tuner_implementation", *_texts(*names), _unique("tuner_implementation", *names))
    op.create_table(
        "tuner_source",
        _hash("source_hash"),
        *_texts("language", "entry", "main", "files"),
        _checksum(),
        sa.PrimaryKeyConstraint("source_hash", name="pk_tuner_source"),
    )
    _table(
        "tuner_environment",
        _hash("key"),
        _hash("fingerprint"),
        *_texts("architecture", "identity", "context"),
        _unique("tuner_environment", "fingerprint"),
    )
    op.create_index("ix_tuner_environment_key", "tuner_environment", ["key"])
    _table("tuner_protocol", _hash("key"), *_texts("fields"), _unique("tuner_protocol", "key"))


def _create_study() -> None:
    table = "tuner_study"
    _table(
        table,
        _hash("key"),
        *_texts("name", "operator", "spec", "device_id", "sources", "sampler", "state"),
        *_ids("generation", "planned", "environment_id", "protocol_id"),
        sa.Column("previous_id", sa.Integer(), nullable=True),
        sa.Column("sampler_seed", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        *(sa.Column(name, _instant(), nullable=False) for name in ("owned_at", "created_at")),
        sa.Column("finished_at", _instant(), nullable=True),
        _unique(table, "key", "generation"),
        _check(table, "state_known", "state IN ('running', 'finished')"),
        _check(table, "planned_not_negative", "planned >= 0"),
        _check(table, "end_has_a_time", "(state = 'finished') = (finished_at IS NOT NULL)"),
        _link(table, "environment_id", "tuner_environment.id"),
        _link(table, "protocol_id", "tuner_protocol.id"),
        _link(table, "previous_id", "tuner_study.id"),
    )
    op.create_index("ix_tuner_study_name", table, ["name"])


def _create_trial() -> None:
    table = "tuner_trial"
    times = ("quick_median_us", "median_us", "low_us", "high_us", "bandwidth_gb_s")
    durations = ("build_s", "validate_s", "measure_s", "max_abs_error", "max_rel_error")
    sizes = ("registers", "spills", "spill_bytes", "shared_bytes", "code_bytes", "bytes_moved")
    point = ("study_id", "workload_id", "implementation_id", "config_key", "attempt")
    _table(
        table,
        *_ids("study_id", "workload_id", "implementation_id", "environment_id", "protocol_id"),
        *_ids("attempt"),
        sa.Column("reused_from_id", sa.Integer(), nullable=True),
        _hash("source_hash"),
        _hash("config_key"),
        _hash("binary_hash", nullable=True),
        *_texts("config", "origin", "message", "log", "warnings"),
        *_texts("geometry", "outcome", "stage", "compiler", "build_options", nullable=True),
        sa.Column("started_at", _instant(), nullable=False),
        sa.Column("finished_at", _instant(), nullable=True),
        *(sa.Column(name, sa.Double(), nullable=True) for name in (*times, *durations)),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in sizes),
        sa.Column("build_cached", _boolean(table, "build_cached"), nullable=True),
        sa.Column("confirmed", _boolean(table, "confirmed"), nullable=False),
        sa.UniqueConstraint(*point, name="uq_tuner_trial_point"),
        *_trial_checks(table),
        *(_check(table, f"{name}_positive", f"{name} > 0 AND {name} < 1e300") for name in times),
        *_not_negative(table, *durations),
        _link(table, "study_id", "tuner_study.id"),
        _link(table, "workload_id", "tuner_workload.id"),
        _link(table, "implementation_id", "tuner_implementation.id"),
        _link(table, "source_hash", "tuner_source.source_hash"),
        _link(table, "environment_id", "tuner_environment.id"),
        _link(table, "protocol_id", "tuner_protocol.id"),
        _link(table, "reused_from_id", "tuner_trial.id"),
    )
    for columns in (
        ["workload_id", "confirmed", "median_us"],
        ["config_key", "workload_id"],
        ["study_id", "outcome"],
    ):
        op.create_index(f"ix_{table}_{'_'.join(columns)}", table, columns)


def _trial_checks(table: str) -> tuple[sa.CheckConstraint, ...]:
    return (
        _check(table, "outcome_known", OUTCOMES),
        _check(table, "stage_known", STAGES),
        _check(table, "origin_known", "origin IN ('measured', 'imported')"),
        _check(table, "attempt_not_negative", "attempt >= 0"),
        _check(table, "end_has_a_time", "(outcome IS NULL) = (finished_at IS NULL)"),
        _check(
            table,
            "failure_has_a_reason",
            "outcome IS NULL OR outcome = 'ok' OR (length(message) > 0 "
            "AND (outcome = 'interrupted' OR stage IS NOT NULL))",
        ),
        _check(
            table,
            "confirmed_is_ok",
            "NOT confirmed OR (outcome IS NOT NULL AND outcome = 'ok' AND median_us IS NOT NULL "
            "AND low_us IS NOT NULL AND high_us IS NOT NULL "
            "AND low_us <= median_us AND median_us <= high_us)",
        ),
        _check(table, "median_is_confirmed", "confirmed OR median_us IS NULL"),
    )


def _create_process() -> None:
    table = "tuner_process"
    readings = [
        *("clock_before_mhz", "clock_after_mhz"),
        *("memory_clock_before_mhz", "memory_clock_after_mhz"),
        *("temperature_before_c", "temperature_after_c", "power_before_w", "power_after_w"),
    ]
    _table(
        table,
        *_ids("trial_id", "position"),
        *_texts("stage", "outcome", "message"),
        sa.Column("submission", sa.Text(), nullable=True),
        *(sa.Column(name, sa.Double(), nullable=True) for name in ("median_us", *readings)),
        sa.Column("launches_per_sample", sa.BigInteger(), nullable=True),
        sa.Column("buffer_sets", sa.Integer(), nullable=True),
        sa.Column("recorded_at", _instant(), nullable=False),
        _unique(table, "trial_id", "stage", "position"),
        _check(table, "stage_known", "stage IN ('quick', 'confirm')"),
        _check(table, "outcome_known", OUTCOMES),
        _check(table, "position_not_negative", "position >= 0"),
        _check(table, "failure_has_a_reason", "outcome = 'ok' OR length(message) > 0"),
        _check(table, "ok_has_a_median", "outcome <> 'ok' OR median_us IS NOT NULL"),
        _check(table, "launches_per_sample_positive", "launches_per_sample > 0"),
        _check(table, "buffer_sets_positive", "buffer_sets > 0"),
        _check(table, "median_us_positive", "median_us > 0 AND median_us < 1e300"),
        _link(table, "trial_id", "tuner_trial.id"),
    )
    op.create_table(
        "tuner_sample",
        *_ids("process_id", "position"),
        sa.Column("time_us", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("process_id", "position", name="pk_tuner_sample"),
        _check("tuner_sample", "time_us_positive", "time_us > 0 AND time_us < 1e300"),
        _link("tuner_sample", "process_id", "tuner_process.id"),
        sqlite_with_rowid=False,
    )


def _create_validation() -> None:
    table = "tuner_validation"
    errors = ("max_abs_error", "max_rel_error")
    _table(
        table,
        *_ids("trial_id"),
        sa.Column("process_id", sa.Integer(), nullable=True),
        *_texts("phase", "input_case", "message"),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("passed", _boolean(table, "passed"), nullable=False),
        *(sa.Column(name, sa.Double(), nullable=True) for name in errors),
        sa.Column("mismatches", sa.BigInteger(), nullable=False),
        sa.Column("first_bad_index", sa.Text(), nullable=True),
        _check(table, "phase_known", "phase IN ('before', 'after')"),
        _check(table, "mismatches_not_negative", "mismatches >= 0"),
        *_not_negative(table, *errors),
        _link(table, "trial_id", "tuner_trial.id"),
        _link(table, "process_id", "tuner_process.id"),
    )
    op.create_index("ix_tuner_validation_trial_id", table, ["trial_id"])
    op.create_index("ix_tuner_validation_process_id", table, ["process_id"])


def _table(name: str, *items: sa.schema.SchemaItem) -> None:
    """Create a table with an id of its own and a row checksum."""
    key = sa.PrimaryKeyConstraint("id", name=f"pk_{name}")
    op.create_table(name, sa.Column("id", sa.Integer(), nullable=False), *items, _checksum(), key)


def _texts(*names: str, nullable: bool = False) -> list[sa.Column]:
    return [sa.Column(name, sa.Text(), nullable=nullable) for name in names]


def _ids(*names: str) -> list[sa.Column]:
    return [sa.Column(name, sa.Integer(), nullable=False) for name in names]


def _hash(name: str, *, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.String(64), nullable=nullable)


def _checksum() -> sa.Column:
    return sa.Column("checksum", sa.String(16), nullable=False)


def _instant() -> sa.DateTime:
    return sa.DateTime(timezone=True)


def _boolean(table: str, column: str) -> sa.Boolean:
    return sa.Boolean(create_constraint=True, name=op.f(f"ck_{table}_{column}_is_bool"))


def _unique(table: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=f"uq_{table}_{'_'.join(columns)}")


def _check(table: str, name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{table}_{name}"))


def _not_negative(table: str, *columns: str) -> list[sa.CheckConstraint]:
    return [
        _check(table, f"{column}_not_negative", f"{column} >= 0 AND {column} < 1e300")
        for column in columns
    ]


def _link(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [target], name=f"fk_{table}_{column}")
