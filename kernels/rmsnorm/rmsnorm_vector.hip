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
//   FULL     1: no group of rows that go through a block at a time lacks one
//   SEVERAL  1: a block takes more than one group, one after the other
//   EARLY    load the weights of the vectors that stay before the reduction, 1: to registers, 2: to LDS
//            (where rows are not ragged)
//   STREAM   1: the caches are asked not to keep results; 2: nor the row, but for what is read
//            again, the first time, and what NVIDIA's GPUs copy to LDS
//   STAGGER  see stagger.h
//
// BLOCK / LANES rows go through a block at a time. Row offsets are 64 bits wide; strides are elements
// from the start of a row to the start of the next one.

#define STRIDE (LANES * VECTOR)
#define STEPS AT_LEAST_ONE((COLS / VECTOR + LANES - 1) / LANES)
#define CERTAIN (COLS > MOST_EDGES * RAGGED ? (COLS - MOST_EDGES * RAGGED) / STRIDE : 0)
#define ROWS (BLOCK / LANES)  // in a block at a time

#include "held.h"
#include "stagger.h"
#include "wave_sum.h"

extern "C" __global__ void BOUNDS
rmsnorm_vector(const Element* __restrict__ x,
               const Element* __restrict__ w,
               Element* __restrict__ y,
               long long rows,
               long long x_stride,
               long long y_stride,
               float epsilon) {
    extern __shared__ Vector shared[];
    __shared__ float partial[2][MOST_WAVES];
    const int lane = static_cast<int>(threadIdx.x % LANES);
    const int row_of_block = ROWS == 1 ? 0 : static_cast<int>(threadIdx.x / LANES);
    Held held;
    held.shared = shared + threadIdx.x;
    Sums sums = {partial, 0};
    await_turn(sizeof(Element) * COLS * ROWS);
    // All threads of a block make the same number of turns, so that no barrier is missed.
    for (long long group = static_cast<long long>(blockIdx.x) * ROWS; !SEVERAL || group < rows;
         group += static_cast<long long>(gridDim.x) * ROWS) {
        const long long row = group + row_of_block;
        // Where some threads may have none, NVIDIA's compiler loads early weights only once it knows
        // who writes, after the sum.
        const bool has_row = FULL || row < rows;
        const Element* row_in = x + (has_row ? row : group) * x_stride;
        Element* row_out = y + row * y_stride;
        const Share share = share_of(row_in, w, row_out, lane * VECTOR);

        load(held, share, row_in, w, lane);
        const float total = sum_of_row(sums, sum_of_share(held, share));
        const float scale = rsqrtf(total * (1.0f / COLS) + epsilon);
        if (has_row) {
            write(held, share, row_out, scale);
        }
        if (!SEVERAL) {
            return;
        }
    }
}
