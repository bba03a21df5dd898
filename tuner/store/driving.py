"""Opening a study for one process at a time, and telling what a dead one left behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from datetime import UTC
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import func
from sqlalchemy import RowMapping
from sqlalchemy import select

from tuner.domain.identity import canonical_json
from tuner.domain.outcome import Outcome
from tuner.domain.study import OpenedStudy
from tuner.domain.study import StudyDefinition
from tuner.errors import EnvironmentProblem
from tuner.store import leases
from tuner.store import owner
from tuner.store import rows
from tuner.store.left_behind import cut_off_by
from tuner.store.models import EnvironmentRow
from tuner.store.models import ImplementationRow
from tuner.store.models import ProtocolRow
from tuner.store.models import SourceRow
from tuner.store.models import StudyRow
from tuner.store.models import TrialRow
from tuner.store.problems import checked_integer
from tuner.store.rows import Values
from tuner.store.server import take_turns
from tuner.store.table import find_or_insert
from tuner.store.table import insert_row
from tuner.store.table import table_of
from tuner.store.table import update_row


@dataclass(frozen=True, slots=True)
class DrivenStudy:
    """The rows that all trials of an opened study refer to."""

    environment_id: int
    protocol_id: int
    implementation_ids: Mapping[str, int]
    source_hashes: Mapping[str, str]

    def trial_values(self, implementation: str) -> Values:
        """Return the columns that a trial shares with others of its study."""
        return {
            "implementation_id": self.implementation_ids[implementation],
            "source_hash": self.source_hashes[implementation],
            "environment_id": self.environment_id,
            "protocol_id": self.protocol_id,
        }


def store_definition(connection: Connection, definition: StudyDefinition) -> DrivenStudy:
    """Store what a definition refers to, unless it is there."""
    environment = rows.environment_values(definition.environment)
    # In an order that is the same for all: two processes that insert the same rows at the same
    # time wait for each other, and must not do so in a circle.
    for source in sorted(definition.sources.values(), key=lambda each: each.source_hash):
        find_or_insert(connection, SourceRow, ["source_hash"], rows.source_values(source))
    implementation_ids = {}
    for name in sorted(definition.sources):
        language = definition.languages[name]
        values = {"operator": definition.operator, "name": name, "language": language}
        implementation_ids[name] = find_or_insert(
            connection, ImplementationRow, list(values), values
        )
    return DrivenStudy(
        environment_id=find_or_insert(connection, EnvironmentRow, ["fingerprint"], environment),
        protocol_id=find_or_insert(
            connection, ProtocolRow, ["key"], rows.protocol_values(definition.protocol)
        ),
        implementation_ids=implementation_ids,
        source_hashes={name: each.source_hash for name, each in definition.sources.items()},
    )


def open_study(
    connection: Connection, definition: StudyDefinition, driven: DrivenStudy, *, fresh: bool
) -> OpenedStudy:
    """Create a study, or take over the newest one of equal key.

    Raises:
        EnvironmentProblem: A living process drives it.
    """
    take_turns(connection, f"study {definition.key}")
    table = table_of(StudyRow)
    newest = select(table).where(table.c.key == definition.key)
    newest = newest.order_by(table.c.generation.desc()).limit(1).with_for_update(key_share=True)
    study = connection.execute(newest).mappings().first()
    if study is None or fresh:
        generation = 0 if study is None else study["generation"] + 1
        return _create(connection, definition, driven, generation)
    if study["state"] == "finished":
        return OpenedStudy(study["id"], "finished", study["previous_id"])
    interrupted = _take_over(connection, study, definition.planned)
    return OpenedStudy(study["id"], "resumed", study["previous_id"], interrupted)


def interrupt_running(connection: Connection, study_id: int, message: str) -> int:
    """End a study's running trials as interrupted and return how many there were."""
    table = table_of(TrialRow)
    running = select(table.c.id).where(table.c.study_id == study_id, table.c.outcome.is_(None))
    trial_ids = connection.scalars(running).all()
    for trial_id in trial_ids:
        update_row(
            connection,
            TrialRow,
            trial_id,
            {
                "outcome": Outcome.INTERRUPTED.value,
                "message": message,
                "finished_at": datetime.now(UTC),
            },
        )
    return len(trial_ids)


def release(connection: Connection, study_id: int) -> None:
    """Give a study up, so that it can be gone on with at once, also from another machine."""
    table = table_of(StudyRow)
    query = select(table.c.owner).where(table.c.id == study_id).with_for_update(key_share=True)
    holder = connection.scalar(query)
    if holder != str(owner.this_process()):
        return  # finished, or taken over since
    interrupt_running(connection, study_id, "the run was ended while the trial ran")
    update_row(connection, StudyRow, study_id, {"owner": None})


def _create(
    connection: Connection, definition: StudyDefinition, driven: DrivenStudy, generation: int
) -> OpenedStudy:
    table = table_of(StudyRow)
    others = select(func.max(table.c.id)).where(
        table.c.name == definition.name, table.c.key != definition.key
    )
    previous_id = connection.scalar(others)
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "name": definition.name,
        "key": definition.key,
        "generation": generation,
        "operator": definition.operator,
        "spec": canonical_json(dict(definition.spec)),
        "device_id": definition.device_id,
        "environment_id": driven.environment_id,
        "protocol_id": driven.protocol_id,
        "sources": canonical_json(dict(driven.source_hashes)),
        "sampler": definition.sampler,
        "sampler_seed": checked_integer("sampler seed", definition.sampler_seed),
        "planned": definition.planned,
        "state": "running",
        "previous_id": previous_id,
        "owner": str(owner.this_process()),
        "owned_at": now,
        "created_at": now,
    }
    study_id = insert_row(connection, StudyRow, values)
    leases.renew(connection, study_id)
    return OpenedStudy(study_id, "new", previous_id)


def _take_over(connection: Connection, study: RowMapping, planned: int) -> int:
    """Make this process the owner; return how many trials the last one left running."""
    me = owner.this_process()
    message = "the run was ended while the trial ran"
    if study["owner"] and study["owner"] != str(me):
        holder = owner.parse_owner(study["owner"])
        if leases.is_driven(connection, dict(study)):
            where = "" if owner.is_here(holder) else " on another machine"
            raise EnvironmentProblem(
                f"study {study['name']} (id {study['id']}) is being run by process "
                f"{holder.pid}{where}",
                hint="wait for it or end it; `--fresh` starts the study anew beside it",
            )
        message = cut_off_by(holder)
    interrupted = interrupt_running(connection, study["id"], message)
    changes = {"owner": str(me), "owned_at": datetime.now(UTC), "planned": planned}
    update_row(connection, StudyRow, study["id"], changes)
    leases.renew(connection, study["id"])
    return interrupted
