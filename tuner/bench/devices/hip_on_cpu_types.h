// The words of HIP C++ (qualifiers, vector types) as the host's compiler takes them.
#pragma once

#define TUNER_HIP_ON_CPU 1
#define __global__
#define __device__
#define __host__
#define __constant__ static
// Thread-local, so that all shared variables of the library, those of templates too, lie in
// one range that can be filled before each block. "used": the compiler does not see that fill,
// and would take a variable that no thread writes for 0.
#define __shared__ __attribute__((used)) static __thread
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#define TUNER_VECTORS(T, NAME)                                                              \
    struct alignas(2 * sizeof(T)) NAME##2 { T x, y; };                                      \
    struct alignas(4 * sizeof(T)) NAME##4 { T x, y, z, w; };                                \
    inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                              \
    inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TUNER_VECTORS(float, float)
TUNER_VECTORS(int, int)
TUNER_VECTORS(unsigned, uint)
#undef TUNER_VECTORS
struct float3 {
    float x, y, z;
};
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
struct alignas(16) double2 {
    double x, y;
};
inline double2 make_double2(double x, double y) { return {x, y}; }
