// Atomics: every operation and type, the old value that it returns, in shared and in global memory, within and
// between blocks; then algorithms with them: locks, a single-pass sum, a float maximum, a histogram.
#include "check.h"

// ---- no update is lost ----------------------------------------------------------------------------------------

template <typename T>
__global__ void add(T *global, T *by_block)
{
    __shared__ T shared;
    if (threadIdx.x == 0)
        shared = 0;
    __syncthreads();
    atomicAdd(&shared, (T)(threadIdx.x % 7));
    atomicAdd(global, (T)(threadIdx.x % 7));
    __syncthreads();
    if (threadIdx.x == 0)
        by_block[blockIdx.x] = shared;
}

template <typename T>
static void added()
{
    const int blocks = 50, threads = 200;
    Array<T> global(1), by_block(blocks);
    global.zero();
    add<<<blocks, threads>>>(global.device, by_block.device);
    RUNS();
    global.download();
    by_block.download();
    T want = 0;
    for (int i = 0; i < threads; ++i)
        want += (T)(i % 7);
    for (int b = 0; b < blocks; ++b)
        EQUAL_AT(b, by_block[b], want);
    EQUAL(global[0], want * blocks);
}

// Each thread gets a different old value: together they are 0 ... n - 1.
__global__ void tickets(unsigned *next, unsigned *owner)
{
    const unsigned mine = atomicAdd(next, 1u);
    owner[mine] = blockIdx.x * blockDim.x + threadIdx.x;
}

static void every_ticket_once()
{
    const unsigned n = 100 * 100;
    Array<unsigned> next(1), owner(n);
    next.zero();
    tickets<<<100, 100>>>(next.device, owner.device);
    RUNS();
    next.download();
    owner.download();
    EQUAL(next[0], n);
    bool seen[100 * 100] = {};
    for (unsigned i = 0; i < n; ++i) {
        EQUAL_AT(i, owner[i] < n && !seen[owner[i]], true);
        if (owner[i] < n)
            seen[owner[i]] = true;
    }
}

// ---- the arithmetic of each operation -------------------------------------------------------------------------

// One thread applies every operation once and keeps the old value and the new one.
template <typename T>
struct Steps {
    T at, old[24], now[24];
    int n;
    __device__ void start(T value)
    {
        at = value;
    }
    __device__ void keep(T returned)
    {
        old[n] = returned;
        now[n++] = at;
    }
};

#define STEP(start_value, call) (steps->start(start_value), steps->keep(call))

__global__ void int_steps(Steps<int> *steps)
{
    int *p = &steps->at;
    steps->n = 0;
    STEP(5, atomicAdd(p, -7));
    STEP(5, atomicSub(p, 7));
    STEP(5, atomicExch(p, 9));
    STEP(-5, atomicMin(p, 3));
    STEP(3, atomicMin(p, -5));
    STEP(-5, atomicMax(p, 3));
    STEP(3, atomicMax(p, -5));
    STEP(5, atomicCAS(p, 5, 8));
    STEP(5, atomicCAS(p, 6, 8));
    STEP(12, atomicAnd(p, 10));
    STEP(12, atomicOr(p, 3));
    STEP(12, atomicXor(p, 10));
    STEP(2147483647, atomicAdd(p, 1)); // wraps
    STEP(5, atomicAdd_block(p, 1));
    STEP(5, atomicAdd_system(p, 2));
    STEP(5, atomicMax_block(p, 8));
    STEP(5, atomicCAS_system(p, 5, 1));
}

