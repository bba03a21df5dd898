"""What a config of RMSNorm is likely to cost, before it is built: see ``Implementation.prior``.

The figures are estimates of what each thing adds to the logarithm of the time. They only say
where a search begins; it corrects them by what it measures.
"""

from __future__ import annotations

import math

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


def wide_load_cost(
    config: Config, steps: int, kept: int, shared: int, lanes: int, item_bytes: int
) -> float:
    """Return the cost of a kernel with wide loads that holds rows on chip.

    Args:
        config: With BLOCK, VECTOR, EARLY and STREAM.
        steps: Vectors a thread has of a row.
        kept: Those it keeps in registers.
        shared: Those it keeps in LDS.
        lanes: Threads that read one row side by side.
        item_bytes: Of an element.
    """
    access_bytes, block = int(config["VECTOR"]) * item_bytes, int(config["BLOCK"])
    read_bytes = lanes * access_bytes
    # What is held stays in the arrays' type; weights loaded early to registers are as much again.
    vectors = kept + (kept + shared if config["EARLY"] == 1 else 0)
    registers = OWN_REGISTERS - (-vectors * access_bytes // REGISTER_BYTES)
    room = UNIT_REGISTERS // max(block, BUSY_THREADS)
    again = steps - kept - shared
    again_bytes = again * block * access_bytes
    return (
        (REREAD_TOLD if config["STREAM"] == 2 else REREAD) * again / steps
        + FAR_REREAD * max(0.0, math.log2(max(1, again_bytes) / NEAR_BYTES))
        + THREADS_VECTOR * steps
        + HELD_IN_LDS * shared / steps
        + NARROW_LOADS[access_bytes]
        + SPLIT_LINE * max(0.0, math.log2(LINE_BYTES / read_bytes))
        + SPILLED_REGISTER * max(0, registers - room)
    )
