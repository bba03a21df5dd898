"""How share.h divides a row among threads, at every alignment of row, weights and results.

The kernels' own tests have arrays that begin where a wide access may; a row's weights and results
may lie anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cpu_kernels import run

from tuner.bench.devices.base import HipSource
from tuner.bench.devices.cpu import CpuDevice
from tuner.bench.devices.cpu import find_compiler

KERNELS = Path(__file__).parents[2] / "kernels" / "rmsnorm"
pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")

PROBE = """
#define RAGGED 1
#define CERTAIN 0
#define STREAM 0
#define STRIDE (LANES * VECTOR)
#define STEPS AT_LEAST_ONE((COLS / VECTOR + LANES - 1) / LANES)
#include "share.h"

#define LONGEST 2048  // elements of an array, with room around a row

__device__ bool is_wide(const Element* at) { return lead_of(at) == 0; }

// Which rule a thread's share breaks, or 0; counts the columns that it touches.
__device__ int broken_rule(const Element* x, const Element* w, Element* y, int lane, int* touched) {
    const Share share = share_of(x, w, y, lane * VECTOR);
    if (COLS - share.inner > EDGES * LANES) return 1;  // some edges are nobody's
    if (share.inner > STEPS * STRIDE) return 2;  // some vectors are
    for (int step = 0; step < STEPS; ++step) {
        if (!in_row(share, step)) continue;
        const int column = static_cast<int>(share.x + step * STRIDE - x);
        if (!is_wide(x + column) || (share.y_aligned && !is_wide(y + column))) return 3;
        if (column < 0 || column + VECTOR > COLS) return 4;
        const int first = column - share.w_shift;
        if (!is_wide(w + first)) return 5;
        if (first < 0 || first + (share.w_shift > 0 ? 2 : 1) * VECTOR > COLS) return 6;
        const Vector weights = load_weights(share, step);
        for (int i = 0; i < VECTOR; ++i) {
            if (widen(element_of(weights, i)) != widen(w[column + i])) return 7;
            ++touched[column + i];
        }
        if (share.y_aligned) {
            store<true>(share, step, weights);
        } else {
            store<false>(share, step, weights);
        }
    }
    for (int i = 0; i < EDGES; ++i) {
        const Edge edge = load_edge(share, x, w, lane + i * LANES);
        if (edge.column < COLS) {
            ++touched[edge.column];
            y[edge.column] = edge.w;
        }
    }
    return 0;
}

__device__ int broken_rule(const Element* x, const Element* w, Element* y) {
    int touched[COLS] = {};
    for (int i = -VECTOR; i < COLS + VECTOR; ++i) y[i] = narrow(-1.0f);
    for (int lane = 0; lane < LANES; ++lane) {
        const int rule = broken_rule(x, w, y, lane, touched);
        if (rule != 0) return rule;
    }
    for (int i = -VECTOR; i < COLS + VECTOR; ++i) {
        const bool is_column = i >= 0 && i < COLS;
        if (is_column && touched[i] != 1) return 8;
        if (widen(y[i]) != (is_column ? widen(w[i]) : -1.0f)) return 9;
    }
    return 0;
}

extern "C" __global__ void k(float* memory, float* broken) {
    Element* at = reinterpret_cast<Element*>(memory) + LONGEST / 8;
    for (int lead = 0; lead < VECTOR * VECTOR * VECTOR; ++lead) {
        Element* w = at + LONGEST + lead / VECTOR % VECTOR;
        for (int i = 0; i < COLS; ++i) w[i] = narrow(i % 97);
        const int rule = broken_rule(
            at + lead % VECTOR, w, at + 2 * LONGEST + lead / VECTOR / VECTOR);
        if (rule != 0) {
            broken[0] = rule;
            return;
        }
    }
    broken[0] = 0;
}
"""


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CpuDevice]:
    device = CpuDevice(cache_dir=tmp_path_factory.mktemp("kernels"))
    yield device
    device.close()


@pytest.mark.parametrize("cols", [1, 7, 13, 23, 31, 255])
@pytest.mark.parametrize(
    ("element", "vector", "lanes"), [(0, 2, 8), (0, 4, 8), (0, 4, 32), (2, 8, 8), (2, 8, 32)]
)
def test_every_column_is_one_thread_s_and_nothing_beyond_the_row_is_read(
    cpu: CpuDevice, element: int, vector: int, lanes: int, cols: int
) -> None:
    files = {name: (KERNELS / name).read_text() for name in ("share.h", "access.h", "element.h")}
    macros = {"ELEMENT": element, "VECTOR": vector, "LANES": lanes, "COLS": cols}
    broken = np.full(1, -1, np.float32)
    memory = np.zeros(3 * 2048 + 1024, np.float32)
    run(
        cpu,
        HipSource({"k.hip": PROBE, **files}, "k.hip", "k", macros),
        {"memory": memory, "broken": broken},
    )
    assert broken[0] == 0
