// HIP C++ for AMD GPUs without ROCm's headers and device libraries: what a kernel needs of
// them, through the compiler's own built-ins. Included before the kernel by hip_offline.py.
// Functions it lacks (transcendentals beyond exp and log) end as a compile or link error.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

#define TUNER_DEVICE static inline __attribute__((device, always_inline))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};

#define TUNER_VECTORS(T, NAME)                                                        \
    struct alignas(2 * sizeof(T)) NAME##2 { T x, y; };                                \
    struct alignas(4 * sizeof(T)) NAME##4 { T x, y, z, w; };                          \
    TUNER_DEVICE NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                  \
    TUNER_DEVICE NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TUNER_VECTORS(float, float)
TUNER_VECTORS(int, int)
TUNER_VECTORS(unsigned, uint)
#undef TUNER_VECTORS

// ---- indices ------------------------------------------------------------------------------

namespace tuner_amd {

TUNER_DEVICE uint3 thread_index() {
    return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
            __builtin_amdgcn_workitem_id_z()};
}
TUNER_DEVICE uint3 block_index() {
    return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
            __builtin_amdgcn_workgroup_id_z()};
}
TUNER_DEVICE dim3 block_size() {
    return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
            __builtin_amdgcn_workgroup_size_z()};
}
// Code object version 5: the hidden kernel arguments start with the block counts.
TUNER_DEVICE dim3 grid_size() {
    const auto* counts = (const unsigned*)__builtin_amdgcn_implicitarg_ptr();
    return {counts[0], counts[1], counts[2]};
}
TUNER_DEVICE int lane() {
    return static_cast<int>(
        __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)));
}

}  // namespace tuner_amd

#define threadIdx (::tuner_amd::thread_index())
#define blockIdx (::tuner_amd::block_index())
#define blockDim (::tuner_amd::block_size())
#define gridDim (::tuner_amd::grid_size())
#define warpSize (static_cast<int>(__builtin_amdgcn_wavefrontsize()))

// ---- barriers -----------------------------------------------------------------------------

TUNER_DEVICE void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
TUNER_DEVICE void __syncwarp(unsigned long long = ~0ull) {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
TUNER_DEVICE void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
TUNER_DEVICE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }

// ---- wave intrinsics ----------------------------------------------------------------------

namespace tuner_amd {

template <class T>
TUNER_DEVICE T read_lane(T value, int source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle moves 4 or 8 bytes");
    int words[sizeof(T) / 4];
    __builtin_memcpy(words, &value, sizeof value);
    for (int& word : words) {
        word = __builtin_amdgcn_ds_bpermute(source * 4, word);
    }
    __builtin_memcpy(&value, words, sizeof value);
    return value;
}

}  // namespace tuner_amd

template <class T>
TUNER_DEVICE T __shfl(T value, int lane, int width = warpSize) {
    const int group = tuner_amd::lane() & ~(width - 1);
    return tuner_amd::read_lane(value, group + (lane & (width - 1)));
}
template <class T>
TUNER_DEVICE T __shfl_up(T value, unsigned delta, int width = warpSize) {
    const int self = tuner_amd::lane();
    const int source = self - static_cast<int>(delta);
    return tuner_amd::read_lane(value, source < (self & ~(width - 1)) ? self : source);
}
template <class T>
TUNER_DEVICE T __shfl_down(T value, unsigned delta, int width = warpSize) {
    const int self = tuner_amd::lane();
    const int source = self + static_cast<int>(delta);
    return tuner_amd::read_lane(value, source >= (self & ~(width - 1)) + width ? self : source);
}
template <class T>
TUNER_DEVICE T __shfl_xor(T value, int mask, int width = warpSize) {
    const int self = tuner_amd::lane();
    const int source = self ^ mask;
    return tuner_amd::read_lane(value, source >= (self & ~(width - 1)) + width ? self : source);
}
// The masks say who takes part; on AMD that is decided by the lanes that are active.
#define __shfl_sync(mask, ...) __shfl(__VA_ARGS__)
#define __shfl_up_sync(mask, ...) __shfl_up(__VA_ARGS__)
#define __shfl_down_sync(mask, ...) __shfl_down(__VA_ARGS__)
#define __shfl_xor_sync(mask, ...) __shfl_xor(__VA_ARGS__)

