// RMSNorm of long rows: PARTS blocks share a row, so that it stays on chip between the two passes.
// y = x * r * w with r = 1 / sqrt(mean(x^2) + epsilon), one weight a column.
//
// The blocks of a row exchange their sums of squares through `exchange`, PARTS + 1 words a row that
// are 0 when the launch begins and when it ends. A sum travels inside the word that says it is
// there, so that no other memory has to be ordered by it. A block that has waited LOOKS times for a
// sum computes it itself, by reading that part of the row. So it is right whatever the order in which
// blocks run, also if they run one after the other; that they mostly run side by side only makes it
// fast. The last block of a row to have seen all sums puts the words back to 0.
//
// Compile-time constants: COLS, BLOCK, VECTOR, KEPT, SHARED, STREAM as in rmsnorm_vector.hip; PARTS,
// at most 32; LOOKS.

#define LANES BLOCK
#include "rmsnorm_wide.h"

#define STRIDE (BLOCK * VECTOR)                       // columns that a block reads at once
#define STEPS ((COLS + STRIDE * PARTS - 1) / (STRIDE * PARTS))  // vectors a thread has of its part
#define WHOLE (STEPS * STRIDE * PARTS == COLS)        // no thread has less
#define HELD (KEPT + SHARED)
#define THERE (1ull << 32)                            // beside the bits of a sum, which may be 0

typedef unsigned long long Word;

__device__ inline bool in_row(long long column) {
    return WHOLE || column < COLS;
}

__device__ inline float sum_in(Word word) {
    return __uint_as_float(static_cast<unsigned int>(word));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
rmsnorm_split(const float* __restrict__ x,
              const float* __restrict__ w,
              float* __restrict__ y,
              Word* exchange,
              float epsilon) {
    extern __shared__ Vector shared[];
    __shared__ float partial[2][MOST_WAVES];
    __shared__ float sums[PARTS];
    __shared__ int is_there[PARTS];
    const int thread = static_cast<int>(threadIdx.x);
    const int part = static_cast<int>(blockIdx.x % PARTS);
    const long long row = blockIdx.x / PARTS;
    const float* row_in = x + row * COLS;
    float* row_out = y + row * COLS;
    Word* words = exchange + row * (PARTS + 1);
    const long long first = (static_cast<long long>(part) * STEPS * BLOCK + thread) * VECTOR;

    Vector kept[KEPT > 0 ? KEPT : 1];
    float sum = 0.0f;
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        if (in_row(first + step * STRIDE)) {
            kept[step] = load(row_in + first + step * STRIDE);
        }
    }
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        if (in_row(first + step * STRIDE)) {
            sum += squares(kept[step]);
        }
    }
#pragma unroll 4
    for (int step = KEPT; step < HELD; ++step) {
        if (in_row(first + step * STRIDE)) {
            const Vector value = load(row_in + first + step * STRIDE);
            shared[(step - KEPT) * BLOCK + thread] = value;
            sum += squares(value);
        }
    }
#pragma unroll 4
    for (int step = HELD; step < STEPS; ++step) {
        if (in_row(first + step * STRIDE)) {
            sum += squares(load(row_in + first + step * STRIDE));
        }
    }
    sum = sum_of_row(sum, partial[0]);

    if (thread == 0) {
        atomicExch(words + part, THERE | __float_as_uint(sum));
    }
    if (thread < PARTS) {
        Word word = 0;
        for (int look = 0; look < LOOKS && word == 0; ++look) {
            word = atomicAdd(words + thread, 0ull);
        }
        is_there[thread] = word != 0;
        sums[thread] = sum_in(word);
    }
    __syncthreads();
    int turn = 1;
    for (int other = 0; other < PARTS; ++other) {
        if (is_there[other]) {
            continue;  // all threads of the block read the same
        }
        const long long begin = (static_cast<long long>(other) * STEPS * BLOCK + thread) * VECTOR;
        float missing = 0.0f;
        for (int step = 0; step < STEPS; ++step) {
            if (in_row(begin + step * STRIDE)) {
                missing += squares(load(row_in + begin + step * STRIDE));
            }
        }
        missing = sum_of_row(missing, partial[turn]);
        turn ^= 1;
        if (thread == 0) {
            sums[other] = missing;
        }
    }
    __syncthreads();
    if (thread == 0) {
        __threadfence();
        if (atomicAdd(words + PARTS, 1ull) == PARTS - 1) {
            __threadfence();  // the others' sums are written before they are taken back
            for (int i = 0; i <= PARTS; ++i) {
                atomicExch(words + i, 0ull);
            }
        }
    }

    float total = 0.0f;
    for (int i = 0; i < PARTS; ++i) {
        total += sums[i];
    }
    const float scale = rsqrtf(total / static_cast<float>(COLS) + epsilon);
#pragma unroll 4
    for (int step = STEPS - 1; step >= HELD; --step) {
        const long long column = first + step * STRIDE;
        if (in_row(column)) {
            store(row_out + column, scaled(load(row_in + column), scale, load(w + column)));
        }
    }
#pragma unroll 4
    for (int step = KEPT; step < HELD; ++step) {
        const long long column = first + step * STRIDE;
        if (in_row(column)) {
            const Vector value = shared[(step - KEPT) * BLOCK + thread];
            store(row_out + column, scaled(value, scale, load(w + column)));
        }
    }
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        const long long column = first + step * STRIDE;
        if (in_row(column)) {
            store(row_out + column, scaled(kept[step], scale, load(w + column)));
        }
    }
}
