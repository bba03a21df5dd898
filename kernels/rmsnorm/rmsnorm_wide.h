// What the kernels with wide accesses share. The including file defines BLOCK, LANES (threads that
// sum one row, or one part of it), COLS, VECTOR (elements an access, at most 16 bytes of them),
// STREAM and RAGGED (1: a row may begin or end where no whole vector does).
//
// In ragged rows a thread's vectors lie on the addresses that a wide access may have, so that the
// first one may begin before the row and the last one may end behind it: of these two only what is
// in the row is touched, an element at a time.
#pragma once

#include "element.h"

#if defined(__CUDACC__)
#define SHUFFLE_XOR(value, offset) __shfl_xor_sync(0xffffffffu, value, offset)
#else
#define SHUFFLE_XOR(value, offset) __shfl_xor(value, offset)
#endif

#define MOST_WAVES (BLOCK / 32)  // of the smallest wave there is
#define SPARE (RAGGED ? VECTOR - 1 : 0)  // columns that a row's vectors may have beyond it
#define VECTOR_BYTES (VECTOR * (ELEMENT == 0 ? 4 : 2))

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

// A thread's vectors of a row, or of a part of one: `first` is the column of the first of them, to
// which the pointers lead; the others are given by their distance from it in elements.
struct Share {
    const Element* x;
    const Element* w;
    Element* y;
    int first;
    bool w_aligned, y_aligned;  // lie as the row does: whole vectors can be accessed
};

// By how many elements a row begins after an address that a wide access may have.
__device__ inline int lead_of(const Element* row) {
    const auto address = reinterpret_cast<unsigned long long>(row);
    return RAGGED ? static_cast<int>(address / sizeof(Element) % VECTOR) : 0;
}

__device__ inline Share share_of(const Element* x, const Element* w, Element* y, int column) {
    const int lead = lead_of(x);
    const int first = column - lead;
    return {x + first, w + first, y + first, first, lead_of(w) == lead, lead_of(y) == lead};
}

__device__ inline bool is_whole(int column) {
    return !RAGGED || (column >= 0 && column + VECTOR <= COLS);
}

__device__ inline bool is_column(int column) {
    return column >= 0 && column < COLS;
}

// The vector at `from`, which is column `column`; 0 where that lies outside the row.
__device__ inline Vector load_vector(const Element* from, int column, bool is_aligned) {
    if (!RAGGED || (is_aligned && is_whole(column))) {
        return *reinterpret_cast<const Vector*>(from);
    }
    Vector result;
    for (int i = 0; i < VECTOR; ++i) {
        result.at[i] = is_column(column + i) ? from[i] : Element();
    }
    return result;
}

__device__ inline Vector load(const Share& share, int distance) {
    return load_vector(share.x + distance, share.first + distance, true);
}

// As `load_vector`; with STREAM 2 the caches are told whether it is read again.
template <bool IS_LAST>
__device__ inline Vector load_told(const Element* from, int column, bool is_aligned) {
    if (STREAM < 2 || !is_aligned || !is_whole(column)) {
        return load_vector(from, column, is_aligned);
    }
    Bits bits;
    if (IS_LAST) {
        LOAD_ONCE(bits.raw, reinterpret_cast<const Raw*>(from));
    } else {
        LOAD_AGAIN(bits.raw, reinterpret_cast<const Raw*>(from));
    }
    return bits.vector;
}

// As `load`, of what no thread reads again.
__device__ inline Vector load_once(const Share& share, int distance) {
    return load_told<true>(share.x + distance, share.first + distance, true);
}

// As `load`, of what this thread reads once more.
__device__ inline Vector load_again(const Share& share, int distance) {
    return load_told<false>(share.x + distance, share.first + distance, true);
}

// All rows read the weights.
__device__ inline Vector load_weights(const Share& share, int distance) {
    return load_told<false>(share.w + distance, share.first + distance, share.w_aligned);
}

__device__ inline void store(const Share& share, int distance, const Vector& value) {
    Element* to = share.y + distance;
    const int column = share.first + distance;
    if (RAGGED && !(share.y_aligned && is_whole(column))) {
        for (int i = 0; i < VECTOR; ++i) {
            if (is_column(column + i)) {
                to[i] = value.at[i];
            }
        }
    } else if (STREAM) {
        Bits bits;
        bits.vector = value;
        STORE_ONCE(bits.raw, reinterpret_cast<Raw*>(to));
    } else {
        *reinterpret_cast<Vector*>(to) = value;
    }
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

__device__ inline float squares(const Vector& value) {
    float sum = 0.0f;
    for (int i = 0; i < VECTOR; ++i) {
        const float each = widen(value.at[i]);
        sum += each * each;
    }
    return sum;
}

__device__ inline Vector scaled(const Vector& value, float scale, const Vector& weight) {
    float wide[VECTOR];
    for (int i = 0; i < VECTOR; ++i) {
        wide[i] = widen(value.at[i]) * scale * widen(weight.at[i]);
    }
    Vector result;
    for (int i = 0; i + 1 < VECTOR; i += 2) {
        narrow_pair(wide[i], wide[i + 1], result.at + i);
    }
    if (VECTOR == 1) {
        result.at[0] = narrow(wide[0]);
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
