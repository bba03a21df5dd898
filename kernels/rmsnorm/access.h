// How a thread touches memory: VECTOR neighbouring elements an access, at most 16 bytes of them.
// The including file defines VECTOR and STREAM.
#pragma once

#include "element.h"

#define VECTOR_BYTES (VECTOR * (ELEMENT == 0 ? 4 : 2))
#define VECTOR_WORDS (VECTOR_BYTES / 4)

struct alignas(VECTOR_BYTES) Vector {
    Element at[VECTOR];
};

// Accesses that tell the caches what is touched no more (ONCE), and what is read again (AGAIN).
#if defined(__CUDACC__)
#if VECTOR_BYTES == 16
typedef uint4 Raw;
#define LOADED "v4.b32 {%0, %1, %2, %3}, [%4]"
#define INTO(raw) "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
#define WITH(raw) "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w)
#elif VECTOR_BYTES == 8
typedef uint2 Raw;
#define LOADED "v2.b32 {%0, %1}, [%2]"
#define INTO(raw) "=r"(raw.x), "=r"(raw.y)
#define WITH(raw) "+r"(raw.x), "+r"(raw.y)
#elif VECTOR_BYTES == 4
typedef unsigned Raw;
#define LOADED "b32 %0, [%1]"
#define INTO(raw) "=r"(raw)
#define WITH(raw) "+r"(raw)
#else
typedef unsigned short Raw;
#define LOADED "b16 %0, [%1]"
#define INTO(raw) "=h"(raw)
#define WITH(raw) "+h"(raw)
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// The order in which L2 gives up lines is a policy of the access (PTX ISA, "ld").
#define LOAD_WITH(order, raw, from)                              \
    asm("{\n.reg .b64 policy;\n"                                 \
        "createpolicy.fractional.L2::" order ".b64 policy, 1.0;\n" \
        "ld.global.L1::" order ".L2::cache_hint." LOADED ", policy;\n}" \
        : INTO(raw)                                              \
        : "l"(from))
#define LOAD_ONCE(raw, from) LOAD_WITH("evict_first", raw, from)
#define LOAD_AGAIN(raw, from) LOAD_WITH("evict_last", raw, from)
#else
#define LOAD_ONCE(raw, from) (raw = __ldcs(from))
#define LOAD_AGAIN(raw, from) (raw = *(from))
#endif
#define STORE_ONCE(value, to) __stcs(to, value)
#elif defined(__clang__)
typedef unsigned short Raw __attribute__((ext_vector_type(VECTOR_BYTES / 2)));
#define LOAD_ONCE(raw, from) (raw = __builtin_nontemporal_load(from))
#define LOAD_AGAIN(raw, from) (raw = *(from))
#define STORE_ONCE(value, to) __builtin_nontemporal_store(value, to)
#else
typedef Vector Raw;
#define LOAD_ONCE(raw, from) (raw = *(from))
#define LOAD_AGAIN(raw, from) (raw = *(from))
#define STORE_ONCE(value, to) (*(to) = (value))
#endif

union Bits {
    Vector vector;
    Raw raw;
};

// The vector at an address that a wide access may have, which no thread reads again.
__device__ inline Vector load_once(const Element* from) {
    if (STREAM < 2) {
        return *reinterpret_cast<const Vector*>(from);
    }
    Bits bits;
    LOAD_ONCE(bits.raw, reinterpret_cast<const Raw*>(from));
    return bits.vector;
}

// The same, of what is read once more.
__device__ inline Vector load_again(const Element* from) {
    if (STREAM < 2) {
        return *reinterpret_cast<const Vector*>(from);
    }
    Bits bits;
    LOAD_AGAIN(bits.raw, reinterpret_cast<const Raw*>(from));
    return bits.vector;
}

__device__ inline void store_once(const Vector& value, Element* to) {
    if (STREAM == 0) {
        *reinterpret_cast<Vector*>(to) = value;
        return;
    }
    Bits bits;
    bits.vector = value;
    STORE_ONCE(bits.raw, reinterpret_cast<Raw*>(to));
}

// Begins to copy a vector, which no thread reads again, to LDS: past the registers where the device
// can, so that many copies are under way at once. It is there after the same thread's `await_fetched`.
__device__ inline void fetch(Vector* to, const Element* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && VECTOR_BYTES >= 4
#if VECTOR_BYTES == 16
#define COPY "cp.async.cg.shared.global"
#else
#define COPY "cp.async.ca.shared.global"
#endif
    const auto place = static_cast<unsigned>(__cvta_generic_to_shared(to));
#if STREAM == 2
    asm volatile("{\n.reg .b64 policy;\n"
                 "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n" COPY
                 ".L2::cache_hint [%0], [%1], %2, policy;\n}" ::"r"(place), "l"(from), "n"(VECTOR_BYTES)
                 : "memory");
#else
    asm volatile(COPY " [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(VECTOR_BYTES) : "memory");
#endif
#else
    *to = load_once(from);
#endif
}

__device__ inline void await_fetched() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Keeps a vector of 2-byte elements as it is: a compiler that sees them widened twice keeps the
// results of the first time, in twice as many registers.
__device__ inline void keep_narrow(Vector& value) {
#if ELEMENT > 0 && defined(__CUDACC__)
    Bits bits;
    bits.vector = value;
    asm volatile("" : WITH(bits.raw));
    value = bits.vector;
#endif
}

// The vector that begins `shift` elements into `first`, of two that follow each other; less than a
// vector of them.
__device__ inline Vector between(const Vector& first, const Vector& second, int shift) {
#if VECTOR_BYTES < 4
    return first;
#else
    union {
        Vector vectors[2];
        unsigned words[2 * VECTOR_WORDS];
    } both = {{first, second}};
    const int bytes = shift * static_cast<int>(sizeof(Element));
    // A register can't be chosen by number: by halves of a vector, then quarters, then bits.
#pragma unroll
    for (int half = VECTOR_WORDS / 2; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i + half < 2 * VECTOR_WORDS; ++i) {
            both.words[i] = bytes / 4 & half ? both.words[i + half] : both.words[i];
        }
    }
    if (sizeof(Element) < 4) {
#pragma unroll
        for (int i = 0; i < VECTOR_WORDS; ++i) {
            const auto pair = static_cast<unsigned long long>(both.words[i + 1]) << 32 | both.words[i];
            both.words[i] = static_cast<unsigned>(pair >> bytes % 4 * 8);
        }
    }
    return both.vectors[0];
#endif
}
