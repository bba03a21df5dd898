// Which part of a row is a thread's. The including file defines COLS, LANES (threads that sum one
// row, or one part of it), VECTOR, STREAM, STRIDE (columns that they read at once), STEPS (vectors a
// thread has, at most), CERTAIN (that every thread has) and RAGGED (1: a row may begin or end where no
// whole vector does).
//
// A ragged row has its edges peeled off: elements before the first address that a wide access may
// have, and behind the last whole vector, one a thread. Weights that do not lie as the row does are
// put together from the two vectors that they lie in; where one of these would reach beyond the
// weights, the edge is wider. `inner` columns are left, beginning at column `head`.
#pragma once

#include "access.h"

#define AT_LEAST_ONE(count) ((count) > 0 ? (count) : 1)
// An edge is shorter than two vectors, both are shorter than four.
#define MOST_EDGES (4 * VECTOR - 2)
#define EDGES (RAGGED ? (MOST_EDGES + LANES - 1) / LANES : 0)

// A thread's vectors of a row: the pointers lead to the first of them, `first` columns behind the
// head; the others are given by their distance from it in elements.
struct Share {
    const Element* x;
    const Element* w;
    Element* y;
    int first, head, inner;
    int w_shift;     // elements by which its weights begin behind an address of a wide access
    bool y_aligned;  // results can be written by wide accesses
};

// By how many elements an address lies behind one that a wide access may have.
__device__ inline int lead_of(const Element* at) {
    return static_cast<int>(reinterpret_cast<unsigned long long>(at) / sizeof(Element) % VECTOR);
}

// `first`: of the thread, in a row without a head.
__device__ inline Share share_of(const Element* x, const Element* w, Element* y, int first) {
    if (!RAGGED) {
        return {x + first, w + first, y + first, first, 0, COLS, 0, true};
    }
    int head = (VECTOR - lead_of(x)) % VECTOR;
    const int shift = lead_of(w + head);
    head += shift > head ? VECTOR : 0;
    const int room = COLS - head - (shift > 0 ? 2 * VECTOR - shift : VECTOR);
    const int inner = room < 0 ? 0 : (room / VECTOR + 1) * VECTOR;
    const int begin = head + first;
    return {x + begin, w + begin, y + begin, first, head, inner, shift, lead_of(y + head) == 0};
}

__device__ inline bool in_row(const Share& share, int step) {
    return step < CERTAIN || share.first + step * STRIDE < share.inner;
}

// All rows read the weights. Without a branch, so that several loads can be under way.
__device__ inline Vector load_weights(const Share& share, int step) {
    const Element* from = share.w + step * STRIDE;
    if (!RAGGED) {
        return load_again(from);
    }
    from -= share.w_shift;
    const Element* next = from + (share.w_shift > 0 ? VECTOR : 0);
    return between(load_again(from), load_again(next), share.w_shift);
}

template <bool IS_ALIGNED>
__device__ inline void store(const Share& share, int step, const Vector& value) {
    Element* to = share.y + step * STRIDE;
    if (IS_ALIGNED) {
        store_once(value, to);
        return;
    }
    for (int i = 0; i < VECTOR; ++i) {
        to[i] = element_of(value, i);
    }
}

// One element of the edges, and its weight.
struct Edge {
    Element x, w;
    int column;  // of the row; COLS and more: there is none
};

// Edge element `number` of the row at `x`: the head's come first.
__device__ inline Edge load_edge(const Share& share, const Element* x, const Element* w, int number) {
    Edge edge = {};
    edge.column = number < share.head ? number : number + share.inner;
    if (edge.column < COLS) {
        edge.x = x[edge.column];
        edge.w = w[edge.column];
    }
    return edge;
}
