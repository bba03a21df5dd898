// Device functions of HIP C++ for the host: barriers, wave intrinsics, atomics, fast maths.
// Included by hip_on_cpu.h, which has the scheduler.
#pragma once

// ---- barriers -----------------------------------------------------------------------------

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    tuner_hip::suspend(tuner_hip::State::kAtBarrier, {file, line});
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// ---- wave intrinsics ----------------------------------------------------------------------

namespace tuner_hip {

constexpr uint64_t kAllLanes = ~static_cast<uint64_t>(0);

inline unsigned lane_of(const Fiber& fiber) {
    return fiber.index % static_cast<unsigned>(warpSize);
}

// Waits for the lanes of the mask and returns those that met.
inline uint64_t meet(uint64_t mask, uint64_t operand, Site site) {
    if (!(mask >> lane_of(*current) & 1)) {
        fail("thread %u calls a wave intrinsic (%s:%d) with the mask %#llx, which leaves it out",
             current->index, site.file, site.line, static_cast<unsigned long long>(mask));
    }
    current->wave_mask = mask;
    current->offered = operand;
    suspend(State::kInWaveOp, site);
    return current->participants;
}

template <class T>
uint64_t to_bits(T value) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value,
                  "a wave intrinsic takes values of at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T>
T read_lane(uint64_t participants, int lane) {
    T value;
    memset(&value, kUnwritten, sizeof value);
    if (lane >= 0 && lane < warpSize && (participants >> lane & 1)) {
        memcpy(&value, &fibers[current->index - lane_of(*current) + lane].published, sizeof value);
    }
    return value;
}

enum class Move { kTo, kUp, kDown, kXor };

// Which lane a shuffle reads: its own where the wanted one lies outside its group of `width`.
inline int source_lane(Move move, int argument, int width) {
    const int lane = static_cast<int>(lane_of(*current));
    const int group = lane & ~(width - 1);
    int source = lane;
    switch (move) {
        case Move::kTo: return group + (argument & (width - 1));
        case Move::kUp: source = lane - argument; return source < group ? lane : source;
        case Move::kDown: source = lane + argument; return source >= group + width ? lane : source;
        case Move::kXor: source = lane ^ argument; return source >= group + width ? lane : source;
    }
    return lane;
}

template <class T>
T shuffle(uint64_t mask, T value, Move move, int argument, int width, Site site) {
    const uint64_t participants = meet(mask, to_bits(value), site);
    return read_lane<T>(participants, source_lane(move, argument, width));
}

inline unsigned long long ballot(uint64_t mask, bool predicate, Site site) {
    const uint64_t participants = meet(mask, predicate, site);
    const unsigned first = current->index - lane_of(*current);
    unsigned long long result = 0;
    for (int lane = 0; lane < warpSize; ++lane) {
        if (participants >> lane & 1) {
            result |= static_cast<unsigned long long>(fibers[first + lane].published) << lane;
        }
    }
    return result;
}

}  // namespace tuner_hip

#define TUNER_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define TUNER_SHUFFLE(NAME, MOVE)                                                            \
    template <class T>                                                                       \
    T NAME(T value, int argument, int width = warpSize, TUNER_SITE) {                        \
        return tuner_hip::shuffle(tuner_hip::kAllLanes, value, tuner_hip::Move::MOVE,        \
                                  argument, width, {file, line});                            \
    }                                                                                        \
    template <class T>                                                                       \
    T NAME##_sync(unsigned long long mask, T value, int argument, int width = warpSize,      \
                  TUNER_SITE) {                                                              \
        return tuner_hip::shuffle(mask, value, tuner_hip::Move::MOVE, argument, width,       \
                                  {file, line});                                             \
    }
TUNER_SHUFFLE(__shfl, kTo)
TUNER_SHUFFLE(__shfl_up, kUp)
TUNER_SHUFFLE(__shfl_down, kDown)
TUNER_SHUFFLE(__shfl_xor, kXor)
#undef TUNER_SHUFFLE