__global__ void unsigned_steps(Steps<unsigned> *steps)
{
    unsigned *p = &steps->at;
    steps->n = 0;
    STEP(5, atomicAdd(p, 0xffffffffu));
    STEP(5, atomicSub(p, 7u));
    STEP(5, atomicExch(p, 9u));
    STEP(0xfffffff0u, atomicMin(p, 3u));
    STEP(0xfffffff0u, atomicMax(p, 3u));
    STEP(5, atomicInc(p, 6u));
    STEP(6, atomicInc(p, 6u));
    STEP(7, atomicInc(p, 6u));
    STEP(5, atomicDec(p, 6u));
    STEP(0, atomicDec(p, 6u));
    STEP(7, atomicDec(p, 6u));
    STEP(5, atomicCAS(p, 5u, 8u));
    STEP(0xf0f0f0f0u, atomicAnd(p, 0xff00ff00u));
    STEP(0xf0f0f0f0u, atomicOr(p, 0x0000ffffu));
    STEP(0xf0f0f0f0u, atomicXor(p, 0xffff0000u));
    STEP(5, atomicSub_block(p, 1u));
    STEP(5, atomicExch_system(p, 4u));
    STEP(5, atomicInc_block(p, 100u));
    STEP(5, atomicOr_system(p, 8u));
}

__global__ void wide_steps(Steps<unsigned long long> *steps)
{
    typedef unsigned long long wide;
    wide *p = &steps->at;
    const wide big = 1ull << 40;
    steps->n = 0;
    STEP(0xffffffffull, atomicAdd(p, (wide)1)); // carries
    STEP(5, atomicExch(p, big));
    STEP(big + 1, atomicMin(p, big));
    STEP(big, atomicMax(p, ~0ull));
    STEP(big, atomicCAS(p, big, 3 * big));
    STEP(big, atomicCAS(p, big + (1ull << 32), 3 * big));
    STEP(3 * big, atomicAnd(p, 2 * big));
    STEP(big, atomicOr(p, 2 * big + 1));
    STEP(3 * big, atomicXor(p, big));
    STEP(big, atomicAdd_block(p, big));
    STEP(big, atomicAdd_system(p, big));
}

__global__ void signed_wide_steps(Steps<long long> *steps)
{
    long long *p = &steps->at;
    steps->n = 0;
    STEP(-(1ll << 40), atomicMin(p, 1ll));
    STEP(-(1ll << 40), atomicMax(p, 1ll));
    STEP(1ll, atomicMin(p, -(1ll << 40)));
}

__global__ void short_steps(Steps<unsigned short> *steps)
{
    unsigned short *p = &steps->at;
    steps->n = 0;
    STEP(5, atomicCAS(p, (unsigned short)5, (unsigned short)60000));
    STEP(5, atomicCAS(p, (unsigned short)6, (unsigned short)60000));
}

__global__ void float_steps(Steps<float> *steps)
{
    float *p = &steps->at;
    steps->n = 0;
    STEP(0.5f, atomicAdd(p, -2.25f));
    STEP(0.5f, atomicExch(p, 8.0f));
    STEP(0.5f, atomicAdd_block(p, 1.0f));
    STEP(0.5f, atomicAdd_system(p, 2.0f));
}

__global__ void double_steps(Steps<double> *steps)
{
    double *p = &steps->at;
    steps->n = 0;
    STEP(0.5, atomicAdd(p, 1e-10));
    STEP(0.5, atomicAdd_block(p, 1.0));
    STEP(0.5, atomicAdd_system(p, 2.0));
}

template <typename T, size_t N>
static void stepped(int line, void (*kernel)(Steps<T> *), const T (&want)[N][2])
{
    Array<Steps<T>> steps(1);
    kernel<<<1, 1>>>(steps.device);
    RUNS();
    steps.download();
    equal("atomics.cu", line, "steps", -1, steps[0].n, (int)N);
    for (size_t i = 0; i < N; ++i) {
        equal("atomics.cu", line, "the old value of step", (long)i, steps[0].old[i], want[i][0]);
        equal("atomics.cu", line, "the new value of step", (long)i, steps[0].now[i], want[i][1]);
    }
}

