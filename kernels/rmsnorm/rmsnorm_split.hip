// RMSNorm of long rows: PARTS blocks share a row, so that it stays on chip between the two passes.
// y = x * r * w with r = 1 / sqrt(mean(x^2) + epsilon), one weight a column.
//
// The blocks of a row exchange their sums of squares as rmsnorm_exchange.h says.
//
// Compile-time constants: ELEMENT, COLS, RAGGED, BLOCK, VECTOR, KEPT, SHARED, STREAM as in
// rmsnorm_vector.hip; PARTS, at most 32; LOOKS.

#include "rmsnorm_exchange.h"

#define HELD (KEPT + SHARED)

extern "C" __global__ void __launch_bounds__(BLOCK)
rmsnorm_split(const Element* __restrict__ x,
              const Element* __restrict__ w,
              Element* __restrict__ y,
              Word* exchange,
              long long x_stride,
              long long y_stride,
              float epsilon) {
    extern __shared__ Vector shared[];
    __shared__ Exchange of_block;
    const int thread = static_cast<int>(threadIdx.x);
    const int part = static_cast<int>(blockIdx.x % PARTS);
    const long long row = blockIdx.x / PARTS;
    const Element* row_in = x + row * x_stride;
    Word* words = exchange + row * (PARTS + 1);
    const Share share = share_of(row_in, w, y + row * y_stride, first_of(part));

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
            sum += squares(load_again(share, step * STRIDE));
        }
    }
    publish(words, part, sum_of_row(sum, of_block.partial[0]));

    const float total = total_of_row(of_block, words, row_in);
    const bool is_last_here = is_clerk() && is_last(words);
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
            keep_narrow(kept[step]);
            store(share, step * STRIDE, scaled(kept[step], scale, load_weights(share, step * STRIDE)));
        }
    }
    if (is_last_here) {
        take_back(words);
    }
}
