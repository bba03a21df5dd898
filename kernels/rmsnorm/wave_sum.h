// Sums over the LANES threads of a row (or of a part of one), which the including file defines beside
// BLOCK: by shuffles within a wave, then through LDS.
#pragma once

#if defined(__CUDACC__)
#define SHUFFLE_XOR(value, offset) __shfl_xor_sync(0xffffffffu, value, offset)
#else
#define SHUFFLE_XOR(value, offset) __shfl_xor(value, offset)
#endif

// Threads of a wave. To NVRTC and to clang warpSize is no constant: they would divide by it, and not
// unroll what follows.
#if defined(__CUDACC__)
#define WAVE 32
#elif defined(__AMDGCN_WAVEFRONT_SIZE__)  // not in newer compilers
#define WAVE __AMDGCN_WAVEFRONT_SIZE__
#elif defined(__GFX9__)
#define WAVE 64
#elif defined(__AMDGCN__)
#define WAVE 32
#else
#define WAVE warpSize
#endif

#define MOST_WAVES (BLOCK / 32)  // of the smallest wave there is

// Floats that waves exchange, one each: in turns, as a fast wave may write its own for the next sum
// while a slow one still reads the last.
struct Sums {
    float (*partial)[MOST_WAVES];  // two of them
    int turn;
};

// The sum over the threads of a row, in all of them.
__device__ inline float sum_of_row(Sums& sums, float sum) {
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        if (offset < WAVE) {
            sum += SHUFFLE_XOR(sum, offset);
        }
    }
    if (LANES <= WAVE) {
        return sum;
    }
    float* const partial = sums.partial[sums.turn ^= 1];
    const unsigned wave = threadIdx.x / WAVE;
    if (threadIdx.x % WAVE == 0) {
        partial[wave] = sum;
    }
    __syncthreads();
    const unsigned first = wave & ~(LANES / WAVE - 1u);
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < MOST_WAVES; ++i) {
        if (i < LANES / WAVE) {
            total += partial[first + i];
        }
    }
    return total;
}
