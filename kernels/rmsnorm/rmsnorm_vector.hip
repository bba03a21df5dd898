// RMSNorm with wide loads, the row held on chip, and wave shuffles: y = x * r * w with
// r = 1 / sqrt(mean(x^2) + epsilon), one weight a column. One source for hiprtc, NVRTC, clang and
// the host's C++ compiler.
//
// Compile-time constants:
//   COLS     columns of a row, a multiple of VECTOR
//   BLOCK    threads a block
//   LANES    threads that share a row, a power of two that divides BLOCK
//   VECTOR   floats a load: 1, 2 or 4
//   KEPT     of a thread's vectors, so many stay in registers between the two passes
//   SHARED   so many more stay in LDS; what is left is read again
//   EARLY    1: load the weights of the kept vectors before the reduction
//   STREAM   1: results are written past the cache, for nobody here reads them
//
// BLOCK / LANES rows go through a block at a time, and a block takes several such groups where
// the grid is smaller than the rows. Row offsets are 64 bits wide.

#include "rmsnorm_wide.h"

#define STRIDE (LANES * VECTOR)               // columns that a row's threads read at once
#define STEPS ((COLS + STRIDE - 1) / STRIDE)  // vectors a thread has of a row
#define ROWS (BLOCK / LANES)                  // rows in a block at a time
#define HELD (KEPT + SHARED)

// Whether step `step` of this thread lies in the row; known at compile time but for the last one.
__device__ inline bool in_row(int step, int first) {
    return (step + 1) * STRIDE <= COLS || step * STRIDE + first < COLS;
}

extern "C" __global__ void
__launch_bounds__(BLOCK)
rmsnorm_vector(const float* __restrict__ x,
               const float* __restrict__ w,
               float* __restrict__ y,
               long long rows,
               float epsilon) {
    extern __shared__ Vector shared[];
    __shared__ float partial[2][MOST_WAVES];
    const int thread = static_cast<int>(threadIdx.x);
    const int first = thread % LANES * VECTOR;
    int turn = 0;
    // All threads of a block make the same number of turns, so that no barrier is missed.
    for (long long group = static_cast<long long>(blockIdx.x) * ROWS; group < rows;
         group += static_cast<long long>(gridDim.x) * ROWS, turn ^= 1) {
        const long long row = group + thread / LANES;
        const bool has_row = row < rows;
        const float* row_in = x + (has_row ? row : group) * COLS + first;
        float* row_out = y + row * COLS + first;

        Vector kept[KEPT > 0 ? KEPT : 1];
        Vector weight[KEPT > 0 ? KEPT : 1];
        float sum = 0.0f;
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (in_row(step, first)) {
                kept[step] = load(row_in + step * STRIDE);
            }
        }
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (EARLY && in_row(step, first)) {
                weight[step] = load(w + step * STRIDE + first);
            }
        }
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (in_row(step, first)) {
                sum += squares(kept[step]);
            }
        }
#pragma unroll 4
        for (int step = KEPT; step < HELD; ++step) {
            if (in_row(step, first)) {
                const Vector value = load(row_in + step * STRIDE);
                shared[(step - KEPT) * BLOCK + thread] = value;
                sum += squares(value);
            }
        }
#pragma unroll 4
        for (int step = HELD; step < STEPS; ++step) {
            if (in_row(step, first)) {
                sum += squares(load(row_in + step * STRIDE));
            }
        }

        const float mean = sum_of_row(sum, partial[turn]) / static_cast<float>(COLS);
        const float scale = rsqrtf(mean + epsilon);
        if (!has_row) {
            continue;
        }
        // What is read again goes first: the end of the row is the likeliest to be in the cache.
#pragma unroll 4
        for (int step = STEPS - 1; step >= HELD; --step) {
            if (in_row(step, first)) {
                const Vector value = load(row_in + step * STRIDE);
                store(row_out + step * STRIDE, scaled(value, scale, load(w + step * STRIDE + first)));
            }
        }
#pragma unroll 4
        for (int step = KEPT; step < HELD; ++step) {
            if (in_row(step, first)) {
                const Vector value = shared[(step - KEPT) * BLOCK + thread];
                store(row_out + step * STRIDE, scaled(value, scale, load(w + step * STRIDE + first)));
            }
        }
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (in_row(step, first)) {
                const Vector factor = EARLY ? weight[step] : load(w + step * STRIDE + first);
                store(row_out + step * STRIDE, scaled(kept[step], scale, factor));
            }
        }
    }
}
