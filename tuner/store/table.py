"""The only way rows are inserted and changed: with their checksum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import and_
from sqlalchemy import bindparam
from sqlalchemy import Column
from sqlalchemy import Connection
from sqlalchemy import insert
from sqlalchemy import Select
from sqlalchemy import select
from sqlalchemy import Table
from sqlalchemy import Update
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase

from tuner.store.checksums import CHECKSUM_COLUMN
from tuner.store.checksums import NO_CHECKSUM
from tuner.store.checksums import row_checksum
from tuner.store.models import ProcessRow
from tuner.store.models import SampleRow
from tuner.store.rows import Values


def table_of(model: type[DeclarativeBase]) -> Table:
    """Return a model's table."""
    table = model.__table__
    assert isinstance(table, Table)
    return table


def insert_row(
    connection: Connection,
    model: type[DeclarativeBase],
    values: Values,
    samples_us: Sequence[float] = (),
) -> int:
    """Insert a row with an id of its own and return the id. Columns not given are NULL."""
    table = table_of(model)
    row = _complete(table, values)
    result = connection.execute(insert(table), {**row, CHECKSUM_COLUMN: NO_CHECKSUM})
    assert result.inserted_primary_key is not None
    row_id = int(result.inserted_primary_key[0])
    _stamp(connection, table, {"id": row_id, **row}, samples_us)
    return row_id


def insert_rows(
    connection: Connection, model: type[DeclarativeBase], values: Sequence[Values]
) -> None:
    """Insert many rows in few statements."""
    if not values:
        return
    table = table_of(model)
    complete = [_complete(table, each) for each in values]
    statement = insert(table).returning(table.c.id, sort_by_parameter_order=True)
    ids = connection.scalars(
        statement, [{**row, CHECKSUM_COLUMN: NO_CHECKSUM} for row in complete]
    ).all()
    stamps = [
        {"row_id": row_id, CHECKSUM_COLUMN: row_checksum(table.name, {"id": row_id, **row})}
        for row_id, row in zip(ids, complete, strict=True)
    ]
    connection.execute(_update_statement(table), stamps)


def restore_row(
    connection: Connection,
    model: type[DeclarativeBase],
    values: Values,
    samples_us: Sequence[float] = (),
) -> None:
    """Insert a row of another database under the primary key it had there."""
    table = table_of(model)
    stamp = row_checksum(table.name, values, samples_us)
    connection.execute(insert(table), {**values, CHECKSUM_COLUMN: stamp})


def insert_process(connection: Connection, values: Values, samples_us: Sequence[float]) -> int:
    """Insert a process with its samples and return its id."""
    process_id = insert_row(connection, ProcessRow, values, samples_us)
    insert_samples(connection, process_id, samples_us)
    return process_id


def insert_samples(connection: Connection, process_id: int, samples_us: Sequence[float]) -> None:
    """Insert the samples of a process whose checksum covers them already."""
    if samples_us:
        connection.execute(
            insert(table_of(SampleRow)),
            [
                {"process_id": process_id, "position": position, "time_us": time_us}
                for position, time_us in enumerate(samples_us)
            ],
        )


def find_or_insert(
    connection: Connection, model: type[DeclarativeBase], unique: Sequence[str], values: Values
) -> Any:
    """Return the primary key of the row with these unique values, inserted if there is none."""
    table = table_of(model)
    key = _key_column(table)
    query = select(key).where(and_(*(table.c[name] == values[name] for name in unique)))
    found = connection.scalar(query)
    if found is not None:
        return found
    try:
        with connection.begin_nested():
            if key.name == "id":
                return insert_row(connection, model, values)
            stamp = row_checksum(table.name, _complete(table, values))
            connection.execute(insert(table), {**values, CHECKSUM_COLUMN: stamp})
            return values[key.name]
    except IntegrityError:
        # On a server, another process can insert the same row between the two statements.
        return connection.scalars(query).one()


def read_row(connection: Connection, model: type[DeclarativeBase], row_id: int) -> Values | None:
    """Return a row by its id, or None."""
    row = connection.execute(_row_query(table_of(model)), {"row_id": row_id}).mappings().first()
    return None if row is None else dict(row)


def update_row(
    connection: Connection,
    model: type[DeclarativeBase],
    row_id: int,
    changes: Values,
    stored: Values | None = None,
) -> None:
    """Change columns of a row (not of a process: its checksum covers samples).

    Args:
        connection: In a transaction.
        model: Table.
        row_id: Which row.
        changes: New values by column.
        stored: The row as it is, if it was read in this transaction already.
    """
    table = table_of(model)
    if stored is None:
        stored = read_row(connection, model, row_id)
        assert stored is not None, f"{table.name} has no row {row_id}"
    stamp = row_checksum(table.name, {**stored, **changes})
    changed = {**changes, CHECKSUM_COLUMN: stamp}
    connection.execute(_update_statement(table), {"row_id": row_id, **changed})


def _key_column(table: Table) -> Column[Any]:
    (column,) = table.primary_key.columns
    return column


def _complete(table: Table, values: Values) -> Values:
    """Return all columns but ``id`` and checksum; what is not given is NULL."""
    unknown = values.keys() - table.columns.keys()
    assert not unknown, f"{table.name} has no {sorted(unknown)}"
    names = [name for name in table.columns.keys() if name not in ("id", CHECKSUM_COLUMN)]  # noqa: SIM118
    return {name: values.get(name) for name in names}


# Built once: building a statement takes as long as running it.
@cache
def _row_query(table: Table) -> Select[*tuple[Any, ...]]:
    return select(table).where(table.c.id == bindparam("row_id"))


@cache
def _update_statement(table: Table) -> Update:
    """Return an update of the columns that it is executed with."""
    return update(table).where(table.c.id == bindparam("row_id"))


def _stamp(connection: Connection, table: Table, row: Values, samples_us: Sequence[float]) -> None:
    stamp = row_checksum(table.name, row, samples_us)
    connection.execute(_update_statement(table), {"row_id": row["id"], CHECKSUM_COLUMN: stamp})
