// What the kernels with wide loads share. The including file defines BLOCK, LANES (threads that sum
// one row, or one part of it), VECTOR (floats a load: 1, 2 or 4) and STREAM.
#pragma once

#if defined(__CUDACC__)
#define SHUFFLE_XOR(value, offset) __shfl_xor_sync(0xffffffffu, value, offset)
#else
#define SHUFFLE_XOR(value, offset) __shfl_xor(value, offset)
#endif

#define MOST_WAVES (BLOCK / 32)  // of the smallest wave there is

struct alignas(4 * VECTOR) Vector {
    float at[VECTOR];
};

__device__ inline Vector load(const float* from) {
    return *reinterpret_cast<const Vector*>(from);
}

__device__ inline void store(float* to, const Vector& value) {
#if STREAM && defined(__CUDACC__) && VECTOR == 4
    __stcs(reinterpret_cast<float4*>(to), make_float4(value.at[0], value.at[1], value.at[2], value.at[3]));
#elif STREAM && defined(__CUDACC__) && VECTOR == 2
    __stcs(reinterpret_cast<float2*>(to), make_float2(value.at[0], value.at[1]));
#elif STREAM && defined(__CUDACC__)
    __stcs(to, value.at[0]);
#elif STREAM && defined(__clang__)
    typedef float Wide __attribute__((ext_vector_type(VECTOR)));
    Wide wide;
    for (int i = 0; i < VECTOR; ++i) {
        wide[i] = value.at[i];
    }
    __builtin_nontemporal_store(wide, reinterpret_cast<Wide*>(to));
#else
    *reinterpret_cast<Vector*>(to) = value;
#endif
}

__device__ inline float squares(const Vector& value) {
    float sum = 0.0f;
    for (int i = 0; i < VECTOR; ++i) {
        sum += value.at[i] * value.at[i];
    }
    return sum;
}

__device__ inline Vector scaled(const Vector& value, float scale, const Vector& weight) {
    Vector result;
    for (int i = 0; i < VECTOR; ++i) {
        result.at[i] = value.at[i] * scale * weight.at[i];
    }
    return result;
}

// The sum over the LANES threads of a row, in all of them. `partial` holds one float a wave and
// is not the one of the previous call: a fast wave may write it while a slow one still reads that.
__device__ inline float sum_of_row(float sum, float* partial) {
    const int together = LANES < warpSize ? LANES : warpSize;
    for (int offset = together / 2; offset > 0; offset /= 2) {
        sum += SHUFFLE_XOR(sum, offset);
    }
    if (LANES <= warpSize) {
        return sum;
    }
    const int wave = static_cast<int>(threadIdx.x) / warpSize;
    if (static_cast<int>(threadIdx.x) % warpSize == 0) {
        partial[wave] = sum;
    }
    __syncthreads();
    const int waves = LANES / warpSize;
    const int first = wave / waves * waves;
    float total = 0.0f;
    for (int i = 0; i < waves; ++i) {
        total += partial[first + i];
    }
    return total;
}
