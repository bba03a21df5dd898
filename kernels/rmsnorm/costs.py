"""What a config of RMSNorm is likely to cost, before it is built: see ``Implementation.prior``.

The figures are estimates of what each thing adds to the logarithm of the time. They only say
where a search begins; it corrects them by what it measures.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tuner.domain.identity import Config

# The whole row a second time. H200, float32, 4096 and 16384 columns, 2026-12-02: 2 to 14 % more
# than the best where the caches are not told, at most 1 % where they are.
REREAD = 0.1
REREAD_TOLD = 0.01
NEAR_BYTES = 65_536  # what a block finds in the cache next to it, beside other blocks
FAR_REREAD = 0.15  # each doubling of what it reads again beyond that
HELD_IN_LDS = 0.02
NARROW_LOADS = {16: 0.0, 8: 0.05, 4: 0.25, 2: 0.6}  # by bytes an access
LINE_BYTES = 128  # what a wave's loads should cover at once
SPLIT_LINE = 0.2  # each halving of it
UNIT_REGISTERS = 65_536  # of a multiprocessor or compute unit
BUSY_THREADS = 256  # fewer a block leave no more registers to each
REGISTER_BYTES = 4
OWN_REGISTERS = 24  # addresses and counters
SPILLED_REGISTER = 0.01
THREADS_VECTOR = 0.0015  # of the row: it waits for all of them

# Rows shared by blocks. Fitted to 2753 times on an H200 (2026-12-04: float32 and bfloat16 from
# 32768 to 262144 columns, STAGGER 2048, at most 1.6 times the best): of the first 20 configs by
# these figures, the best was within 1 % of the best of all in each of eight cells.
UNIT_THREADS = 2048  # at most, of a multiprocessor
UNIT_BLOCKS = 32
BLOCKS_OWN_LDS_BYTES = 1536
# By Little's law: what a multiprocessor must hold of rows, so that memory is busy while blocks wait
# for each other.
NEEDED_BYTES = 40_000
SPLIT_REREAD = 0.25  # the whole row a second time
SPLIT_NEAR_BYTES = 131_072  # what all blocks of a multiprocessor find in its cache
SPLIT_FAR_REREAD = 0.05  # each doubling of what they read again beyond that
SPLIT_IN_LDS = 0.12
EARLY = {0: 0.02, 1: 0.1, 2: 0.0}  # weights late, in registers, in LDS
# Rows in registers do better where the caches are told that they are read once, those in LDS where
# they are not.
WRONG_STREAM = 0.03


class ThreadsPart(NamedTuple):
    """What a thread has of a row, in vectors.

    Attributes:
        steps: All of them.
        kept: Those it keeps in registers.
        shared: Those it keeps in LDS.
        vector_bytes: Size of one.
    """

    steps: int
    kept: int
    shared: int
    vector_bytes: int

    @property
    def again(self) -> int:
        """Those it reads again."""
        return self.steps - self.kept - self.shared


def access_cost(access_bytes: int, lanes: int) -> float:
    """Return the cost of accesses narrower than they could be, or less than a line at once."""
    narrow = NARROW_LOADS[access_bytes]
    return narrow + SPLIT_LINE * max(0.0, math.log2(LINE_BYTES / (lanes * access_bytes)))


def registers_of(config: Config, part: ThreadsPart) -> int:
    """Return about how many registers a thread needs.

    What is held stays in the arrays' type; weights loaded early to registers are as much again.
    """
    vectors = part.kept + (part.kept + part.shared if config["EARLY"] == 1 else 0)
    return OWN_REGISTERS - (-vectors * part.vector_bytes // REGISTER_BYTES)


def spill_cost(registers: int, block: int) -> float:
    """Return the cost of the registers that a thread of a block does not get."""
    return SPILLED_REGISTER * max(0, registers - UNIT_REGISTERS // max(block, BUSY_THREADS))


def wide_load_cost(config: Config, part: ThreadsPart, lanes: int) -> float:
    """Return the cost of a kernel with wide loads that holds rows on chip.

    Args:
        config: With BLOCK, EARLY and STREAM.
        part: What a thread has of a row.
        lanes: Threads that read one row side by side.
    """
    block = int(config["BLOCK"])
    again_bytes = part.again * block * part.vector_bytes
    return (
        (REREAD_TOLD if config["STREAM"] == 2 else REREAD) * part.again / part.steps
        + FAR_REREAD * max(0.0, math.log2(max(1, again_bytes) / NEAR_BYTES))
        + THREADS_VECTOR * part.steps
        + HELD_IN_LDS * part.shared / part.steps
        + access_cost(part.vector_bytes, lanes)
        + spill_cost(registers_of(config, part), block)
    )


def split_row_cost(config: Config, part: ThreadsPart, lds_bytes: int, unit_lds_bytes: int) -> float:
    """Return the cost of a kernel whose rows are shared by blocks that wait for each other.

    Args:
        config: With BLOCK, EARLY and STREAM.
        part: What a thread has of a row.
        lds_bytes: Dynamic LDS of a block.
        unit_lds_bytes: LDS of a multiprocessor or compute unit.
    """
    block, registers = int(config["BLOCK"]), registers_of(config, part)
    limits = (
        UNIT_THREADS // block,
        UNIT_BLOCKS,
        UNIT_REGISTERS // (registers * block),
        unit_lds_bytes // (lds_bytes + BLOCKS_OWN_LDS_BYTES),
    )
    unit_bytes = max(1, min(limits)) * block * part.vector_bytes  # a vector of each of its threads
    again_bytes = part.again * unit_bytes
    held_bytes = (part.kept + part.shared) * unit_bytes
    return (
        SPLIT_REREAD * part.again / part.steps
        + SPLIT_FAR_REREAD * max(0.0, math.log2(max(1, again_bytes) / SPLIT_NEAR_BYTES))
        + (0.0 if part.again else 0.5 * math.log1p((NEEDED_BYTES / held_bytes) ** 2))
        + SPLIT_IN_LDS * part.shared / part.steps
        + EARLY[int(config["EARLY"])]
        + (WRONG_STREAM if config["STREAM"] != (0 if part.shared else 2) else 0.0)
        + access_cost(part.vector_bytes, block)
        + spill_cost(registers, block)
    )
