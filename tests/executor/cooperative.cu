// Cooperative groups: the block, tiles of several sizes, coalesced groups, and reductions and scans over them.
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

// ---- the block ------------------------------------------------------------------------------------------------

struct Position {
    unsigned rank, size, group_x, thread_y, dim_z;
    unsigned long long grid_rank, grid_size;
};

__global__ void positions(Position *out)
{
    cg::thread_block block = cg::this_thread_block();
    cg::grid_group grid = cg::this_grid();
    Position p;
    p.rank = block.thread_rank();
    p.size = block.size();
    p.group_x = block.group_index().x;
    p.thread_y = block.thread_index().y;
    p.dim_z = block.group_dim().z + block.dim_threads().z + block.num_threads();
    p.grid_rank = grid.thread_rank();
    p.grid_size = grid.size();
    out[grid.thread_rank()] = p;
}

static void check_positions()
{
    const dim3 grid(2, 2), block(8, 3, 2);
    const int n = 48;
    Array<Position> out(4 * n);
    positions<<<grid, block>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 4 * n; ++i) {
        EQUAL_AT(i, out[i].rank, i % n);
        EQUAL_AT(i, out[i].size, n);
        EQUAL_AT(i, out[i].group_x, i / n % 2);
        EQUAL_AT(i, out[i].thread_y, i % n / 8 % 3);
        EQUAL_AT(i, out[i].dim_z, 2 + 2 + n);
        EQUAL_AT(i, out[i].grid_rank, i);
        EQUAL_AT(i, out[i].grid_size, 4 * n);
    }
}

// From the CUDA guide: the sum of any group, through shared memory.
__device__ int sum_of_group(cg::thread_group group, int *items, int value)
{
    const int rank = group.thread_rank();
    for (int half = group.size() / 2; half > 0; half /= 2) {
        items[rank] = value;
        group.sync();
        if (rank < half)
            value += items[rank + half];
        group.sync();
    }
    return value;
}

__global__ void sums_of_groups(int *out)
{
    __shared__ int items[128];
    cg::thread_block block = cg::this_thread_block();
    const int all = sum_of_group(block, items, threadIdx.x);
    if (block.thread_rank() == 0)
        out[0] = all;
    cg::sync(block);
    cg::thread_group eighth = cg::tiled_partition(block, 16);
    const int first = threadIdx.x / 16 * 16;
    const int some = sum_of_group(eighth, items + first, threadIdx.x);
    if (eighth.thread_rank() == 0)
        out[1 + threadIdx.x / 16] = some;
}

// ---- tiles ----------------------------------------------------------------------------------------------------

struct Tile {
    unsigned rank, size, group, groups;
    int from, up, down, across;
    int some, every;
    unsigned ballot, same, all_same;
    int alike;
    long long wide;
    double3 big;
};

template <int SIZE>
__global__ void tiles(Tile *out)
{
    const auto tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
    const int mine = threadIdx.x;
    Tile t;
    t.rank = tile.thread_rank();
    t.size = tile.size();
    t.group = tile.meta_group_rank();
    t.groups = tile.meta_group_size();
    t.from = tile.shfl(mine, 1);
    t.up = tile.shfl_up(mine, 1);
    t.down = tile.shfl_down(mine, 2);
    t.across = tile.shfl_xor(mine, 1);
    t.some = tile.any(tile.thread_rank() == SIZE - 1) != 0;
    t.every = tile.all(tile.thread_rank() != SIZE - 1) != 0;
    t.ballot = tile.ballot(tile.thread_rank() % 2);
    t.same = tile.match_any((int)tile.thread_rank() % 2);
    t.all_same = tile.match_all(7, t.alike);
    t.wide = tile.shfl((long long)mine << 33, 0);
    t.big = tile.shfl(make_double3(mine, mine + 0.5, mine + 0.25), 0);
    tile.sync();
    out[threadIdx.x] = t;
}

