// The blocks that a launch starts with would all read, then all sum, then all write, while the memory
// has nothing to do in between, until chance has set them apart. So each begins when the memory, at
// STAGGER bytes a clock cycle, has delivered what the blocks before it read. Which blocks a launch
// starts with is not known here: those of the first STAGGERED_BYTES wait, also if they begin late, and
// no others. The including file defines STAGGER; 0: they all begin at once.
#pragma once

// What a large GPU holds of rows at once (an H200: up to some 25 MB in registers and LDS).
#define STAGGERED_BYTES (16ll << 20)

// `block_bytes`: that a block reads.
__device__ inline void await_turn(long long block_bytes) {
#if STAGGER > 0
    const long long before_bytes = blockIdx.x * block_bytes;
    if (before_bytes >= STAGGERED_BYTES) {
        return;
    }
    const int cycles = static_cast<int>(before_bytes / STAGGER);
#if defined(__CUDACC__)
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
#elif defined(__AMDGCN__)
    for (int slept = 0; slept < cycles; slept += 64) {
        __builtin_amdgcn_s_sleep(1);  // 64 cycles
    }
#endif
#endif
}
