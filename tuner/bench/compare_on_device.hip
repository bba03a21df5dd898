// Compares outputs with their reference, and takes checksums of inputs, where they lie. What is
// found wrong here is compared again on the host, which then says what and where.

#if ELEMENT == 8
typedef double element;
__device__ inline double as_double(element value) { return value; }
#elif ELEMENT == 4
typedef float element;
__device__ inline double as_double(element value) { return (double)value; }
#else
typedef unsigned short element;
__device__ inline double as_double(element bits)
{
#if ELEMENT == 16  // bfloat16: the upper half of a float
    return (double)__uint_as_float((unsigned int)bits << 16);
#else  // float16
    int sign = bits >> 15, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    double size = exponent == 0 ? fraction * 5.9604644775390625e-08  // 2^-24
                : exponent < 31 ? (double)(1024 + fraction) * __longlong_as_double(
                      (long long)(1023 + exponent - 25) << 52)
                : __longlong_as_double(fraction ? 0x7ff8000000000000LL : 0x7ff0000000000000LL);
    return sign ? -size : size;
#endif
}
#endif

typedef unsigned long long word;
constexpr int THREADS = 256;  // of a block; the host launches no other number

__device__ inline word largest(word a, word b) { return a > b ? a : b; }

// Adds up (or takes the largest of) one value a thread; the block's result is in values[0].
template <bool IS_SUM> __device__ void reduce(word* values, word mine)
{
    values[threadIdx.x] = mine;
    for (int step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) {
            word other = values[threadIdx.x + step];
            values[threadIdx.x] =
                IS_SUM ? values[threadIdx.x] + other : largest(values[threadIdx.x], other);
        }
    }
    __syncthreads();
}

// Finite values of 0 and more order like their bits; one is added so that 0 says "none yet".
__device__ inline word ordered(double value)
{
    return value <= 1.7976931348623157e308 ? (word)__double_as_longlong(value) + 1 : 0;
}

// The tolerance, rounded after the product and after the sum, as on the host.
__device__ inline double allowed(double size, double relative, double absolute)
{
#ifdef __CUDACC_RTC__
    return __dadd_rn(__dmul_rn(size, relative), absolute);
#else
#ifdef __clang__
#pragma clang fp contract(off)
#endif
    return size * relative + absolute;
#endif
}

// found[0] counts elements outside the tolerance, found[1] and found[2] are the largest finite
// absolute and relative errors, by `ordered`. The same rules as on the host: NaN is wrong, an
// infinity that the reference has too is right.
extern "C" __global__ void compare_elements(
    const element* actual, const double* expected, word* found, long long count,
    long long absolute_bits, long long relative_bits)
{
    __shared__ word values[THREADS];
    double absolute = __longlong_as_double(absolute_bits);
    double relative = __longlong_as_double(relative_bits);
    word wrong = 0, absolute_error = 0, relative_error = 0;
    long long step = (long long)gridDim.x * THREADS;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < count; i += step) {
        double got = as_double(actual[i]), wanted = expected[i];
        double error = fabs(got - wanted), size = fabs(wanted);
        if (!(error <= allowed(size, relative, absolute)) && !(got == wanted)) ++wrong;
        absolute_error = largest(absolute_error, ordered(error));
        relative_error = largest(
            relative_error, ordered(size == 0.0 ? error * 0.0 : error / size));
    }
    reduce<true>(values, wrong);
    if (threadIdx.x == 0 && values[0]) atomicAdd(found, values[0]);
    reduce<false>(values, absolute_error);
    if (threadIdx.x == 0) atomicMax(found + 1, values[0]);
    reduce<false>(values, relative_error);
    if (threadIdx.x == 0) atomicMax(found + 2, values[0]);
}

// Adds a checksum of a buffer to found[0]: a sum, so that the order of blocks does not matter, of
// each byte or word mixed with its place (the finalizer of Steele, Lea and Flood's SplitMix64).
extern "C" __global__ void digest_bytes(const unsigned char* bytes, word* found, long long count)
{
    __shared__ word values[THREADS];
    const word* words = (const word*)bytes;
    long long whole = count / 8, units = whole + count % 8;
    word sum = 0;
    long long step = (long long)gridDim.x * THREADS;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < units; i += step) {
        word mixed = (i < whole ? words[i] : (word)bytes[7 * whole + i])
                   + 0x9e3779b97f4a7c15ULL * (word)(i + 1);
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
        sum += mixed ^ (mixed >> 31);
    }
    reduce<true>(values, sum);
    if (threadIdx.x == 0) atomicAdd(found, values[0]);
}
