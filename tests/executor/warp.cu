// Warps: shuffles, votes, matches and reductions among the lanes that a mask names, also in diverged warps.
#include "check.h"

static const unsigned FULL = 0xffffffffu;

// ---- shuffles -------------------------------------------------------------------------------------------------

// out[kind][delta][lane], for the four kinds of shuffle; for 64-bit types both halves of the value matter.
template <typename T>
__global__ void shuffles(T *out, int width)
{
    const int lane = threadIdx.x;
    const T mine = (T)(lane * 3) + (sizeof(T) == 8 ? (T)(1ll << 40) : (T)0);
    for (int delta = 0; delta < 32; ++delta) {
        out[(0 * 32 + delta) * 32 + lane] = __shfl_sync(FULL, mine, delta, width);
        out[(1 * 32 + delta) * 32 + lane] = __shfl_up_sync(FULL, mine, delta, width);
        out[(2 * 32 + delta) * 32 + lane] = __shfl_down_sync(FULL, mine, delta, width);
        out[(3 * 32 + delta) * 32 + lane] = __shfl_xor_sync(FULL, mine, delta, width);
    }
}

// The lane that `lane` reads from, according to the CUDA guide.
static int source(int kind, int lane, int delta, int width)
{
    const int first = lane / width * width, within = lane % width;
    switch (kind) {
    case 0:
        return first + delta % width;
    case 1:
        return within - delta >= 0 ? lane - delta : lane;
    case 2:
        return within + delta < width ? lane + delta : lane;
    default: // may reach into an earlier group, but not into a later one
        return (lane ^ delta) < first + width ? lane ^ delta : lane;
    }
}

template <typename T>
static void shuffled()
{
    Array<T> out(4 * 32 * 32);
    for (int width : {32, 16, 8, 4, 2, 1}) {
        shuffles<<<1, 32>>>(out.device, width);
        RUNS();
        out.download();
        for (int kind = 0; kind < 4; ++kind)
            for (int delta = 0; delta < 32; ++delta)
                for (int lane = 0; lane < 32; ++lane) {
                    const T want =
                        (T)(source(kind, lane, delta, width) * 3) + (sizeof(T) == 8 ? (T)(1ll << 40) : (T)0);
                    EQUAL_AT(((kind * 100 + width) * 100 + delta) * 100 + lane,
                             out[(kind * 32 + delta) * 32 + lane], want);
                }
    }
}

// Every lane may name a different source; sources count modulo the width.
__global__ void gather(int *out)
{
    const int lane = threadIdx.x;
    out[lane] = __shfl_sync(FULL, 10 * lane, (7 * lane) % 32);
    out[32 + lane] = __shfl_sync(FULL, 10 * lane, lane + 33);
    out[64 + lane] = __shfl_sync(FULL, 10 * lane, -1);
}

// Lanes are numbered along x, then y, then z, in several warps and blocks.
__global__ void warp_sums(int *out)
{
    const int i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int sum = i;
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(FULL, sum, step);
    out[blockIdx.x * blockDim.x * blockDim.y * blockDim.z + i] = sum;
}

// ---- votes ----------------------------------------------------------------------------------------------------

struct Votes {
    unsigned ballot, third;
    int every, every_low, some, nobody;
};

__global__ void votes(Votes *out)
{
    const int lane = threadIdx.x % 32;
    Votes v;
    v.ballot = __ballot_sync(FULL, 1);
    v.third = __ballot_sync(FULL, lane % 3 == 0 ? -8 : 0);
    v.every = __all_sync(FULL, lane >= 0);
    v.every_low = __all_sync(FULL, lane < 15);
    v.some = __any_sync(FULL, lane == 15);
    v.nobody = __any_sync(FULL, lane > 31);
    out[threadIdx.x] = v;
}

static void voted(int threads)
{
    Array<Votes> out(threads);
    votes<<<1, threads>>>(out.device);
    RUNS();
    out.download();
    for (int t = 0; t < threads; ++t) {
        const int lanes = threads - t / 32 * 32 < 32 ? threads % 32 : 32; // in the last warp
        const unsigned present = lanes == 32 ? FULL : (1u << lanes) - 1;
        EQUAL_AT(t, out[t].ballot, present);
        EQUAL_AT(t, out[t].third, 0x49249249u & present);
        EQUAL_AT(t, out[t].every != 0, true);
        EQUAL_AT(t, out[t].every_low != 0, lanes <= 15);
        EQUAL_AT(t, out[t].some != 0, lanes > 15);
        EQUAL_AT(t, out[t].nobody, 0);
    }
}