inline unsigned long long __ballot(int predicate, TUNER_SITE) {
    return tuner_hip::ballot(tuner_hip::kAllLanes, predicate != 0, {file, line});
}
inline unsigned long long __ballot_sync(unsigned long long mask, int predicate, TUNER_SITE) {
    return tuner_hip::ballot(mask, predicate != 0, {file, line});
}
inline int __any(int predicate, TUNER_SITE) {
    return tuner_hip::ballot(tuner_hip::kAllLanes, predicate != 0, {file, line}) != 0;
}
inline int __any_sync(unsigned long long mask, int predicate, TUNER_SITE) {
    return tuner_hip::ballot(mask, predicate != 0, {file, line}) != 0;
}
inline int __all(int predicate, TUNER_SITE) {
    return tuner_hip::ballot(tuner_hip::kAllLanes, predicate == 0, {file, line}) == 0;
}
inline int __all_sync(unsigned long long mask, int predicate, TUNER_SITE) {
    return tuner_hip::ballot(mask, predicate == 0, {file, line}) == 0;
}
inline void __syncwarp(unsigned long long mask = tuner_hip::kAllLanes, TUNER_SITE) {
    tuner_hip::meet(mask, 0, {file, line});
}
inline int __lane_id() { return static_cast<int>(tuner_hip::lane_of(*tuner_hip::current)); }
#undef TUNER_SITE

// ---- atomics: plain, since one host thread runs everything --------------------------------

template <class T, class V>
T atomicAdd(T* address, V value) {
    const T old = *address;
    *address = old + static_cast<T>(value);
    return old;
}
template <class T, class V>
T atomicMax(T* address, V value) {
    const T old = *address;
    *address = old < static_cast<T>(value) ? static_cast<T>(value) : old;
    return old;
}
template <class T, class V>
T atomicMin(T* address, V value) {
    const T old = *address;
    *address = static_cast<T>(value) < old ? static_cast<T>(value) : old;
    return old;
}
template <class T, class V>
T atomicExch(T* address, V value) {
    const T old = *address;
    *address = static_cast<T>(value);
    return old;
}
template <class T, class V, class W>
T atomicCAS(T* address, V expected, W value) {
    const T old = *address;
    if (old == static_cast<T>(expected)) {
        *address = static_cast<T>(value);
    }
    return old;
}

// ---- arithmetic that the C library lacks --------------------------------------------------

// rsqrt and rsqrtf are macros: glibc 2.42 declares functions of these names.
namespace tuner_hip {
inline float reciprocal_sqrt(float x) { return 1.0f / sqrtf(x); }
inline double reciprocal_sqrt(double x) { return 1.0 / sqrt(x); }

template <class To, class From>
To bit_cast(From value) {
    static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
    To result;
    memcpy(&result, &value, sizeof result);
    return result;
}
}  // namespace tuner_hip

#define rsqrtf(x) (::tuner_hip::reciprocal_sqrt(static_cast<float>(x)))
#define rsqrt(x) (::tuner_hip::reciprocal_sqrt(x))
inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __int_as_float(int x) { return tuner_hip::bit_cast<float>(x); }
inline int __float_as_int(float x) { return tuner_hip::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return tuner_hip::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return tuner_hip::bit_cast<unsigned>(x); }
inline double __longlong_as_double(long long x) { return tuner_hip::bit_cast<double>(x); }
inline long long __double_as_longlong(double x) { return tuner_hip::bit_cast<long long>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }

template <class T, class U>
constexpr std::common_type_t<T, U> min(T a, U b) {
    using C = std::common_type_t<T, U>;
    return static_cast<C>(b) < static_cast<C>(a) ? static_cast<C>(b) : static_cast<C>(a);
}
template <class T, class U>
constexpr std::common_type_t<T, U> max(T a, U b) {
    using C = std::common_type_t<T, U>;
    return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(b) : static_cast<C>(a);
}
