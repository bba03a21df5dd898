// How a thread touches memory: VECTOR neighbouring elements an access, at most 16 bytes of them.
// The including file defines VECTOR and STREAM.
#pragma once

#include "element.h"

#define VECTOR_BYTES (VECTOR * (ELEMENT == 0 ? 4 : 2))
#define VECTOR_WORDS (VECTOR_BYTES / 4)

struct alignas(VECTOR_BYTES) Vector {
#if VECTOR_BYTES < 4
    Element only;
#else
    unsigned words[VECTOR_WORDS];
#endif
};

// Element `i` of a vector.
__device__ inline Element element_of(const Vector& vector, int i) {
#if VECTOR_BYTES < 4
    return vector.only;
#elif ELEMENT == 0
    return __uint_as_float(vector.words[i]);
#else
    return half_of(vector.words[i / 2], i % 2);
#endif
}

// The elements nearest to floats.
__device__ inline Vector vector_of(const float (&wide)[VECTOR]) {
    Vector result;
#if VECTOR_BYTES < 4
    result.only = narrow(wide[0]);
#else
    for (int i = 0; i < VECTOR_WORDS; ++i) {
#if ELEMENT == 0
        result.words[i] = __float_as_uint(wide[i]);
#else
        result.words[i] = narrow_pair(wide[2 * i], wide[2 * i + 1]);
#endif
    }
#endif
    return result;
}

// Accesses that tell the caches what is touched no more (ONCE), and what is read again (AGAIN).
#if defined(__CUDACC__)
#if VECTOR_BYTES == 16
typedef uint4 Raw;
#define LOADED "v4.b32 {%0, %1, %2, %3}, [%4]"
#define INTO(raw) "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
#define STORED "v4.b32 [%0], {%1, %2, %3, %4}"
#define FROM(raw) "r"(raw.x), "r"(raw.y), "r"(raw.z), "r"(raw.w)
#define WITH(raw) "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w)
#elif VECTOR_BYTES == 8
typedef uint2 Raw;
#define LOADED "v2.b32 {%0, %1}, [%2]"
#define INTO(raw) "=r"(raw.x), "=r"(raw.y)
#define STORED "v2.b32 [%0], {%1, %2}"
#define FROM(raw) "r"(raw.x), "r"(raw.y)
#define WITH(raw) "+r"(raw.x), "+r"(raw.y)
#elif VECTOR_BYTES == 4
typedef unsigned Raw;
#define LOADED "b32 %0, [%1]"
#define INTO(raw) "=r"(raw)
#define STORED "b32 [%0], %1"
#define FROM(raw) "r"(raw)
#define WITH(raw) "+r"(raw)
#else
typedef unsigned short Raw;
#define LOADED "b16 %0, [%1]"
#define INTO(raw) "=h"(raw)
#define STORED "b16 [%0], %1"
#define FROM(raw) "h"(raw)
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
// A plain one, which the compiler can't take apart.
#define STORE(value, to) asm volatile("st.global." STORED ";" ::"l"(to), FROM(value))
#elif defined(__clang__)
typedef unsigned short Raw __attribute__((ext_vector_type(VECTOR_BYTES / 2)));
#define LOAD_ONCE(raw, from) (raw = __builtin_nontemporal_load(from))
#define LOAD_AGAIN(raw, from) (raw = *(from))
#define STORE_ONCE(value, to) __builtin_nontemporal_store(value, to)
#define STORE(value, to) (*(to) = (value))
#else
typedef Vector Raw;
#define LOAD_ONCE(raw, from) (raw = *(from))
#define LOAD_AGAIN(raw, from) (raw = *(from))
#define STORE_ONCE(value, to) (*(to) = (value))
#define STORE(value, to) (*(to) = (value))
#endif

union Bits {
    Vector vector;
    Raw raw;
};

// The vector at an address that a wide access may have, which no thread reads again.
__device__ inline Vector load_once(const Element* from) {
    Bits bits;
    if (STREAM < 2) {
        bits.raw = *reinterpret_cast<const Raw*>(from);
    } else {
        LOAD_ONCE(bits.raw, reinterpret_cast<const Raw*>(from));
    }
    return bits.vector;
}

// The same, of what is read once more.
__device__ inline Vector load_again(const Element* from) {
    Bits bits;
    if (STREAM < 2) {
        bits.raw = *reinterpret_cast<const Raw*>(from);
    } else {
        LOAD_AGAIN(bits.raw, reinterpret_cast<const Raw*>(from));
    }
    return bits.vector;
}

__device__ inline void store_once(const Vector& value, Element* to) {
    Bits bits;
    bits.vector = value;
    if (STREAM == 0) {
        STORE(bits.raw, reinterpret_cast<Raw*>(to));
    } else {
        STORE_ONCE(bits.raw, reinterpret_cast<Raw*>(to));
    }
}

// Begins to copy a vector to LDS: past the registers where the device can, so that many copies are
// under way at once. IS_READ_AGAIN: for other rows.
template <bool IS_READ_AGAIN>
__device__ inline void fetch(Vector* to, const Element* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && VECTOR_BYTES >= 4
#if VECTOR_BYTES == 16
#define COPY "cp.async.cg.shared.global"
#else
#define COPY "cp.async.ca.shared.global"
#endif
    const auto place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    // Without a policy, whatever STREAM: NVRTC 13.0 encodes a copy that has both a policy and an
    // address in LDS relative to a uniform register wrongly (32784x2047 in BF16: illegal instruction).
    asm volatile(COPY " [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(VECTOR_BYTES) : "memory");
#else
    *to = IS_READ_AGAIN ? load_again(from) : load_once(from);
#endif
}

// What a thread has begun to fetch since it last said so is one batch.
__device__ inline void end_batch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all of this thread's batches are in LDS, but for the last OPEN.
template <int OPEN>
__device__ inline void await_batches() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(OPEN) : "memory");
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
    Vector result = first;
#if VECTOR_BYTES >= 4
    unsigned words[2 * VECTOR_WORDS];
    for (int i = 0; i < VECTOR_WORDS; ++i) {
        words[i] = first.words[i];
        words[VECTOR_WORDS + i] = second.words[i];
    }
    const unsigned bytes = shift * sizeof(Element);
    // A register can't be chosen by number: by halves of a vector, then quarters, then bits.
#pragma unroll
    for (int half = VECTOR_WORDS / 2; half > 0; half /= 2) {
#pragma unroll
        for (int i = 0; i + half < 2 * VECTOR_WORDS; ++i) {
            words[i] = bytes / 4 & half ? words[i + half] : words[i];
        }
    }
#pragma unroll
    for (int i = 0; i < VECTOR_WORDS; ++i) {
        const auto pair = static_cast<unsigned long long>(words[i + 1]) << 32 | words[i];
        result.words[i] = sizeof(Element) < 4 ? static_cast<unsigned>(pair >> bytes % 4 * 8) : words[i];
    }
#endif
    return result;
}
