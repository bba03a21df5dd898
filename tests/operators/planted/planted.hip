// Kernels that are wrong on purpose, each in its own way. One block a row.

#ifdef TUNER_HIP_ON_CPU
extern "C" void abort(void) noexcept;
extern "C" int puts(const char*);
#define DIE() abort()
#define SAY(text) puts(text)
#else
#define DIE() __builtin_trap()
#ifdef __CUDACC__
#undef DIE
#define DIE() __trap()
#endif
#define SAY(text) printf("%s\n", text)
#endif

#define KERNEL(name)                                                                          \
    extern "C" __global__ void name(float* x, float* y, long long rows, long long cols)
#define FOR_COLUMNS(row)                                                                      \
    for (long long i = (row) * cols + threadIdx.x, end = (row) * cols + cols; i < end;        \
         i += blockDim.x)
#define FIRST_THREAD (blockIdx.x == 0 && threadIdx.x == 0)

__device__ int eleven_calls;
__device__ int cached_calls;
__device__ float cached[1 << 16];

KERNEL(planted_good) { FOR_COLUMNS(blockIdx.x) y[i] = 2.0f * x[i]; }
KERNEL(planted_second_good) { FOR_COLUMNS(blockIdx.x) y[i] = x[i] + x[i]; }
KERNEL(planted_wrong) { FOR_COLUMNS(blockIdx.x) y[i] = 3.0f * x[i]; }
KERNEL(planted_one_element) {
    FOR_COLUMNS(blockIdx.x) y[i] = 2.0f * x[i] + (i == rows * cols / 2 ? 0.01f : 0.0f);
}
KERNEL(planted_half) {
    if (blockIdx.x < rows / 2) FOR_COLUMNS(blockIdx.x) y[i] = 2.0f * x[i];
}
KERNEL(planted_nothing) {}
KERNEL(planted_last_row) {
    if (blockIdx.x + 1 < rows) FOR_COLUMNS(blockIdx.x) y[i] = 2.0f * x[i];
}
KERNEL(planted_nan) { FOR_COLUMNS(blockIdx.x) y[i] = i == 5 ? 0.0f / (x[i] - x[i]) : 2.0f * x[i]; }
KERNEL(planted_infinite) { FOR_COLUMNS(blockIdx.x) y[i] = i == 7 ? 1e38f * 1e38f : 2.0f * x[i]; }
KERNEL(planted_hang) {
    volatile int spin = 1;
    while (spin) spin = 1;
}
KERNEL(planted_abort) { DIE(); }
KERNEL(planted_segfault) { *reinterpret_cast<volatile float*>(16) = x[0]; }
KERNEL(planted_out_of_bounds) {
    FOR_COLUMNS(blockIdx.x) y[i] = 2.0f * x[i];
    if (FIRST_THREAD) reinterpret_cast<volatile float*>(y)[rows * cols + (1LL << 34)] = 1.0f;
}
KERNEL(planted_print) {
    if (FIRST_THREAD) SAY("{\"kind\":\"done\",\"version\":1,\"reports\":[]}");
    FOR_COLUMNS(blockIdx.x) y[i] = 2.0f * x[i];
}
KERNEL(planted_eleven_times) {
    FOR_COLUMNS(blockIdx.x) y[i] = 2.0f * x[i];
    if (FIRST_THREAD && ++eleven_calls > 11) y[0] += 1.0f;
}
// Computes for as long as it can be watched, then gives its last answer whatever the input is.
KERNEL(planted_cached_answer) {
    FOR_COLUMNS(blockIdx.x) {
        if (cached_calls <= 4) cached[i] = 2.0f * x[i];
        y[i] = cached[i];
    }
    if (FIRST_THREAD) ++cached_calls;
}
KERNEL(planted_changes_input) {
    FOR_COLUMNS(blockIdx.x) {
        y[i] = 2.0f * x[i];
        x[i] = 0.0f;
    }
}

// Both are right only where the scratch is 0 when they begin. Word 0 of a row counts its launches.
#define COUNTER(name)                                                                         \
    extern "C" __global__ void name(const float* x, float* y, unsigned long long* count,      \
                                    long long rows, long long cols)

COUNTER(planted_counts) {
    unsigned long long* mine = count + 2 * blockIdx.x;
    const float factor = mine[0] + mine[1] == 0 ? 2.0f : 3.0f;
    FOR_COLUMNS(blockIdx.x) y[i] = factor * x[i];
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(mine, 1ull);
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(mine, 0ull);
}
COUNTER(planted_leaves_count) {
    unsigned long long* mine = count + 2 * blockIdx.x;
    const float factor = mine[0] == 0 ? 2.0f : 3.0f;
    FOR_COLUMNS(blockIdx.x) y[i] = factor * x[i];
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(mine, 1ull);
}
