// RMSNorm of long rows: PARTS blocks share a row, so that it stays on chip between the two passes.
// y = x * r * w with r = 1 / sqrt(mean(x^2) + epsilon), one weight a column.
//
// The blocks of a row exchange their sums of squares as exchange.h says.
//
// Compile-time constants: ELEMENT, COLS, RAGGED, BLOCK, VECTOR, KEPT, SHARED, EARLY, STREAM,
// STAGGER as in rmsnorm_vector.hip; PARTS, at most 32; LOOKS.

#include "exchange.h"
#include "stagger.h"

extern "C" __global__ void BOUNDS
rmsnorm_split(const Element* __restrict__ x,
              const Element* __restrict__ w,
              Element* __restrict__ y,
              Word* exchange,
              long long x_stride,
              long long y_stride,
              float epsilon) {
    extern __shared__ Vector shared[];
    __shared__ Exchange of_block;
    const int part = static_cast<int>(blockIdx.x % PARTS);
    const long long row = blockIdx.x / PARTS;
    const Element* row_in = x + row * x_stride;
    Element* row_out = y + row * y_stride;
    Word* words = exchange + row * (PARTS + 1);
    const Share share = share_of(row_in, w, row_out, first_of(part));

    await_turn(sizeof(Element) * COLS / PARTS);
    Held held;
    held.shared = shared + threadIdx.x;
    load(held, share, row_in, w, edge_of(part));
    Sums sums = {of_block.partial, 0};
    publish(words, part, sum_of_row(sums, sum_of_share(held, share)));

    const float total = total_of_row(of_block, sums, words, row_in, w);
    const bool is_last_here = is_clerk() && is_last(words);
    write(held, share, row_out, rsqrtf(total * (1.0f / COLS) + epsilon));
    if (is_last_here) {
        take_back(of_block, words);
    }
}
