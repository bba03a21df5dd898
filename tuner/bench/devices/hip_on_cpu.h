// HIP C++ on the host: a block's threads run as fibers of one host thread, blocks one by one.
//
// A thread runs until it reaches a barrier, a wave intrinsic or its end; then the next one runs.
// So barriers and shuffles are true ones, and faults that a GPU hides show:
// - shared memory holds 0xFF bytes (NaN) when a block starts;
// - threads run in ascending order in even blocks, in descending order in odd ones, so that
//   code which misses a barrier sees the other order too;
// - a barrier or wave intrinsic that not all threads reach is reported with its line, not hung;
// - a lane that takes no part in a shuffle or has left gives 0xFF bytes to those that read it;
// - a write behind the dynamic shared memory is reported.
// What it does not show: races between blocks, lock step within a wave, caches, speed.
//
// Fibers are made by ucontext and switched by _setjmp/_longjmp: swapcontext would cost a system
// call for the signal mask at each switch. A fiber and its stack serve all blocks and launches.
#pragma once

#include <link.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <type_traits>
#include <utility>

#include "hip_on_cpu_types.h"
#include "hip_on_cpu_fibers.h"
#include "hip_on_cpu_builtins.h"

namespace tuner_hip {

// The library's thread-local storage holds nothing but its __shared__ variables.
struct TlsSegment {
    size_t module;
    size_t bytes;
};

extern "C" void* __tls_get_addr(size_t*);

static int find_tls(dl_phdr_info* info, size_t, void* found) {
    const uintptr_t here = reinterpret_cast<uintptr_t>(&fibers);
    size_t tls_bytes = 0;
    bool is_this = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& header = info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
        is_this |= header.p_type == PT_LOAD && here >= begin && here < begin + header.p_memsz;
        tls_bytes += header.p_type == PT_TLS ? header.p_memsz : 0;
    }
    if (is_this) {
        *static_cast<TlsSegment*>(found) = {info->dlpi_tls_modid, tls_bytes};
    }
    return is_this;
}

static TlsSegment tls_segment() {
    TlsSegment found = {0, 0};
    dl_iterate_phdr(find_tls, &found);
    return found;
}

static bool red_zone_intact(size_t dynamic_bytes) {
    for (size_t i = dynamic_bytes; i < dynamic_bytes + kRedZoneBytes; ++i) {
        if (dynamic_shared[i] != kUnwritten) {
            fail("wrote past the %zu bytes of dynamic shared memory, at byte %zu", dynamic_bytes,
                 i);
            return false;
        }
    }
    return true;
}

static void run_grid(size_t dynamic_bytes) {
    const TlsSegment shared = tls_segment();
    size_t tls_index[2] = {shared.module, 0};
    void* shared_variables = shared.bytes != 0 ? __tls_get_addr(tls_index) : nullptr;
    bool ascending = true;
    memset(dynamic_shared + dynamic_bytes, kUnwritten, kRedZoneBytes);
    for (unsigned z = 0; z < gridDim.z; ++z) {
        for (unsigned y = 0; y < gridDim.y; ++y) {
            for (unsigned x = 0; x < gridDim.x; ++x, ascending = !ascending) {
                blockIdx = {x, y, z};
                memset(dynamic_shared, kUnwritten, dynamic_bytes);
                if (shared.bytes != 0) {
                    memset(shared_variables, kUnwritten, shared.bytes);
                }
                run_block(ascending);
                if (failed || !red_zone_intact(dynamic_bytes)) {
                    return;
                }
            }
        }
    }
}

static int launch(void (*run)(void**), const unsigned* grid, const unsigned* block,
                  size_t dynamic_bytes, int wave_size, void** arguments, char* error,
                  size_t size) {
    kernel = run;
    kernel_arguments = arguments;
    error_text = error;
    error_size = size;
    failed = false;
    gridDim = dim3(grid[0], grid[1], grid[2]);
    blockDim = dim3(block[0], block[1], block[2]);
    warpSize = wave_size;
    thread_count = blockDim.x * blockDim.y * blockDim.z;
    if (thread_count == 0 || thread_count > kMaxThreads || dynamic_bytes > kMaxSharedBytes ||
        (wave_size != 32 && wave_size != 64)) {
        fail("impossible launch: %u threads, %zu bytes of dynamic shared memory, wave size %d",
             thread_count, dynamic_bytes, wave_size);
        return 1;
    }
    if (!map_stacks()) {
        fail("no memory for the stacks of %u threads", thread_count);
        return 1;
    }
    for (unsigned i = 0; i < thread_count; ++i) {
        const unsigned row = i / blockDim.x;
        fibers[i].index = i;
        fibers[i].thread = {i % blockDim.x, row % blockDim.y, row / blockDim.y};
    }
    run_grid(dynamic_bytes);
    if (failed) {
        for (Fiber& fiber : fibers) {
            fiber.started = false;  // stopped midway; its stack is made new for the next launch
        }
    }
    return failed;
}

// ---- calling the kernel -------------------------------------------------------------------

template <class T>
constexpr const char* type_name() {
    return std::is_pointer_v<T>                           ? "buffer"
           : std::is_integral_v<T> && sizeof(T) == 4      ? "int32"
           : std::is_integral_v<T> && sizeof(T) == 8      ? "int64"
           : std::is_same_v<std::remove_cv_t<T>, float>   ? "float32"
                                                          : "other";
}

// Unpacks the arguments as the kernel declares them, so that nobody has to parse C++.
template <auto Kernel>
struct Entry;
template <class... P, void (*Kernel)(P...)>
struct Entry<Kernel> {
    static void run(void** arguments) { call(arguments, std::index_sequence_for<P...>{}); }
    template <size_t... I>
    static void call(void** arguments, std::index_sequence<I...>) {
        (void)arguments;
        Kernel(*static_cast<std::remove_cv_t<P>*>(arguments[I])...);
    }
    static void signature(char* text, size_t size) {
        size_t used = 0;
        text[0] = 0;
        ((used += static_cast<size_t>(
              snprintf(text + used, used < size ? size - used : 0, "%s ", type_name<P>()))),
         ...);
    }
};

}  // namespace tuner_hip

#define TUNER_EXPORT extern "C" __attribute__((visibility("default")))
#define TUNER_HIP_ENTRY(...)                                                                 \
    TUNER_EXPORT int tuner_launch(const unsigned* grid, const unsigned* block,               \
                                  size_t dynamic_bytes, int wave_size, void** arguments,     \
                                  char* error, size_t error_size) {                          \
        return tuner_hip::launch(tuner_hip::Entry<&__VA_ARGS__>::run, grid, block,           \
                                 dynamic_bytes, wave_size, arguments, error, error_size);    \
    }                                                                                        \
    TUNER_EXPORT void tuner_signature(char* text, size_t size) {                             \
        tuner_hip::Entry<&__VA_ARGS__>::signature(text, size);                               \
    }                                                                                        \
    TUNER_EXPORT size_t tuner_static_shared_bytes() {                                        \
        return tuner_hip::tls_segment().bytes;                                          \
    }
