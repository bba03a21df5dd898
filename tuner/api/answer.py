"""Asking for the best config."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tuner.api.common import find_operator
from tuner.api.common import open_database
from tuner.api.common import source_hashes
from tuner.api.known_devices import DeviceFinder
from tuner.api.known_devices import find_here
from tuner.api.question import Asked
from tuner.api.question import asked
from tuner.api.question import Question
from tuner.domain.environment import Environment
from tuner.domain.study import BestCandidate
from tuner.domain.workload import Workload
from tuner.report.best import answer_exact
from tuner.report.best import answer_same_architecture
from tuner.report.best import BestAnswer
from tuner.report.best import Match
from tuner.report.best import nearest_shape
from tuner.report.best import source_is_current
from tuner.settings import load_settings
from tuner.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tuner.store.answer_reads import AnswerReads


def best(
    operator: str,
    shape: str | Sequence[int],
    *,
    dtype: str = "float32",
    scalars: Mapping[str, float] | None = None,
    row_padding: int = 0,
    device: str | None = None,
    architecture: str | None = None,
    implementation: str | None = None,
    match: Match | None = None,
    find_device: DeviceFinder = find_here,
    settings: Settings | None = None,
) -> BestAnswer:
    """Return the best stored config for a workload.

    Args:
        operator: Name of the operator.
        shape: ``"1024x4096"`` or ``(1024, 4096)``.
        dtype: Element type.
        scalars: Scalar arguments that differ from the operator's defaults.
        row_padding: Elements between the end of a row and the next one.
        device: Device whose environment must match; None takes the setting.
        architecture: E.g. ``gfx1201``: answer for it without such a device here, instead of for
            ``device``. Implies ``match="same-arch"``.
        implementation: Only this one.
        match: ``exact`` (default), ``same-arch`` or ``nearest-shape``.
        find_device: Tells the environment of a device; the default asks a process on this
            machine.
        settings: None reads them from the environment and ``tuner.toml``.

    Raises:
        NotFound: Nothing matches; the message says what differs.
        UsageError: What is asked for is no workload of the operator.
        DeviceUnavailable: The device can't be used.
        DatabaseProblem: The database can't be used.
    """
    settings = settings or load_settings()
    wanted = asked(
        operator,
        shape,
        settings,
        dtype=dtype,
        scalars=scalars,
        row_padding=row_padding,
        device=device,
        architecture=architecture,
        implementation=implementation,
        match=match,
    )
    with open_answer(wanted, find_device, settings) as (_, answer):
        return answer


@contextmanager
def open_answer(
    wanted: Asked, find_device: DeviceFinder, settings: Settings
) -> Iterator[tuple[Session, BestAnswer]]:
    """Give the answer to a question, and the state of the database that it follows from.

    Raises:
        NotFound: Nothing matches; the message says what differs.
        DeviceUnavailable: The device can't be used.
        DatabaseProblem: The database can't be used.
    """
    from tuner.store.answer_reads import AnswerReads
    from tuner.store.known_devices import registered_devices

    operator_here = find_operator(wanted.operator, settings)
    workload = wanted.question.workload(operator_here)
    hashes = source_hashes(operator_here)
    with open_database(settings, create=False, writable=False) as store:
        here = None
        if wanted.device is not None:
            with store.session() as session:
                registered = registered_devices(session)
            here = find_device(wanted.device, settings, registered)
        with store.session() as session:
            reads = AnswerReads(session)
            answer = answer_question(reads, wanted.question, workload, here, hashes)
            yield session, _with_all_samples(reads, answer)


def answer_here(
    session: Session, asked: Workload, here: Environment, hashes: Mapping[str, str]
) -> BestAnswer:
    """Answer for an environment, from an open store.

    Raises:
        NotFound: Nothing matches; the message says what differs.
    """
    from tuner.store.answer_reads import AnswerReads

    reads = AnswerReads(session)
    answer = answer_question(reads, Question(asked.shape), asked, here, hashes)
    return _with_all_samples(reads, answer)


def answer_question(
    reads: AnswerReads,
    question: Question,
    asked: Workload,
    here: Environment | None,
    hashes: Mapping[str, str],
) -> BestAnswer:
    """Answer from an open store, reading no more of it than decides the answer.

    Args:
        reads: Of the store.
        question: What is asked.
        asked: The question's workload.
        here: Machine and toolchain to answer for; None where the question has an architecture.
        hashes: Today's source hash of each implementation.

    Raises:
        NotFound: Nothing matches; the message says what differs.
    """
    from tuner.report.controls import notes_of

    answer = _matching_answer(reads, question, asked, here, hashes)
    notes = notes_of(reads.controls(answer.best.trial_id), answer.best.median_us)
    return replace(answer, notes=(*answer.notes, *notes))


def _matching_answer(
    reads: AnswerReads,
    question: Question,
    asked: Workload,
    here: Environment | None,
    hashes: Mapping[str, str],
) -> BestAnswer:
    candidates = partial(reads.candidates, implementation=question.implementation)
    if here is None or question.match == "same-arch":
        architecture = question.architecture or (here and here.identity.get("architecture")) or ""
        found = candidates(asked, architecture=architecture)
        return answer_same_architecture(
            found, asked, architecture, here, hashes, read_samples=reads.samples
        )
    wanted, notes = asked, []
    if question.match == "nearest-shape":
        shapes = reads.tuned_shapes(
            asked, environment_key=here.key, implementation=question.implementation
        )
        nearest = nearest_shape(shapes, asked.shape)
        if nearest is not None and nearest != asked.shape:
            wanted = replace(asked, shape=nearest)
            notes = [
                f"{asked.shape_text} was not measured; nearest measured is {wanted.shape_text}"
            ]
    found = candidates(wanted, environment_key=here.key)
    if not any(source_is_current(each, hashes) for each in found):
        found = candidates(wanted)  # of every environment, to say what differs
    match: Match = "nearest-shape" if notes else "exact"
    return answer_exact(
        found, asked, here, hashes, match=match, notes=notes, read_samples=reads.samples
    )


def _with_all_samples(reads: AnswerReads, answer: BestAnswer) -> BestAnswer:
    """Return an answer whose candidates all have their samples, read or not to decide it."""
    listed = [answer.best, *answer.ties, *([answer.runner_up] if answer.runner_up else [])]
    missing = [each.trial_id for each in listed if not each.samples_us]
    samples = reads.samples(missing)

    def filled(candidate: BestCandidate) -> BestCandidate:
        found = samples.get(candidate.trial_id)
        return replace(candidate, samples_us=found) if found else candidate

    return replace(
        answer,
        best=filled(answer.best),
        ties=tuple(filled(each) for each in answer.ties),
        runner_up=answer.runner_up and filled(answer.runner_up),
    )