template <int SIZE>
static void tiled()
{
    const int n = 96;
    const unsigned odd = SIZE == 32 ? 0xaaaaaaaau : 0xaaaaaaaau & ((1ull << SIZE) - 1);
    const unsigned even = odd >> 1, full = odd | even;
    Array<Tile> out(n);
    tiles<SIZE><<<1, n>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < n; ++i) {
        const int rank = i % SIZE, first = i - rank;
        EQUAL_AT(i, out[i].rank, rank);
        EQUAL_AT(i, out[i].size, SIZE);
        EQUAL_AT(i, out[i].group, i / SIZE);
        EQUAL_AT(i, out[i].groups, n / SIZE);
        EQUAL_AT(i, out[i].from, first + 1);
        EQUAL_AT(i, out[i].up, rank ? i - 1 : i);
        EQUAL_AT(i, out[i].down, rank + 2 < SIZE ? i + 2 : i);
        EQUAL_AT(i, out[i].across, i ^ 1);
        EQUAL_AT(i, out[i].some, 1);
        EQUAL_AT(i, out[i].every, 0);
        EQUAL_AT(i, out[i].ballot, odd);
        EQUAL_AT(i, out[i].same, rank % 2 ? odd : even);
        EQUAL_AT(i, out[i].all_same, full);
        EQUAL_AT(i, out[i].alike != 0, true);
        EQUAL_AT(i, out[i].wide, (long long)first << 33);
        EQUAL_AT(i, out[i].big.x, first);
        EQUAL_AT(i, out[i].big.y, first + 0.5);
        EQUAL_AT(i, out[i].big.z, first + 0.25);
    }
}

// A tile of a tile, and tiles that diverge.
__global__ void nested(int *out)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto four = cg::tiled_partition<4>(warp);
    cg::thread_block_tile<4> same = four;
    int sum = 0;
    if (four.meta_group_rank() % 2)
        for (unsigned turn = 0; turn <= four.meta_group_rank(); ++turn)
            sum += four.shfl((int)threadIdx.x, turn % 4);
    else
        sum = cg::reduce(same, (int)threadIdx.x, cg::plus<int>());
    out[threadIdx.x] = 1000 * four.meta_group_size() + sum;
}

static void check_nested()
{
    Array<int> out(64);
    nested<<<1, 64>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 64; ++i) {
        const int group = i % 32 / 4, first = i / 4 * 4;
        int want = 4 * first + 6;
        if (group % 2) {
            want = 0;
            for (int turn = 0; turn <= group; ++turn)
                want += first + turn % 4;
        }
        EQUAL_AT(i, out[i], 8000 + want);
    }
}

// ---- coalesced groups -----------------------------------------------------------------------------------------

// One atomic for all active lanes, like the guide's atomicAggInc.
__device__ int aggregated(int *counter)
{
    cg::coalesced_group active = cg::coalesced_threads();
    int first = 0;
    if (active.thread_rank() == 0)
        first = atomicAdd(counter, (int)active.size());
    return active.shfl(first, 0) + active.thread_rank();
}

__global__ void filter(const int *in, int *out, int *count, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] % 3 == 0)
        out[aggregated(count)] = in[i];
}

static void filtered()
{
    const int n = 1000;
    Array<int> in(n), out(n), count(1);
    for (int i = 0; i < n; ++i)
        in[i] = i * 7 % 1000;
    in.upload();
    count.zero();
    filter<<<4, 256>>>(in.device, out.device, count.device, n);
    RUNS();
    out.download();
    count.download();
    EQUAL(count[0], 334);
    long long sum = 0;
    for (int i = 0; i < 334; ++i)
        sum += out[i];
    EQUAL(sum, 3ll * (333 * 334 / 2));
}

struct Together {
    unsigned rank, size, ballot, same;
    int next, previous, sum, most, bits, before, up_to, yes, label;
};

