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
// Compile-time constants: ELEMENT, COLS, RAGGED, BLOCK, VECTOR, KEPT, SHARED, STREAM as in
// rmsnorm_vector.hip; PARTS, at most 32; LOOKS.

#define LANES BLOCK
#include "rmsnorm_wide.h"

#define STRIDE (BLOCK * VECTOR)  // columns that a block reads at once
// Vectors a thread has of its part.
#define STEPS ((COLS + SPARE + STRIDE * PARTS - 1) / (STRIDE * PARTS))
#define WHOLE (!RAGGED && STEPS * STRIDE * PARTS == COLS)  // no thread has less
#define HELD (KEPT + SHARED)
#define THERE (1ull << 32)  // beside the bits of a sum, which may be 0

typedef unsigned long long Word;

__device__ inline bool in_row(int column) {
    return WHOLE || column < COLS;
}

__device__ inline float sum_in(Word word) {
    return __uint_as_float(static_cast<unsigned int>(word));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
rmsnorm_split(const Element* __restrict__ x,
              const Element* __restrict__ w,
              Element* __restrict__ y,
              Word* exchange,
              long long x_stride,
              long long y_stride,
              float epsilon) {
    extern __shared__ Vector shared[];
    __shared__ float partial[2][MOST_WAVES];
    __shared__ float sums[PARTS];
    __shared__ int is_there[PARTS];
    const int thread = static_cast<int>(threadIdx.x);
    const int part = static_cast<int>(blockIdx.x % PARTS);
    const long long row = blockIdx.x / PARTS;
    const Element* row_in = x + row * x_stride;
    Word* words = exchange + row * (PARTS + 1);
    const int column = (part * STEPS * BLOCK + thread) * VECTOR;
    const Share share = share_of(row_in, w, y + row * y_stride, column);

    Vector kept[KEPT > 0 ? KEPT : 1];
    float sum = 0.0f;
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        if (in_row(share.first + step * STRIDE)) {
            kept[step] = load_once(share, step * STRIDE);
        }
    }
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        if (in_row(share.first + step * STRIDE)) {
            sum += squares(kept[step]);
        }
    }
#pragma unroll 4
    for (int step = KEPT; step < HELD; ++step) {
        if (in_row(share.first + step * STRIDE)) {
            const Vector value = load_once(share, step * STRIDE);
            shared[(step - KEPT) * BLOCK + thread] = value;
            sum += squares(value);
        }
    }
#pragma unroll 4
    for (int step = HELD; step < STEPS; ++step) {
        if (in_row(share.first + step * STRIDE)) {
            sum += squares(load(share, step * STRIDE));
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
        const int begin = (other * STEPS * BLOCK + thread) * VECTOR;
        const Share theirs = share_of(row_in, w, y + row * y_stride, begin);
        float missing = 0.0f;
        for (int step = 0; step < STEPS; ++step) {
            if (in_row(theirs.first + step * STRIDE)) {
                missing += squares(load(theirs, step * STRIDE));
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
        if (in_row(share.first + step * STRIDE)) {
            const Vector value = load_once(share, step * STRIDE);
            store(share, step * STRIDE, scaled(value, scale, load_weights(share, step * STRIDE)));
        }
    }
#pragma unroll 4
    for (int step = KEPT; step < HELD; ++step) {
        if (in_row(share.first + step * STRIDE)) {
            const Vector value = shared[(step - KEPT) * BLOCK + thread];
            store(share, step * STRIDE, scaled(value, scale, load_weights(share, step * STRIDE)));
        }
    }
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        if (in_row(share.first + step * STRIDE)) {
            store(share, step * STRIDE, scaled(kept[step], scale, load_weights(share, step * STRIDE)));
        }
    }
}