// ---- diverged warps -------------------------------------------------------------------------------------------

// Each half rotates its values with its own mask, a different number of times.
__global__ void halves(int *out)
{
    const int lane = threadIdx.x;
    int value = lane;
    if (lane < 16) {
        for (int i = 0; i < 3; ++i)
            value = __shfl_sync(0x0000ffffu, value, (lane + 1) % 16);
    } else {
        for (int i = 0; i < 5; ++i)
            value = __shfl_sync(0xffff0000u, value, 16 + (lane + 1) % 16);
    }
    out[lane] = value + 1000 * (__any_sync(FULL, value == 31) != 0); // the halves converge again
}

__global__ void odd_and_even(unsigned *out)
{
    const int lane = threadIdx.x;
    if (lane % 2) {
        out[lane] = __ballot_sync(0xaaaaaaaau, lane < 16);
        out[32 + lane] = __shfl_down_sync(0xaaaaaaaau, lane, 2);
    } else {
        out[lane] = __ballot_sync(0x55555555u, lane >= 16);
        out[32 + lane] = __shfl_up_sync(0x55555555u, lane, 2);
    }
}

__global__ void active(unsigned *out)
{
    const int lane = threadIdx.x;
    out[lane] = 0;
    if (lane % 4 == 0)
        out[lane] = __activemask();
}

// The mask names all lanes, but exited lanes are not waited for.
__global__ void after_exit(unsigned *out)
{
    const int lane = threadIdx.x % 32;
    if (lane >= 20)
        return;
    out[threadIdx.x] = __ballot_sync(FULL, lane != 3);
    if (lane >= 8)
        return;
    int sum = 1;
    for (int step = 1; step < 8; step *= 2)
        sum += __shfl_xor_sync(FULL, sum, step, 8);
    __syncwarp();
    out[64 + threadIdx.x] = sum;
}

// ---- matches and reductions -----------------------------------------------------------------------------------

struct Matches {
    unsigned any, wide, all_yes, all_no, real;
    int yes, no;
};

__global__ void matches(Matches *out)
{
    const int lane = threadIdx.x;
    Matches m;
    m.any = __match_any_sync(FULL, lane / 5);
    m.wide = __match_any_sync(FULL, (unsigned long long)(lane % 2) << 40);
    m.all_yes = __match_all_sync(FULL, 77, &m.yes);
    m.all_no = __match_all_sync(FULL, lane == 9, &m.no);
    m.real = __match_any_sync(FULL, lane < 8 ? 0.5f : 1.5f);
    out[lane] = m;
}

struct Reductions {
    unsigned add, least, most, both, either, differ, part;
    int add_signed, least_signed, most_signed;
};

__global__ void reductions(Reductions *out)
{
    const int lane = threadIdx.x;
    Reductions r;
    r.add = __reduce_add_sync(FULL, (unsigned)lane + 0xf0000000u); // wraps
    r.least = __reduce_min_sync(FULL, (unsigned)(lane - 7));
    r.most = __reduce_max_sync(FULL, (unsigned)(lane - 7));
    r.add_signed = __reduce_add_sync(FULL, lane - 20);
    r.least_signed = __reduce_min_sync(FULL, lane - 7);
    r.most_signed = __reduce_max_sync(FULL, lane - 7);
    r.both = __reduce_and_sync(FULL, ~(1u << lane % 4));
    r.either = __reduce_or_sync(FULL, 1u << lane % 9);
    r.differ = __reduce_xor_sync(FULL, (unsigned)lane * lane);
    if (lane < 12)
        r.part = __reduce_add_sync(0x00000fffu, (unsigned)lane);
    else
        r.part = __reduce_max_sync(0xfffff000u, (unsigned)(100 - lane));
    out[lane] = r;
}

// A block's sum as the tutorials write it: shuffles in each warp, one value per warp in shared memory, shuffles
// again.
__global__ void block_sum(const float *in, float *out, int n)
{
    __shared__ float partial[32];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = i < n ? in[i] : 0;
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(FULL, sum, step);
    if (lane == 0)
        partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < (blockDim.x + 31) / 32 ? partial[lane] : 0;
        for (int step = 16; step > 0; step /= 2)
            sum += __shfl_down_sync(FULL, sum, step);
        if (lane == 0)
            out[blockIdx.x] = sum;
    }
}

