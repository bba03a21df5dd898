// How the blocks that share a row exchange their sums of squares. The including file's constants are
// COLS, BLOCK, VECTOR, RAGGED, STREAM, PARTS and LOOKS.
//
// A row has PARTS + 1 words that are 0 when the launch begins and when it ends. A sum travels inside
// the word that says it is there, so that no other memory has to be ordered by it. A block that has
// waited LOOKS times for a sum computes it itself, by reading that part of the row. So it is right
// whatever the order in which blocks run, also if they run one after the other; that they mostly run
// side by side only makes it fast. The last block of a row to have seen all sums puts the words back
// to 0. A block's steps come in the order: publish, total_of_row, is_last, take_back.
#pragma once

#define LANES BLOCK
#include "rmsnorm_wide.h"

#define STRIDE (BLOCK * VECTOR)  // columns that a block reads at once
// Vectors a thread has of its part.
#define STEPS ((COLS + SPARE + STRIDE * PARTS - 1) / (STRIDE * PARTS))
#define WHOLE (!RAGGED && STEPS * STRIDE * PARTS == COLS)  // no thread has less
#define THERE (1ull << 32)  // beside the bits of a sum, which may be 0

typedef unsigned long long Word;

// A block's shared memory for the exchange.
struct Exchange {
    float partial[2][MOST_WAVES];
    float sums[PARTS];
    int is_there[PARTS];
};

__device__ inline bool in_row(int column) {
    return WHOLE || column < COLS;
}

// The first column of a thread in a part, in a row that begins where a vector may.
__device__ inline int first_of(int part) {
    return (part * STEPS * BLOCK + static_cast<int>(threadIdx.x)) * VECTOR;
}

// Writes and counts for the block: not of the wave that waits for the others' sums.
__device__ inline bool is_clerk() {
    return threadIdx.x == BLOCK - 1;
}

__device__ inline void publish(Word* words, int part, float sum) {
    if (is_clerk()) {
        atomicExch(words + part, THERE | __float_as_uint(sum));
        __threadfence();  // the sum is there before the block is counted, and taken back after it
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
__device__ inline float sum_of_part(const Element* row, int part, float* partial) {
    const Share share = share_of(row, row, nullptr, first_of(part));
    float sum = 0.0f;
    for (int step = 0; step < STEPS; ++step) {
        if (in_row(share.first + step * STRIDE)) {
            sum += squares(load(share, step * STRIDE));
        }
    }
    return sum_of_row(sum, partial);
}

// The sum of squares of a row, in all threads, whether or not the other blocks run.
__device__ inline float total_of_row(Exchange& exchange, Word* words, const Element* row) {
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
    for (int part = 0, next = 1; part < PARTS; ++part) {
        float sum = exchange.sums[part];
        if (!exchange.is_there[part]) {
            sum = sum_of_part(row, part, exchange.partial[next]);
            next ^= 1;
        }
        total += sum;
    }
    return total;
}

// Counts this block among those that need a row's sums no more: whether it is the last of them. The
// clerk only. What the block has read came before the barrier in total_of_row; a fence here, where
// all are about to write their results, would hold up its wave.
__device__ inline bool is_last(Word* words) {
    return atomicAdd(words + PARTS, 1ull) == PARTS - 1;
}

__device__ inline void take_back(Word* words) {
    __threadfence();  // the others' sums are written before they are taken back
    for (int i = 0; i <= PARTS; ++i) {
        atomicExch(words + i, 0ull);
    }
}