static void arithmetic()
{
    const int least = -2147483647 - 1;
    const int ints[][2] = {{5, -2},
                           {5, -2},
                           {5, 9},
                           {-5, -5},
                           {3, -5},
                           {-5, 3},
                           {3, 3},
                           {5, 8},
                           {5, 5},
                           {12, 8},
                           {12, 15},
                           {12, 6},
                           {2147483647, least},
                           {5, 6},
                           {5, 7},
                           {5, 8},
                           {5, 1}};
    stepped(__LINE__, int_steps, ints);
    const unsigned unsigneds[][2] = {{5, 4},
                                     {5, 0xfffffffeu},
                                     {5, 9},
                                     {0xfffffff0u, 3},
                                     {0xfffffff0u, 0xfffffff0u},
                                     {5, 6},
                                     {6, 0}, // ((old >= limit) ? 0 : old + 1)
                                     {7, 0},
                                     {5, 4},
                                     {0, 6}, // ((old == 0 || old > limit) ? limit : old - 1)
                                     {7, 6},
                                     {5, 8},
                                     {0xf0f0f0f0u, 0xf000f000u},
                                     {0xf0f0f0f0u, 0xf0f0ffffu},
                                     {0xf0f0f0f0u, 0x0f0ff0f0u},
                                     {5, 4},
                                     {5, 4},
                                     {5, 6},
                                     {5, 13}};
    stepped(__LINE__, unsigned_steps, unsigneds);
    const unsigned long long big = 1ull << 40;
    const unsigned long long wides[][2] = {{0xffffffffull, 0x100000000ull},
                                           {5, big},
                                           {big + 1, big},
                                           {big, ~0ull},
                                           {big, 3 * big},
                                           {big, big},
                                           {3 * big, 2 * big},
                                           {big, 3 * big + 1},
                                           {3 * big, 2 * big},
                                           {big, 2 * big},
                                           {big, 2 * big}};
    stepped(__LINE__, wide_steps, wides);
    const long long signed_wides[][2] = {{-(1ll << 40), -(1ll << 40)}, {-(1ll << 40), 1}, {1, -(1ll << 40)}};
    stepped(__LINE__, signed_wide_steps, signed_wides);
    const unsigned short shorts[][2] = {{5, 60000}, {5, 5}};
    stepped(__LINE__, short_steps, shorts);
    const float floats[][2] = {{0.5f, -1.75f}, {0.5f, 8}, {0.5f, 1.5f}, {0.5f, 2.5f}};
    stepped(__LINE__, float_steps, floats);
    const double doubles[][2] = {{0.5, 0.5 + 1e-10}, {0.5, 1.5}, {0.5, 2.5}};
    stepped(__LINE__, double_steps, doubles);
}

// All threads update the same words of shared memory.
struct Extremes {
    int least, most;
    unsigned bits, parity, cycle;
    unsigned long long wide_bits, wide_most;
    long long wide_least;
};

__global__ void extremes(Extremes *out)
{
    __shared__ Extremes e;
    if (threadIdx.x == 0)
        e = Extremes{1000, -1000, 0, 0, 0, 0, 0, 0};
    __syncthreads();
    const int i = threadIdx.x;
    atomicMin(&e.least, (i * 37) % 501 - 250);
    atomicMax(&e.most, (i * 37) % 501 - 250);
    atomicOr(&e.bits, 1u << i % 31);
    atomicXor(&e.parity, (unsigned)i);
    atomicInc(&e.cycle, 9u);
    atomicOr(&e.wide_bits, 1ull << i % 63);
    atomicMax(&e.wide_most, (unsigned long long)i << 35);
    atomicMin(&e.wide_least, -((long long)i << 35));
    __syncthreads();
    if (i == 0)
        *out = e;
}

// ---- algorithms with atomics ----------------------------------------------------------------------------------

// A spin lock with one contender per warp. It protects a plain counter.
__global__ void spin_lock(int *counter, int rounds)
{
    __shared__ int lock;
    __shared__ int guarded;
    if (threadIdx.x == 0)
        lock = guarded = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        for (int i = 0; i < rounds; ++i) {
            while (atomicCAS(&lock, 0, 1) != 0)
                ;
            __threadfence_block();
            guarded = guarded + 1;
            __threadfence_block();
            atomicExch(&lock, 0);
        }
    __syncthreads();
    if (threadIdx.x == 0)
        counter[blockIdx.x] = guarded;
}

