// RMSNorm of long rows by blocks that stay: PARTS blocks share a row, and each does the same part
// of one row after the other. So a part's weights are read once, and while a block waits for the
// sums of the others, its part of the next row is already on the way.
// y = x * r * w with r = 1 / sqrt(mean(x^2) + epsilon), one weight a column.
//
// The blocks of a row exchange their sums of squares as rmsnorm_exchange.h says; with PARTS 1 there
// is nothing to exchange.
//
// Compile-time constants: ELEMENT, COLS, RAGGED, BLOCK, VECTOR, KEPT, STREAM as in
// rmsnorm_vector.hip; PARTS, at most 32; LOOKS. KEPT vectors hold all of a thread's part, and RAGGED
// is 0: a thread has the same columns, and so the same weights, in every row.
//   AHEAD    1: the next row's sum is published before this row is finished
//   WEIGHTS  where they are held: 0 nowhere, 1 in LDS, 2 in registers

#include "rmsnorm_exchange.h"

#define ROWS_HELD (2 + AHEAD)  // of which one or two are on the way

extern "C" __global__ void __launch_bounds__(BLOCK)
rmsnorm_pipeline(const Element* __restrict__ x,
                 const Element* __restrict__ w,
                 Element* __restrict__ y,
                 Word* exchange,
                 long long rows,
                 long long x_stride,
                 long long y_stride,
                 float epsilon) {
    extern __shared__ Vector shared[];
    __shared__ Exchange of_block;
    const int thread = static_cast<int>(threadIdx.x);
    const int part = static_cast<int>(blockIdx.x % PARTS);
    const long long group = blockIdx.x / PARTS;
    const long long groups = gridDim.x / PARTS;
    const int first = first_of(part);

    Vector weight[WEIGHTS == 2 ? KEPT : 1];
#pragma unroll
    for (int step = 0; step < KEPT; ++step) {
        if (WEIGHTS != 0 && in_row(first + step * STRIDE)) {
            const Vector value = *reinterpret_cast<const Vector*>(w + first + step * STRIDE);
            if (WEIGHTS == 1) {
                shared[step * BLOCK + thread] = value;  // read by this thread only
            } else {
                weight[step] = value;
            }
        }
    }

    Vector kept[ROWS_HELD][KEPT];
    const auto begin = [&](Vector (&into)[KEPT], long long row) {
        const Share share = share_of(x + row * x_stride, w, nullptr, first);
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (in_row(first + step * STRIDE)) {
                into[step] = load_once(share, step * STRIDE);
            }
        }
    };
    const auto publish_sum = [&](const Vector (&of)[KEPT], long long row) {
        float sum = 0.0f;
#pragma unroll
        for (int step = 0; step < KEPT; ++step) {
            if (in_row(first + step * STRIDE)) {
                sum += squares(of[step]);
            }
        }
        sum = sum_of_row(sum, of_block.partial[PARTS == 1 ? row & 1 : 0]);
        if (PARTS > 1) {
            publish(exchange + row * (PARTS + 1), part, sum);
        }
        return sum;
    };

    if (group >= rows) {
        return;
    }
    begin(kept[0], group);
    if (AHEAD && group + groups < rows) {
        begin(kept[1], group + groups);
    }
    float sum = publish_sum(kept[0], group);
    int turn = 0;
    for (long long base = group; base < rows; base += groups * ROWS_HELD) {
        // Unrolled, so that each row of `kept` is registers.
#pragma unroll
        for (int slot = 0; slot < ROWS_HELD; ++slot) {
            const long long row = base + slot * groups;
            if (row >= rows) {
                break;
            }
            Vector(&now)[KEPT] = kept[slot];
            Vector(&next)[KEPT] = kept[(slot + 1) % ROWS_HELD];
            if (AHEAD && row + groups < rows) {
                sum = publish_sum(next, row + groups);
            }
            if (row + (1 + AHEAD) * groups < rows) {
                begin(kept[(slot + 1 + AHEAD) % ROWS_HELD], row + (1 + AHEAD) * groups);
            }

            const Element* row_in = x + row * x_stride;
            Word* words = exchange + row * (PARTS + 1);
            const float total = PARTS == 1 ? sum : total_of_row(of_block, turn, words, row_in);
            turn ^= 1;
            const bool is_last_here = PARTS > 1 && thread == 0 && is_last(words);
            const float scale = rsqrtf(total / static_cast<float>(COLS) + epsilon);
            const Share share = share_of(row_in, w, y + row * y_stride, first);
#pragma unroll
            for (int step = 0; step < KEPT; ++step) {
                if (in_row(first + step * STRIDE)) {
                    const Vector factor = WEIGHTS == 0   ? load_weights(share, step * STRIDE)
                                          : WEIGHTS == 1 ? shared[step * BLOCK + thread]
                                                         : weight[step];
                    store(share, step * STRIDE, scaled(now[step], scale, factor));
                }
            }
            if (is_last_here) {
                take_back(words);
            }
            if (!AHEAD && row + groups < rows) {
                sum = publish_sum(next, row + groups);
            }
        }
    }
}
