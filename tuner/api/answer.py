"""Asking for the best config."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.api.common import device_for
from tuner.api.common import find_operator
from tuner.api.common import open_database
from tuner.api.common import open_worker
from tuner.api.common import source_hashes
from tuner.domain.study import BestCandidate
from tuner.domain.workload import parse_shape
from tuner.domain.workload import Workload
from tuner.errors import UsageError
from tuner.report.best import answer_exact
from tuner.report.best import answer_same_architecture
from tuner.report.best import BestAnswer
from tuner.report.best import Match
from tuner.report.best import nearest_shape
from tuner.settings import load_settings
from tuner.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.worker.pool import DeviceWorker


def best(
    operator: str,
    shape: str | Sequence[int],
    *,
    dtype: str = "float32",
    scalars: Mapping[str, float] | None = None,
    device: str | None = None,
    architecture: str | None = None,
    implementation: str | None = None,
    match: Match | None = None,
    settings: Settings | None = None,
) -> BestAnswer:
    """Return the best stored config for a workload.

    Args:
        operator: Name of the operator.
        shape: ``"1024x4096"`` or ``(1024, 4096)``.
        dtype: Element type.
        scalars: Scalar arguments that differ from the operator's defaults.
        device: Device whose environment must match; None takes the setting.
        architecture: E.g. ``gfx1201``: answer for it without such a device here. Implies
            ``match="same-arch"``.
        implementation: Only this one.
        match: ``exact`` (default), ``same-arch`` or ``nearest-shape``.
        settings: None reads them from the environment and ``tuner.toml``.

    Raises:
        NotFound: Nothing matches; the message says what differs.
        DeviceUnavailable: The device can't be used.
        DatabaseProblem: The database can't be used.
    """
    from tuner.store import queries

    settings = settings or load_settings()
    if architecture is not None and match not in (None, "same-arch"):
        raise UsageError(
            f"--match {match} needs a device to compare with, --arch names none",
            hint="leave --arch out, or use --match same-arch",
        )
    found = find_operator(operator, settings)
    asked = found.workload(parse_shape(shape) if isinstance(shape, str) else shape, dtype, scalars)
    if implementation is not None:
        found.implementation(implementation)
    hashes = source_hashes(found)
    with open_database(settings, create=False, writable=False) as store:
        if architecture is not None:
            with store.session() as session:
                candidates = queries.best_candidates(
                    session, asked, implementation=implementation, with_samples=True
                )
            return answer_same_architecture(candidates, asked, architecture, None, hashes)
        with open_worker(device_for(device, "auto", settings), settings) as worker:
            pass
        with store.session() as session:
            return answer_here(session, asked, worker, hashes, implementation, match or "exact")


def answer_here(
    session: Session,
    asked: Workload,
    worker: DeviceWorker,
    hashes: Mapping[str, str],
    implementation: str | None = None,
    match: Match = "exact",
) -> BestAnswer:
    """Answer for the device of a worker, from an open store.

    Raises:
        NotFound: Nothing matches; the message says what differs.
    """

    from tuner.store import queries

    def candidates(workload: Workload) -> Sequence[BestCandidate]:
        return queries.best_candidates(
            session, workload, implementation=implementation, with_samples=True
        )

    here = worker.environment
    if match == "same-arch":
        return answer_same_architecture(
            candidates(asked), asked, worker.facts.architecture, here, hashes
        )
    if match == "nearest-shape":
        shapes = queries.tuned_shapes(session, asked, environment_key=here.key)
        nearest = nearest_shape(shapes, asked.shape)
        if nearest is not None and nearest != asked.shape:
            other = Workload(asked.operator, nearest, asked.dtype, asked.scalars)
            note = f"{asked.shape_text} was not measured; nearest measured is {other.shape_text}"
            return answer_exact(
                candidates(other), asked, here, hashes, match="nearest-shape", notes=[note]
            )
    return answer_exact(candidates(asked), asked, here, hashes)
