"""How the blocks of a split row exchange their sums, under every order of their steps.

A model of ``rmsnorm_split.hip``, not the kernel: a block publishes its sum, looks at each word a
bounded number of times, computes what it did not see, counts itself, and the last to count puts
the words back to 0, one by one, waiting for those that it has not seen. Each step is one atomic
operation on one word, as in the kernel. No fence orders them: what a block publishes may arrive at
any time, also after it has counted itself. The looks of a block are made by different threads, so
they come in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

UNSEEN, MISSING = 0, -1  # what a block knows of a part; a sum is positive


class Block(NamedTuple):
    """One block: its next step, what it knows of each part, how often it has looked, and more.

    Attributes:
        seen: Of each part, whether it was seen, not computed.
        has_published: Whether its sum has arrived.
        reset: One more than the word that it puts back next; 0 where it puts none back.
    """

    step: str
    knows: tuple[int, ...]
    looks: tuple[int, ...]
    seen: tuple[int, ...]
    has_published: bool = False
    reset: int = 0


class State(NamedTuple):
    """The exchange words, a counter last, and every block."""

    words: tuple[int, ...]
    blocks: tuple[Block, ...]


ORDER = ("look", "help", "count")
# The same steps without one of them: the model must see the fault.
NEVER_HELPS = ("look", "count")
NEVER_WAITS = ("look", "help", "count", "no wait")


def after(order: tuple[str, ...], step: str) -> str:
    position = order.index(step) + 1
    return order[position] if position < len(ORDER) and position < len(order) else "done"


def with_word(words: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return (*words[:index], value, *words[index + 1 :])


def next_steps(
    state: State, own: int, sums: tuple[int, ...], looks: int, order: tuple[str, ...]
) -> Iterator[tuple[tuple[int, ...], Block]]:
    """Yield what each step that this block may take next makes of the words and the block."""
    words, block = state.words, state.blocks[own]
    parts = len(sums)
    if not block.has_published:
        yield with_word(words, own, sums[own]), block._replace(has_published=True)
    if block.reset:  # the last to count, on its way through the words
        index = block.reset - 1
        is_there = index == parts or block.seen[index] or words[index] or "no wait" in order
        if is_there:
            left = 0 if index == parts else block.reset + 1
            yield with_word(words, index, 0), block._replace(reset=left)
    elif block.step == "look":
        for part in range(parts):
            if block.knows[part] != UNSEEN:
                continue
            tried = block.looks[part] + 1
            found = words[part] or (MISSING if tried == looks else UNSEEN)
            knows = with_word(block.knows, part, found)
            yield (
                words,
                block._replace(
                    step=after(order, "look") if UNSEEN not in knows else "look",
                    knows=knows,
                    looks=with_word(block.looks, part, tried),
                    seen=with_word(block.seen, part, int(words[part] != 0)),
                ),
            )
    elif block.step == "help":
        pairs = zip(block.knows, sums, strict=True)
        knows = tuple(true if known == MISSING else known for known, true in pairs)
        yield words, block._replace(step=after(order, "help"), knows=knows)
    elif block.step == "count":
        last = words[parts] == parts - 1
        counted = block._replace(step=after(order, "count"), reset=1 if last else 0)
        yield with_word(words, parts, words[parts] + 1), counted


def launch_ends(
    words: tuple[int, ...], sums: tuple[int, ...], looks: int, order: tuple[str, ...]
) -> tuple[set[State], int]:
    """Return every state in which a launch can end, and how many states it can pass through.

    Only the last block to count waits, for sums on their way: a launch always ends.
    """
    nothing = (0,) * len(sums)
    start = State(words, tuple(Block(order[0], nothing, nothing, nothing) for _ in sums))
    seen, pending, ends = {start}, [start], set()
    while pending:
        state = pending.pop()
        moved = False
        for own in range(len(sums)):
            for changed, block in next_steps(state, own, sums, looks, order):
                moved = True
                blocks = (*state.blocks[:own], block, *state.blocks[own + 1 :])
                following = State(changed, blocks)
                if following not in seen:
                    seen.add(following)
                    pending.append(following)
        if not moved:
            ends.add(state)
    return ends, len(seen)


def faults(sums: tuple[int, ...], looks: int, order: tuple[str, ...]) -> set[str]:
    """Return what can be wrong when a launch ends, or when the next one does on its words."""
    found = set()
    words = {(0,) * (len(sums) + 1)}
    for launch_sums in (sums, tuple(100 * each for each in sums)):  # of the next launch: others
        ends = set()
        for each in words:
            ends |= launch_ends(each, launch_sums, looks, order)[0]
        for end in ends:
            if any(block.step != "done" or block.reset for block in end.blocks):
                found.add("a block does not end")
            if any(block.knows != launch_sums for block in end.blocks):
                found.add("a total is wrong")
            if any(end.words):
                found.add("the words are not 0")
        words = {end.words for end in ends}
    return found


@pytest.mark.parametrize(("sums", "looks"), [((1, 2), 1), ((1, 2), 3), ((1, 2, 3), 1)])
def test_every_interleaving_ends_right_with_the_words_back_at_0(
    sums: tuple[int, ...], looks: int
) -> None:
    assert faults(sums, looks, ORDER) == set()
    assert launch_ends((0,) * (len(sums) + 1), sums, looks, ORDER)[1] > 50  # it does explore


@pytest.mark.parametrize(
    ("order", "fault"),
    [(NEVER_WAITS, "the words are not 0"), (NEVER_HELPS, "a total is wrong")],
)
def test_the_model_sees_a_wrong_protocol(order: tuple[str, ...], fault: str) -> None:
    assert fault in faults((1, 2), 1, order)


def test_the_next_launch_is_wrong_where_words_are_left() -> None:
    ends, _ = launch_ends((7, 0, 0), (1, 2), 1, ORDER)
    assert any(block.knows != (1, 2) for end in ends for block in end.blocks)
