// Row softmax, y = exp(x - max(x)) / sum(exp(x - max(x))).
// Includes nothing, so that hiprtc, NVRTC and the host's C++ compiler all take it.

#ifdef BLOCK
#define THREADS BLOCK
#else
#define THREADS static_cast<int>(blockDim.x)
#endif

// Both reductions return the result to every thread, and end with a barrier so that `partial`
// may be used again at once.
__device__ __forceinline__ float block_max(float* partial, int thread, float value) {
    partial[thread] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (thread < half) {
            partial[thread] = fmaxf(partial[thread], partial[thread + half]);
        }
        __syncthreads();
    }
    const float result = partial[0];
    __syncthreads();
    return result;
}

__device__ __forceinline__ float block_sum(float* partial, int thread, float value) {
    partial[thread] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (thread < half) {
            partial[thread] += partial[thread + half];
        }
        __syncthreads();
    }
    const float result = partial[0];
    __syncthreads();
    return result;
}

// One block a row; the grid has `rows` blocks, THREADS is a power of two, and the launch gives
// THREADS * 4 bytes of dynamic LDS.
extern "C" __global__ void softmax_block(const float* __restrict__ x,
                                         float* __restrict__ y,
                                         long long rows,
                                         long long cols,
                                         long long x_stride,
                                         long long y_stride) {
    extern __shared__ float partial[];
    const long long row = blockIdx.x;
    if (row >= rows) {
        return;  // the whole block leaves: no barrier is missed
    }
    const float* row_in = x + row * x_stride;
    float* row_out = y + row * y_stride;
    const int thread = static_cast<int>(threadIdx.x);

    // A thread without columns starts from the row's first element: a maximum of the row too.
    float largest = row_in[0];
    for (long long col = thread; col < cols; col += THREADS) {
        largest = fmaxf(largest, row_in[col]);
    }
    largest = block_max(partial, thread, largest);

    float sum = 0.0f;
    for (long long col = thread; col < cols; col += THREADS) {
        sum += expf(row_in[col] - largest);
    }
    const float scale = 1.0f / block_sum(partial, thread, sum);

    // The exponential is computed twice: cheaper than a second buffer in memory.
    for (long long col = thread; col < cols; col += THREADS) {
        row_out[col] = expf(row_in[col] - largest) * scale;
    }
}
