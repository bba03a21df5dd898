// A thread's share of a row, held on chip from the sum of squares to the result: KEPT vectors in
// registers, SHARED in LDS, and what is left read again. Beside what share.h asks for, the including
// file defines BLOCK, KEPT, SHARED and EARLY (the weights of what is held are loaded before the
// reduction, 1: to registers, 2: to LDS).
#pragma once

#include "share.h"

#define HELD (KEPT + SHARED)

// To let more blocks share a multiprocessor, NVIDIA's compiler would load early weights only after the
// sum, when other registers are free (24 of 40 registers in BF16 at 512 columns); where one block may
// be enough it doesn't.
#if defined(__CUDACC__) && EARLY == 1
#define BOUNDS __launch_bounds__(BLOCK, 1)
#else
#define BOUNDS __launch_bounds__(BLOCK)
#endif

struct Held {
    Vector kept[AT_LEAST_ONE(KEPT)];
    Vector weights[AT_LEAST_ONE(EARLY == 1 ? HELD : 0)];
    Edge edges[AT_LEAST_ONE(EDGES)];
    // This thread's first vector in LDS; the others follow BLOCK vectors apart, then the weights.
    Vector* shared;
};

__device__ inline float squares(const Vector& value) {
    float sums[2] = {0.0f, 0.0f};  // two, as each addition waits for the one before
    for (int i = 0; i < VECTOR; ++i) {
        const float each = widen(element_of(value, i));
        sums[i % 2] += each * each;
    }
    return sums[0] + sums[1];
}

__device__ inline Vector scaled(const Vector& value, float scale, const Vector& weight) {
    float wide[VECTOR];
    for (int i = 0; i < VECTOR; ++i) {
        wide[i] = widen(element_of(value, i)) * scale * widen(element_of(weight, i));
    }
    return vector_of(wide);
}

// Loads a thread's share of the row at `x`. `edge`: the number of its first edge element, as many
// as LANES apart; none if it is not less than the edges have.
__device__ inline void load(Held& held, const Share& share, const Element* x, const Element* w, int edge) {
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        if (in_row(share, step)) {
            held.kept[step] = load_once(share.x + step * STRIDE);
        }
    }
#pragma unroll 8
    for (int place = 0; place < SHARED; ++place) {
        if (in_row(share, KEPT + place)) {
            fetch<false>(held.shared + place * BLOCK, share.x + (KEPT + place) * STRIDE);
        }
    }
    end_batch();
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
        held.edges[i] = load_edge(share, x, w, edge + i * LANES);
    }
#pragma unroll
    for (int step = 0; step < (EARLY == 1 ? HELD : 0); ++step) {
        if (in_row(share, step)) {
            held.weights[step] = load_weights(share, step);
        }
    }
#pragma unroll 8
    for (int step = 0; step < (EARLY == 2 ? HELD : 0); ++step) {
        if (in_row(share, step)) {
            fetch<true>(held.shared + (SHARED + step) * BLOCK, share.w + step * STRIDE);
        }
    }
    end_batch();
}

// The sum of squares of a thread's share, once it is there.
__device__ inline float sum_of_share(const Held& held, const Share& share) {
    float sum = 0.0f;
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        if (in_row(share, step)) {
            sum += squares(held.kept[step]);
        }
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
        sum += widen(held.edges[i].x) * widen(held.edges[i].x);
    }
#pragma unroll 4
    for (int step = HELD; step < STEPS; ++step) {
        if (in_row(share, step)) {
            sum += squares(load_again(share.x + step * STRIDE));
        }
    }
    if (SHARED > 0) {
        await_batches<1>();
    }
#pragma unroll 4
    for (int place = 0; place < SHARED; ++place) {
        if (in_row(share, KEPT + place)) {
            sum += squares(held.shared[place * BLOCK]);
        }
    }
    return sum;
}

__device__ inline Vector weights_of(const Held& held, const Share& share, int step) {
    if (EARLY == 2) {
        return held.shared[(SHARED + step) * BLOCK];
    }
    return EARLY == 1 ? held.weights[step] : load_weights(share, step);
}

template <bool IS_ALIGNED>
__device__ inline void write_vectors(Held& held, const Share& share, float scale) {
    // What is read again goes first: the end of the row is the likeliest to be in the cache.
#pragma unroll 4
    for (int step = STEPS - 1; step >= HELD; --step) {
        if (in_row(share, step)) {
            const Vector value = load_once(share.x + step * STRIDE);
            store<IS_ALIGNED>(share, step, scaled(value, scale, load_weights(share, step)));
        }
    }
#pragma unroll EARLY == 1 ? AT_LEAST_ONE(HELD) : 4
    for (int place = 0; place < SHARED; ++place) {
        const int step = KEPT + place;
        if (in_row(share, step)) {
            const Vector value = held.shared[place * BLOCK];
            store<IS_ALIGNED>(share, step, scaled(value, scale, weights_of(held, share, step)));
        }
    }
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        if (in_row(share, step)) {
            keep_narrow(held.kept[step]);
            store<IS_ALIGNED>(share, step, scaled(held.kept[step], scale, weights_of(held, share, step)));
        }
    }
}

// Writes a thread's share of the results; `y` is where the row's begin.
__device__ inline void write(Held& held, const Share& share, Element* y, float scale) {
    if (EARLY == 2) {
        await_batches<0>();
    }
    if (!RAGGED || share.y_aligned) {
        write_vectors<true>(held, share, scale);
    } else {
        write_vectors<false>(held, share, scale);
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) {
        const Edge& edge = held.edges[i];
        if (edge.column < COLS) {
            y[edge.column] = narrow(widen(edge.x) * scale * widen(edge.w));
        }
    }
}
