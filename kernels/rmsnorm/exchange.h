// How the blocks that share a row exchange their sums of squares. The including file's constants are
// those of held.h, PARTS and LOOKS.
//
// A row has PARTS + 1 words that are 0 when the launch begins and when it ends. A sum travels inside
// the word that says it is there, so that no other memory has to be ordered by it. A block that has
// waited LOOKS times for a sum computes it itself, by reading that part of the row. So it is right
// whatever the order in which blocks run, also if they run one after the other; that they mostly run
// side by side only makes it fast. The last block of a row to count itself puts the words back to 0:
// those that it has seen at once, the others when their sums have arrived, which are on their way
// since their blocks have counted themselves. So no step has to be ordered by a fence, which would
// empty the cache next to the multiprocessor of the weights. A block's steps come in the order:
// publish, total_of_row, is_last, take_back.
#pragma once

#define LANES BLOCK
#define STRIDE (BLOCK * VECTOR)
#define STEPS AT_LEAST_ONE((COLS / VECTOR + BLOCK * PARTS - 1) / (BLOCK * PARTS))
#define CERTAIN (!RAGGED && STEPS * STRIDE * PARTS == COLS ? STEPS : 0)
#define THERE (1ull << 32)  // beside the bits of a sum, which may be 0

#include "held.h"
#include "wave_sum.h"

typedef unsigned long long Word;

// A block's shared memory for the exchange.
struct Exchange {
    float partial[2][MOST_WAVES];
    float sums[PARTS];
    int is_there[PARTS];
};

// The first column of a thread in a part, in a row without a head.
__device__ inline int first_of(int part) {
    return (part * STEPS * BLOCK + static_cast<int>(threadIdx.x)) * VECTOR;
}

// The number of a thread's edge element: the first part has them all.
__device__ inline int edge_of(int part) {
    return part == 0 ? static_cast<int>(threadIdx.x) : COLS;
}

// Writes and counts for the block: not of the wave that waits for the others' sums.
__device__ inline bool is_clerk() {
    return threadIdx.x == BLOCK - 1;
}

__device__ inline void publish(Word* words, int part, float sum) {
    if (is_clerk()) {
        atomicExch(words + part, THERE | __float_as_uint(sum));
    }
}

// A word as the last block to write it left it, past the caches of single multiprocessors.
__device__ inline Word look_at(Word* word) {
#if defined(__CUDACC__)
    Word value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
#else
    return atomicAdd(word, 0ull);
#endif
}

// The sum of squares of a part, in all threads, by reading it.
__device__ inline float sum_of_part(Sums& sums, const Element* x, const Element* w, int part) {
    const Share share = share_of(x, w, nullptr, first_of(part));
    float sum = 0.0f;
    for (int step = 0; step < STEPS; ++step) {
        if (in_row(share, step)) {
            sum += squares(load_again(share.x + step * STRIDE));
        }
    }
    for (int i = 0; i < EDGES; ++i) {
        const float edge = widen(load_edge(share, x, w, edge_of(part) + i * LANES).x);
        sum += edge * edge;
    }
    return sum_of_row(sums, sum);
}

// The sum of squares of a row, in all threads, whether or not the other blocks run.
__device__ inline float total_of_row(
    Exchange& exchange, Sums& sums, Word* words, const Element* x, const Element* w) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < PARTS) {
        Word word = 0;
        for (int look = 0; look < LOOKS && word == 0; ++look) {
            word = look_at(words + thread);
        }
        exchange.is_there[thread] = word != 0;
        exchange.sums[thread] = __uint_as_float(static_cast<unsigned>(word));
    }
    __syncthreads();
    float total = 0.0f;
    int there = 0;
    for (int part = 0; part < PARTS; ++part) {
        total += exchange.sums[part];
        there += exchange.is_there[part];
    }
    if (there == PARTS) {
        return total;  // all threads of the block see the same
    }
    total = 0.0f;
    for (int part = 0; part < PARTS; ++part) {
        total += exchange.is_there[part] ? exchange.sums[part] : sum_of_part(sums, x, w, part);
    }
    return total;
}

// Counts this block among those that need a row's sums no more: whether it is the last of them. The
// clerk only.
__device__ inline bool is_last(Word* words) {
    return atomicAdd(words + PARTS, 1ull) == PARTS - 1;
}

__device__ inline void take_back(const Exchange& exchange, Word* words) {
    for (int part = 0; part < PARTS; ++part) {
        while (!exchange.is_there[part] && look_at(words + part) == 0) {
        }
        atomicExch(words + part, 0ull);
    }
    atomicExch(words + PARTS, 0ull);
}
