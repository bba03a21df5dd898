// The element type of the arrays: ELEMENT is 0 for float, 1 for FP16, 2 for BF16.
// Kernels compute in float: `widen` is exact, `narrow` rounds to nearest even. Includes nothing,
// so that hiprtc, NVRTC, clang and the host's compiler all take it.
#pragma once

#ifndef ELEMENT
#define ELEMENT 0
#endif

#if ELEMENT == 0

typedef float Element;
__device__ inline float widen(Element value) { return value; }
__device__ inline Element narrow(float value) { return value; }

#elif ELEMENT == 1 && defined(__CUDACC__)

// NVRTC has no FP16 type of its own, and its header lies outside this folder.
struct Element {
    unsigned short bits;
};
__device__ inline float widen(Element value) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
}
__device__ inline Element narrow(float value) {
    Element result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}

#elif ELEMENT == 1

typedef _Float16 Element;
__device__ inline float widen(Element value) { return static_cast<float>(value); }
__device__ inline Element narrow(float value) { return static_cast<Element>(value); }

#elif ELEMENT == 2

struct Element {
    unsigned short bits;
};
__device__ inline float widen(Element value) {
    return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ inline Element narrow(float value) {
    const unsigned bits = __float_as_uint(value);
    // Adding may carry a NaN on to infinity or zero: a NaN keeps its upper half, made quiet.
    const unsigned nearest = bits + 0x7fffu + (bits >> 16 & 1u);
    return {static_cast<unsigned short>((value != value ? bits | 0x400000u : nearest) >> 16)};
}

#else
#error "ELEMENT is 0 (float), 1 (FP16) or 2 (BF16)"
#endif

// `narrow` of two neighbours: one instruction for both where the hardware has it.
__device__ inline void narrow_pair(float first, float second, Element* to) {
#if ELEMENT > 0 && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned both;
#if ELEMENT == 1
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
#else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
#endif
    to[0].bits = static_cast<unsigned short>(both);
    to[1].bits = static_cast<unsigned short>(both >> 16);
#else
    to[0] = narrow(first);
    to[1] = narrow(second);
#endif
}