int main()
{
    shuffled<int>();
    shuffled<unsigned>();
    shuffled<long long>();
    shuffled<unsigned long long>();
    shuffled<float>();
    shuffled<double>();

    Array<int> out(1024);
    gather<<<1, 32>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 32; ++i) {
        EQUAL_AT(i, out[i], 10 * (7 * i % 32));
        EQUAL_AT(i, out[32 + i], 10 * ((i + 1) % 32));
        EQUAL_AT(i, out[64 + i], 310);
    }

    const dim3 shapes[] = {dim3(128), dim3(8, 8), dim3(4, 4, 8), dim3(16, 2, 3)};
    for (dim3 shape : shapes) {
        const int n = shape.x * shape.y * shape.z;
        warp_sums<<<3, shape>>>(out.device);
        RUNS();
        out.download();
        for (int i = 0; i < 3 * n; ++i)
            EQUAL_AT(i, out[i], i % n / 32 * 32 * 32 + 31 * 16);
    }

    for (int threads : {32, 48, 33, 96, 1000})
        voted(threads);

    halves<<<1, 32>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 32; ++i)
        EQUAL_AT(i, out[i], 1000 + (i < 16 ? (i + 3) % 16 : 16 + (i + 5) % 16));

    Array<unsigned> masks(128);
    odd_and_even<<<1, 32>>>(masks.device);
    RUNS();
    masks.download();
    for (int i = 0; i < 32; ++i) {
        EQUAL_AT(i, masks[i], i % 2 ? 0x0000aaaau : 0x55550000u);
        EQUAL_AT(i, masks[32 + i], i % 2 ? (i < 30 ? i + 2 : i) : (i >= 2 ? i - 2 : i));
    }

    active<<<1, 32>>>(masks.device);
    RUNS();
    masks.download();
    for (int i = 0; i < 32; ++i) { // CUDA promises only the lane itself, and no lane of the other branch
        EQUAL_AT(i, masks[i] >> i & 1, i % 4 == 0);
        EQUAL_AT(i, masks[i] & 0xeeeeeeeeu, 0);
    }

    after_exit<<<1, 64>>>(masks.device);
    RUNS();
    masks.download();
    for (int i = 0; i < 64; ++i) {
        if (i % 32 < 20)
            EQUAL_AT(i, masks[i], 0x000ffff7u);
        if (i % 32 < 8)
            EQUAL_AT(i, masks[64 + i], 8);
    }

    Array<Matches> matched(32);
    matches<<<1, 32>>>(matched.device);
    RUNS();
    matched.download();
    for (int i = 0; i < 32; ++i) {
        EQUAL_AT(i, matched[i].any, 0x1fu << i / 5 * 5); // bits above 31 are dropped
        EQUAL_AT(i, matched[i].wide, i % 2 ? 0xaaaaaaaau : 0x55555555u);
        EQUAL_AT(i, matched[i].all_yes, FULL);
        EQUAL_AT(i, matched[i].yes != 0, true);
        EQUAL_AT(i, matched[i].all_no, 0);
        EQUAL_AT(i, matched[i].no, 0);
        EQUAL_AT(i, matched[i].real, i < 8 ? 0xffu : 0xffffff00u);
    }

    Array<Reductions> reduced(32);
    reductions<<<1, 32>>>(reduced.device);
    RUNS();
    reduced.download();
    unsigned differ = 0;
    for (unsigned i = 0; i < 32; ++i)
        differ ^= i * i;
    for (int i = 0; i < 32; ++i) {
        EQUAL_AT(i, reduced[i].add, 31u * 16);
        EQUAL_AT(i, reduced[i].least, 0u);
        EQUAL_AT(i, reduced[i].most, 0xffffffffu);
        EQUAL_AT(i, reduced[i].add_signed, 31 * 16 - 640);
        EQUAL_AT(i, reduced[i].least_signed, -7);
        EQUAL_AT(i, reduced[i].most_signed, 24);
        EQUAL_AT(i, reduced[i].both, 0xfffffff0u);
        EQUAL_AT(i, reduced[i].either, 0x1ffu);
        EQUAL_AT(i, reduced[i].differ, differ);
        EQUAL_AT(i, reduced[i].part, i < 12 ? 66u : 88u);
    }

    const int n = 3001;
    Array<float> in(n), sums(32);
    for (int i = 0; i < n; ++i)
        in[i] = (float)(i % 13);
    in.upload();
    for (int block : {96, 128, 1024}) {
        const int blocks = (n + block - 1) / block;
        block_sum<<<blocks, block>>>(in.device, sums.device, n);
        RUNS();
        sums.download();
        for (int b = 0; b < blocks; ++b) {
            float want = 0;
            for (int i = b * block; i < n && i < (b + 1) * block; ++i)
                want += in[i];
            EQUAL_AT(b, sums[b], want);
        }
    }
    return verdict();
}
