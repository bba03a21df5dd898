// RMSNorm with wide loads, the row held on chip, and wave shuffles: y = x * r * w with
// r = 1 / sqrt(mean(x^2) + epsilon), one weight a column. One source for hiprtc, NVRTC, clang and
// the host's C++ compiler.
//
// Compile-time constants:
//   ELEMENT  what the arrays hold, see element.h
//   COLS     columns of a row
//   RAGGED   1: COLS or a stride is no multiple of VECTOR
//   BLOCK    threads a block
//   LANES    threads that share a row, a power of two that divides BLOCK
//   VECTOR   elements an access: 1, 2, 4 or 8, at most 16 bytes of them
//   KEPT     of a thread's vectors, so many stay in registers between the two passes
//   SHARED   so many more stay in LDS; what is left is read again
//   EARLY    1: load the weights of the kept vectors before the reduction
//   STREAM   1: the caches are asked not to keep results; 2: nor the row, but for what is read
//            again, the first time
//
// BLOCK / LANES rows go through a block at a time, and a block takes several such groups where
// the grid is smaller than the rows. Row offsets are 64 bits wide; strides are elements from the
// start of a row to the start of the next one.

#include "rmsnorm_wide.h"

#define STRIDE (LANES * VECTOR)  // columns that a row's threads read at once
#define STEPS ((COLS + SPARE + STRIDE - 1) / STRIDE)  // vectors a thread has of a row
#define ROWS (BLOCK / LANES)     // rows in a block at a time
#define HELD (KEPT + SHARED)

#define WHOLE (!RAGGED && COLS % STRIDE == 0)  // no thread has less of a row

// Whether step `step` of this thread lies in the row; known at compile time but for the last one.
__device__ inline bool in_row(int step, int first) {
    return WHOLE || (step + 1) * STRIDE <= COLS || step * STRIDE + first < COLS;
}

extern "C" __global__ void
__launch_bounds__(BLOCK)
rmsnorm_vector(const Element* __restrict__ x,
               const Element* __restrict__ w,
               Element* __restrict__ y,
               long long rows,
               long long x_stride,
               long long y_stride,
               float epsilon) {
    extern __shared__ Vector shared[];
    __shared__ float partial[2][MOST_WAVES];
    const int thread = static_cast<int>(threadIdx.x);
    int turn = 0;
    // All threads of a block make the same number of turns, so that no barrier is missed.
    for (long long group = static_cast<long long>(blockIdx.x) * ROWS; group < rows;
         group += static_cast<long long>(gridDim.x) * ROWS, turn ^= 1) {
        const long long row = group + thread / LANES;
        const bool has_row = row < rows;
        const Share share = share_of(x + (has_row ? row : group) * x_stride, w, y + row * y_stride,
                                     thread % LANES * VECTOR);

        Vector kept[KEPT > 0 ? KEPT : 1];
        Vector weight[KEPT > 0 ? KEPT : 1];
        float sum = 0.0f;
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (in_row(step, share.first)) {
                kept[step] = load_once(share, step * STRIDE);
            }
        }
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (EARLY && in_row(step, share.first)) {
                weight[step] = load_weights(share, step * STRIDE);
            }
        }
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (in_row(step, share.first)) {
                sum += squares(kept[step]);
            }
        }
#pragma unroll 4
        for (int step = KEPT; step < HELD; ++step) {
            if (in_row(step, share.first)) {
                const Vector value = load_once(share, step * STRIDE);
                shared[(step - KEPT) * BLOCK + thread] = value;
                sum += squares(value);
            }
        }
#pragma unroll 4
        for (int step = HELD; step < STEPS; ++step) {
            if (in_row(step, share.first)) {
                sum += squares(load_again(share, step * STRIDE));
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
            if (in_row(step, share.first)) {
                const Vector value = load_once(share, step * STRIDE);
                store(share, step * STRIDE, scaled(value, scale, load_weights(share, step * STRIDE)));
            }
        }
#pragma unroll 4
        for (int step = KEPT; step < HELD; ++step) {
            if (in_row(step, share.first)) {
                const Vector value = shared[(step - KEPT) * BLOCK + thread];
                store(share, step * STRIDE, scaled(value, scale, load_weights(share, step * STRIDE)));
            }
        }
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (in_row(step, share.first)) {
                keep_narrow(kept[step]);
                const Vector factor = EARLY ? weight[step] : load_weights(share, step * STRIDE);
                store(share, step * STRIDE, scaled(kept[step], scale, factor));
            }
        }
    }
}