// A lock for all lanes of a warp: each lane tries once per iteration, without spinning inside the attempt.
__global__ void lock_of_lanes(int *lock, int *guarded)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile int *)guarded = *(volatile int *)guarded + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// Single-pass sum: the last block to increment the counter adds up all partial sums.
__device__ unsigned arrived;

__global__ void single_pass_sum(const int *in, int *partial, int *out, int n)
{
    __shared__ int sums[256];
    __shared__ bool last;
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sums[0];
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1; // wraps to 0 for the next launch
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        int total = 0;
        for (unsigned i = 0; i < gridDim.x; ++i)
            total += ((volatile int *)partial)[i];
        *out = total;
    }
}

// An atomicMax for float, in its usual form.
__device__ float atomic_max_float(float *at, float value)
{
    int *bits = (int *)at, old = *bits, expected;
    do {
        expected = old;
        if (__int_as_float(expected) >= value)
            break;
        old = atomicCAS(bits, expected, __float_as_int(value));
    } while (old != expected);
    return __int_as_float(old);
}

__global__ void float_max(const float *in, float *out)
{
    atomic_max_float(out, in[blockIdx.x * blockDim.x + threadIdx.x]);
}

__global__ void histogram(const unsigned char *in, unsigned *bins, int n)
{
    __shared__ unsigned mine[256];
    mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[in[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

int main()
{
    added<int>();
    added<unsigned>();
    added<unsigned long long>();
    added<float>();
    added<double>();
    every_ticket_once();
    arithmetic();

    Array<Extremes> found(1);
    extremes<<<1, 1000>>>(found.device);
    RUNS();
    found.download();
    EQUAL(found[0].least, -250);
    EQUAL(found[0].most, 250);
    EQUAL(found[0].bits, 0x7fffffffu);
    EQUAL(found[0].parity, 0u); // 0 ^ 1 ^ ... ^ n is 0 where n % 4 == 3
    EQUAL(found[0].cycle, 0u);
    EQUAL(found[0].wide_bits, 0x7fffffffffffffffull);
    EQUAL(found[0].wide_most, 999ull << 35);
    EQUAL(found[0].wide_least, -(999ll << 35));

    Array<int> out(64);
    spin_lock<<<4, 256>>>(out.device, 50);
    RUNS();
    out.download();
    for (int i = 0; i < 4; ++i)
        EQUAL_AT(i, out[i], 8 * 50);

    out.zero();
    lock_of_lanes<<<4, 64>>>(out.device, out.device + 1);
    RUNS();
    out.download();
    EQUAL(out[0], 0);
    EQUAL(out[1], 4 * 64);

    const int n = 50021;
    Array<int> in(n), partial(40);
    int want = 0;
    for (int i = 0; i < n; ++i)
        want += in[i] = i % 23 - 7;
    in.upload();
    for (int launch = 0; launch < 5; ++launch) {
        single_pass_sum<<<40, 256>>>(in.device, partial.device, out.device, n);
        RUNS();
        out.download();
        EQUAL_AT(launch, out[0], want);
    }

    Array<float> reals(6400), most(1);
    for (int i = 0; i < 6400; ++i)
        reals[i] = (float)((i * 7919) % 6400) / 4;
    most[0] = -1;
    reals.upload();
    most.upload();
    float_max<<<100, 64>>>(reals.device, most.device);
    RUNS();
    most.download();
    EQUAL(most[0], 6399.0f / 4);

    Array<unsigned char> bytes(n);
    Array<unsigned> bins(256);
    unsigned counted[256] = {};
    for (int i = 0; i < n; ++i)
        ++counted[bytes[i] = (unsigned char)((long long)i * i % 251)];
    bytes.upload();
    bins.zero();
    histogram<<<8, 256>>>(bytes.device, bins.device, n);
    RUNS();
    bins.download();
    for (int i = 0; i < 256; ++i)
        EQUAL_AT(i, bins[i], counted[i]);
    return verdict();
}