TUNER_DEVICE unsigned long long __ballot(int predicate) {
#if __AMDGCN_WAVEFRONT_SIZE == 64
    return __builtin_amdgcn_ballot_w64(predicate != 0);
#else
    return __builtin_amdgcn_ballot_w32(predicate != 0);
#endif
}
TUNER_DEVICE int __any(int predicate) { return __ballot(predicate) != 0; }
TUNER_DEVICE int __all(int predicate) { return __ballot(predicate == 0) == 0; }
#define __ballot_sync(mask, predicate) __ballot(predicate)
#define __any_sync(mask, predicate) __any(predicate)
#define __all_sync(mask, predicate) __all(predicate)

// ---- atomics and arithmetic ---------------------------------------------------------------

template <class T, class V>
TUNER_DEVICE T atomicAdd(T* address, V value) {
    return __hip_atomic_fetch_add(address, static_cast<T>(value), __ATOMIC_RELAXED,
                                  __HIP_MEMORY_SCOPE_AGENT);
}
template <class T, class V>
TUNER_DEVICE T atomicMax(T* address, V value) {
    return __hip_atomic_fetch_max(address, static_cast<T>(value), __ATOMIC_RELAXED,
                                  __HIP_MEMORY_SCOPE_AGENT);
}

template <class T, class V>
TUNER_DEVICE T atomicMin(T* address, V value) {
    return __hip_atomic_fetch_min(address, static_cast<T>(value), __ATOMIC_RELAXED,
                                  __HIP_MEMORY_SCOPE_AGENT);
}
template <class T, class V>
TUNER_DEVICE T atomicExch(T* address, V value) {
    return __hip_atomic_exchange(address, static_cast<T>(value), __ATOMIC_RELAXED,
                                 __HIP_MEMORY_SCOPE_AGENT);
}
template <class T, class V, class W>
TUNER_DEVICE T atomicCAS(T* address, V expected, W value) {
    T found = static_cast<T>(expected);
    __hip_atomic_compare_exchange_strong(address, &found, static_cast<T>(value), __ATOMIC_RELAXED,
                                         __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return found;
}
TUNER_DEVICE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
TUNER_DEVICE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
TUNER_DEVICE unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
TUNER_DEVICE float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
TUNER_DEVICE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
TUNER_DEVICE long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
TUNER_DEVICE double fabs(double x) { return __builtin_fabs(x); }

// The hardware's reciprocal square root does not take denormals: scale them by an even power.
TUNER_DEVICE float rsqrtf(float x) {
    const bool tiny = x < 0x1p-100f;
    const float result = __builtin_amdgcn_rsqf(tiny ? x * 0x1p+24f : x);
    return tiny ? result * 0x1p+12f : result;
}
TUNER_DEVICE float sqrtf(float x) { return __builtin_sqrtf(x); }
TUNER_DEVICE float expf(float x) { return __builtin_expf(x); }
TUNER_DEVICE float __expf(float x) { return __builtin_expf(x); }
TUNER_DEVICE float exp2f(float x) { return __builtin_exp2f(x); }
TUNER_DEVICE float logf(float x) { return __builtin_logf(x); }
TUNER_DEVICE float __logf(float x) { return __builtin_logf(x); }
TUNER_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
TUNER_DEVICE float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
TUNER_DEVICE float fminf(float x, float y) { return __builtin_fminf(x, y); }
TUNER_DEVICE float fabsf(float x) { return __builtin_fabsf(x); }
TUNER_DEVICE float __fdividef(float x, float y) { return x / y; }

template <class T>
TUNER_DEVICE T min(T a, T b) {
    return b < a ? b : a;
}
template <class T>
TUNER_DEVICE T max(T a, T b) {
    return a < b ? b : a;
}
