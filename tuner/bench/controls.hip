// The kernels of a run's controls: one that does nothing, and a copy.

// It takes an argument, as every other kernel does, so that it is launched in the same way.
extern "C" __global__ void control_null(long long)
{
}

constexpr int WORDS = 4;  // a thread: four loads under way at a time

// Copies words of 16 bytes. A block's threads take neighbouring words, so that accesses are whole.
extern "C" __global__ void control_copy(const uint4* source, uint4* target, long long count)
{
    long long first = (long long)blockIdx.x * blockDim.x * WORDS + threadIdx.x;
    uint4 words[WORDS];
#pragma unroll
    for (int turn = 0; turn < WORDS; ++turn) {
        long long index = first + (long long)turn * blockDim.x;
        if (index < count)
            words[turn] = source[index];
    }
#pragma unroll
    for (int turn = 0; turn < WORDS; ++turn) {
        long long index = first + (long long)turn * blockDim.x;
        if (index < count)
            target[index] = words[turn];
    }
}
