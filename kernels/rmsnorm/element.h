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

#if ELEMENT > 0

// Two neighbours in a word, the first in its lower half. Held so, they take half the registers, and
// a half is widened by one instruction.
__device__ inline Element half_of(unsigned word, int half) {
    union {
        unsigned short bits;
        Element element;
    } result = {static_cast<unsigned short>(word >> 16 * half)};
    return result.element;
}

__device__ inline unsigned narrow_pair(float first, float second) {
    unsigned both;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && ELEMENT == 1
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
#else
    union {
        Element element;
        unsigned short bits;
    } low = {narrow(first)}, high = {narrow(second)};
    both = static_cast<unsigned>(high.bits) << 16 | low.bits;
#endif
    return both;
}

#endif