__global__ void together(Together *out)
{
    if (threadIdx.x % 3 != 1)
        return;
    auto group = cg::coalesced_threads(); // 11 lanes: 1, 4, … 31
    Together t;
    t.rank = group.thread_rank();
    t.size = group.size();
    t.ballot = group.ballot(group.thread_rank() % 4 == 0);
    t.same = group.match_any((int)group.thread_rank() / 4);
    t.next = group.shfl_down((int)threadIdx.x, 1);
    t.previous = group.shfl_up((int)threadIdx.x, 2);
    t.sum = cg::reduce(group, (int)threadIdx.x, cg::plus<int>());
    t.most = cg::reduce(group, (int)(threadIdx.x * 5 % 32), cg::greater<int>());
    t.bits = cg::reduce(group, 1 << group.thread_rank(), cg::bit_or<int>());
    t.before = cg::exclusive_scan(group, (int)threadIdx.x);
    t.up_to = cg::inclusive_scan(group, (int)threadIdx.x, cg::plus<int>());
    const auto half = cg::binary_partition(group, group.thread_rank() < 4);
    t.yes = 100 * half.size() + half.thread_rank();
    const auto third = cg::labeled_partition(group, (int)group.thread_rank() % 3);
    t.label = 100 * third.size() + third.thread_rank();
    group.sync();
    out[t.rank] = t;
}

static void check_together()
{
    Array<Together> out(11);
    together<<<1, 32>>>(out.device);
    RUNS();
    out.download();
    int before = 0;
    for (int r = 0; r < 11; ++r) {
        const int lane = 1 + 3 * r;
        EQUAL_AT(r, out[r].rank, r);
        EQUAL_AT(r, out[r].size, 11);
        EQUAL_AT(r, out[r].ballot, 0x111);
        EQUAL_AT(r, out[r].same, r < 4 ? 0xf : r < 8 ? 0xf0 : 0x700);
        if (r < 10) // the last lane has no next one: CUDA promises nothing
            EQUAL_AT(r, out[r].next, lane + 3);
        if (r >= 2)
            EQUAL_AT(r, out[r].previous, lane - 6);
        EQUAL_AT(r, out[r].sum, 11 + 3 * 55);
        EQUAL_AT(r, out[r].most, 31);
        EQUAL_AT(r, out[r].bits, 0x7ff);
        EQUAL_AT(r, out[r].before, before);
        before += lane;
        EQUAL_AT(r, out[r].up_to, before);
        EQUAL_AT(r, out[r].yes, r < 4 ? 400 + r : 700 + r - 4);
        EQUAL_AT(r, out[r].label, (r % 3 == 2 ? 300 : 400) + r / 3);
    }
}

// ---- reductions -----------------------------------------------------------------------------------------------

template <int SIZE, typename T>
__global__ void reductions(T *out)
{
    auto tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
    const T mine = (T)(threadIdx.x * 37 % 64);
    out[threadIdx.x] = cg::reduce(tile, mine, cg::plus<T>());
    out[64 + threadIdx.x] = cg::reduce(tile, mine, cg::less<T>());
    out[128 + threadIdx.x] = cg::reduce(tile, mine, cg::greater<T>());
    out[192 + threadIdx.x] = cg::reduce(tile, mine, [](T a, T b) { return a * 2 < b * 2 ? b : a; });
}

template <int SIZE, typename T>
static void reduced()
{
    Array<T> out(256);
    reductions<SIZE, T><<<1, 64>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 64; ++i) {
        T sum = 0, least = 1000, most = -1;
        for (int j = i / SIZE * SIZE; j < i / SIZE * SIZE + SIZE; ++j) {
            const T item = (T)(j * 37 % 64);
            sum += item;
            least = item < least ? item : least;
            most = item > most ? item : most;
        }
        EQUAL_AT(i, out[i], sum);
        EQUAL_AT(i, out[64 + i], least);
        EQUAL_AT(i, out[128 + i], most);
        EQUAL_AT(i, out[192 + i], most);
    }
}

int main()
{
    check_positions();
    {
        Array<int> out(9);
        sums_of_groups<<<1, 128>>>(out.device);
        RUNS();
        out.download();
        EQUAL(out[0], 127 * 64);
        for (int g = 0; g < 8; ++g)
            EQUAL_AT(g, out[1 + g], 16 * 16 * g + 120);
    }
    tiled<32>();
    tiled<16>();
    tiled<8>();
    tiled<4>();
    tiled<2>();
    check_nested();
    filtered();
    check_together();
    reduced<32, int>();
    reduced<8, int>();
    reduced<16, float>();
    reduced<4, double>();
    return verdict();
}
