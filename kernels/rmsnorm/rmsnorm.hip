// RMSNorm, y = x * r * w with r = 1 / sqrt(mean(x^2) + epsilon), one weight a column.
// One source for hiprtc, NVRTC and the host's C++ compiler: it includes nothing of theirs and uses
// only built-ins that all of them have. Row offsets are 64 bits wide: rows * cols may pass 2^31.
// Strides are elements from the start of a row to the start of the next one.

#include "element.h"

// -DBLOCK=256 makes the block size a constant, so that the compiler can unroll the tree.
#ifdef BLOCK
#define THREADS BLOCK
#else
#define THREADS static_cast<int>(blockDim.x)
#endif

// One thread a row; the grid has ceil(rows / THREADS) blocks. Neighbouring threads read
// addresses a whole row apart, so loads don't coalesce: this is the baseline.
extern "C" __global__ void rmsnorm_serial(const Element* __restrict__ x,
                                          const Element* __restrict__ w,
                                          Element* __restrict__ y,
                                          long long rows,
                                          long long cols,
                                          long long x_stride,
                                          long long y_stride,
                                          float epsilon) {
    const long long row = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    if (row >= rows) {
        return;
    }
    const Element* row_in = x + row * x_stride;
    Element* row_out = y + row * y_stride;
    float sum = 0.0f;
    for (long long col = 0; col < cols; ++col) {
        const float value = widen(row_in[col]);
        sum += value * value;
    }
    const float scale = rsqrtf(sum / static_cast<float>(cols) + epsilon);
    for (long long col = 0; col < cols; ++col) {
        row_out[col] = narrow(widen(row_in[col]) * scale * widen(w[col]));
    }
}

// One block a row; the grid has `rows` blocks, THREADS is a power of two, and the launch gives
// THREADS * 4 bytes of dynamic LDS. A thread without columns adds 0 and still takes part in
// every barrier.
extern "C" __global__ void rmsnorm_block(const Element* __restrict__ x,
                                         const Element* __restrict__ w,
                                         Element* __restrict__ y,
                                         long long rows,
                                         long long cols,
                                         long long x_stride,
                                         long long y_stride,
                                         float epsilon) {
    extern __shared__ float partial[];
    const long long row = blockIdx.x;
    if (row >= rows) {
        return;  // the whole block leaves: no barrier is missed
    }
    const Element* row_in = x + row * x_stride;
    Element* row_out = y + row * y_stride;
    const int thread = static_cast<int>(threadIdx.x);

    float sum = 0.0f;
    for (long long col = thread; col < cols; col += THREADS) {
        const float value = widen(row_in[col]);
        sum += value * value;
    }
    partial[thread] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (thread < half) {
            partial[thread] += partial[thread + half];
        }
        __syncthreads();
    }

    const float scale = rsqrtf(partial[0] / static_cast<float>(cols) + epsilon);
    for (long long col = thread; col < cols; col += THREADS) {
        row_out[col] = narrow(widen(row_in[col]) * scale * widen(w[col]));
    }
}
