// Runs the threads of one block as fibers; see hip_on_cpu.h.
#pragma once

// Built-in variables. The scheduler sets threadIdx each time a thread runs on.
static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static int warpSize;

namespace tuner_hip {

constexpr unsigned kMaxThreads = 1024;
constexpr size_t kMaxSharedBytes = 65536;
constexpr size_t kRedZoneBytes = 1024;
constexpr size_t kStackBytes = 65536;
constexpr size_t kGuardBytes = 65536;  // at least one page on every architecture
constexpr int kUnwritten = 0xFF;       // NaN in every IEEE type

// `extern __shared__ T name[];` is rewritten to a pointer to this before compiling.
alignas(256) static unsigned char dynamic_shared[kMaxSharedBytes + kRedZoneBytes];

enum class State : unsigned char { kReady, kAtBarrier, kInWaveOp, kDone };

struct Site {
    const char* file;
    int line;
    bool operator==(const Site& other) const { return line == other.line && file == other.file; }
};

struct Fiber {
    jmp_buf context;
    uint3 thread;
    Site site;               // where it waits
    uint64_t wave_mask;      // lanes that must meet at the wave intrinsic
    uint64_t offered;        // its operand
    uint64_t published;      // its operand, as the others may read it
    uint64_t participants;   // lanes that met
    unsigned index;          // linear thread number
    State state;
    bool started;
};

static Fiber fibers[kMaxThreads];
static Fiber* current;
static unsigned thread_count;
static jmp_buf scheduler;
static char* stacks;
static size_t stacks_mapped;
static void (*kernel)(void**);
static void** kernel_arguments;
static char* error_text;
static size_t error_size;
static bool failed;

// Notes the first fault of a launch; the scheduler stops the grid.
__attribute__((format(printf, 1, 2))) static void fail(const char* format, ...) {
    if (failed) {
        return;
    }
    failed = true;
    const int used = snprintf(error_text, error_size, "block (%u, %u, %u): ", blockIdx.x,
                              blockIdx.y, blockIdx.z);
    if (used >= 0 && static_cast<size_t>(used) < error_size) {
        va_list values;
        va_start(values, format);
        vsnprintf(error_text + used, error_size - static_cast<size_t>(used), format, values);
        va_end(values);
    }
}

// Stops the running fiber; returns when the scheduler lets it run on. The jump leaves the
// compiler's sight, so it must take all memory as changed.
__attribute__((noinline)) static void suspend(State state, Site site) {
    current->state = state;
    current->site = site;
    if (_setjmp(current->context) == 0) {
        _longjmp(scheduler, 1);
    }
    __asm__ volatile("" ::: "memory");
}

static void fiber_main() {
    for (;;) {
        kernel(kernel_arguments);
        suspend(State::kDone, Site{"", 0});
    }
}

// The stack tops are spread over the cache: at equal offsets in their 64 KiB strides, all of
// them would fall into the same few sets.
static void start(Fiber& fiber) {
    ucontext_t entry;
    getcontext(&entry);
    entry.uc_stack.ss_sp = stacks + fiber.index * (kStackBytes + kGuardBytes) + kGuardBytes;
    entry.uc_stack.ss_size = kStackBytes - (fiber.index % 61) * 192;
    entry.uc_link = nullptr;
    makecontext(&entry, fiber_main, 0);
    fiber.started = true;
    setcontext(&entry);
}

__attribute__((noinline)) static void resume(Fiber& fiber) {
    current = &fiber;
    threadIdx = fiber.thread;
    if (_setjmp(scheduler) == 0) {
        if (fiber.started) {
            _longjmp(fiber.context, 1);
        }
        start(fiber);
    }
    __asm__ volatile("" ::: "memory");
}

// One range of address space holds all stacks, each with an inaccessible range below it.
static bool map_stacks() {
    const size_t stride = kStackBytes + kGuardBytes;
    if (stacks == nullptr) {
        void* space = mmap(nullptr, kMaxThreads * stride, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (space == MAP_FAILED) {
            return false;
        }
        stacks = static_cast<char*>(space);
    }
    for (; stacks_mapped < thread_count; ++stacks_mapped) {
        char* stack = stacks + stacks_mapped * stride + kGuardBytes;
        if (mprotect(stack, kStackBytes, PROT_READ | PROT_WRITE) != 0) {
            return false;
        }
    }
    return true;
}

__attribute__((destructor)) static void unmap_stacks() {
    if (stacks != nullptr) {
        munmap(stacks, kMaxThreads * (kStackBytes + kGuardBytes));
    }
}

// ---- waves --------------------------------------------------------------------------------

static void release_lanes(unsigned first, uint64_t lanes) {
    for (unsigned lane = 0; lane < 64; ++lane) {
        if (lanes >> lane & 1) {
            Fiber& fiber = fibers[first + lane];
            fiber.published = fiber.offered;
            fiber.participants = lanes;
            fiber.state = State::kReady;
        }
    }
}

static uint64_t lanes_waiting_like(unsigned first, unsigned count, const Fiber& leader) {
    uint64_t lanes = 0;
    for (unsigned lane = 0; lane < count; ++lane) {
        const Fiber& fiber = fibers[first + lane];
        const bool alike = fiber.state == State::kInWaveOp && fiber.site == leader.site &&
                           fiber.wave_mask == leader.wave_mask;
        lanes |= static_cast<uint64_t>(alike) << lane;
    }
    return lanes;
}

// Lets lanes go on whose partners have all arrived; true if there were any. Lanes on different
// sides of a branch go one side at a time, as in hardware, unless a barrier is in the way.
static bool resolve_wave(unsigned first, unsigned count) {
    uint64_t alive = 0, waiting = 0;
    const Fiber* at_barrier = nullptr;
    for (unsigned lane = 0; lane < count; ++lane) {
        const Fiber& fiber = fibers[first + lane];
        alive |= static_cast<uint64_t>(fiber.state != State::kDone) << lane;
        waiting |= static_cast<uint64_t>(fiber.state == State::kInWaveOp) << lane;
        if (fiber.state == State::kAtBarrier && at_barrier == nullptr) {
            at_barrier = &fiber;
        }
    }
    if (waiting == 0) {
        return false;
    }
    const unsigned lowest = static_cast<unsigned>(__builtin_ctzll(waiting));
    bool released = false;
    for (unsigned lane = lowest; lane < count; ++lane) {
        const Fiber& leader = fibers[first + lane];
        if (leader.state != State::kInWaveOp || !(waiting >> lane & 1)) {
            continue;
        }
        const uint64_t group = lanes_waiting_like(first, count, leader);
        if (group == (leader.wave_mask & alive)) {
            release_lanes(first, group);
            waiting &= ~group;
            released = true;
        }
    }
    if (released) {
        return true;
    }
    const Fiber& leader = fibers[first + lowest];
    if (at_barrier != nullptr) {
        fail("thread %u waits in a wave intrinsic (%s:%d) while thread %u of its wave "
             "waits at a barrier (%s:%d)",
             leader.index, leader.site.file, leader.site.line, at_barrier->index,
             at_barrier->site.file, at_barrier->site.line);
        return false;
    }
    release_lanes(first, lanes_waiting_like(first, count, leader));
    return true;
}

static bool resolve_waves() {
    bool released = false;
    const unsigned wave = static_cast<unsigned>(warpSize);
    for (unsigned first = 0; first < thread_count && !failed; first += wave) {
        const unsigned rest = thread_count - first;
        released |= resolve_wave(first, rest < wave ? rest : wave);
    }
    return released;
}

// ---- blocks -------------------------------------------------------------------------------

// All threads that have not left wait at a barrier: lets them go on if it is the same one.
static void release_barrier() {
    const Fiber* leader = nullptr;
    for (unsigned i = 0; i < thread_count; ++i) {
        Fiber& fiber = fibers[i];
        if (fiber.state != State::kAtBarrier) {
            continue;
        }
        if (leader == nullptr) {
            leader = &fiber;
        } else if (!(fiber.site == leader->site)) {
            fail("thread %u waits at the barrier of %s:%d while thread %u waits at the "
                 "barrier of %s:%d",
                 leader->index, leader->site.file, leader->site.line, fiber.index,
                 fiber.site.file, fiber.site.line);
            return;
        }
    }
    for (unsigned i = 0; i < thread_count; ++i) {
        if (fibers[i].state == State::kAtBarrier) {
            fibers[i].state = State::kReady;
        }
    }
}

static void run_block(bool ascending) {
    for (unsigned i = 0; i < thread_count; ++i) {
        fibers[i].state = State::kReady;
    }
    while (!failed) {
        unsigned at_barrier = 0, in_wave_op = 0;
        for (unsigned i = 0; i < thread_count; ++i) {
            Fiber& fiber = fibers[ascending ? i : thread_count - 1 - i];
            if (fiber.state == State::kReady) {
                resume(fiber);
            }
            at_barrier += fiber.state == State::kAtBarrier;
            in_wave_op += fiber.state == State::kInWaveOp;
        }
        if (in_wave_op != 0) {
            resolve_waves();
        } else if (at_barrier != 0) {
            release_barrier();
        } else {
            return;
        }
    }
}

}  // namespace tuner_hip
