// A warp-specialised product: one thread brings tiles by the TMA, a warpgroup multiplies them, and the TMA stores C.
// launch: grid 2x2, block 256, shared 50176
// arg a: tensormap half[128,320] box 64,64 swizzle 128
// arg b_transposed: tensormap half[128,320] box 64,64 swizzle 128
// arg c: tensormap float[128,128]=zeros box 64,64
// arg k: 320
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda/ptx>
#include <cstdint>

namespace ptx = cuda::ptx;
constexpr int TILE = 64, STAGES = 2;

struct stage {
    __half a[TILE][TILE], b[TILE][TILE];
};

__device__ void wait(uint64_t *mbarrier, int round)
{
    while (!ptx::mbarrier_try_wait_parity(mbarrier, round % 2))
        ;
}

// Rows of 128 bytes, swizzled; 1024 bytes between groups of eight. (PTX ISA, "Matrix Descriptor Format")
__device__ uint64_t descriptor(const void *tile)
{
    const uint64_t address = __cvta_generic_to_shared(tile);
    return (address & 0x3FFFF) >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

// d (64, 64) = a @ b + (add ? d : 0), of 16 columns of a and of b's transpose
__device__ void multiply(float (&d)[32], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10,"
                 "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29,"
                 "%30, %31}, %32, %33, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
                   "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
                   "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "l"(a), "l"(b), "r"(add));
}

__global__ void product(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b_transposed,
                        const __grid_constant__ CUtensorMap c, int k)
{
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    stage *stages = (stage *)memory;
    float(*sums)[TILE] = (float(*)[TILE])(memory + STAGES * sizeof(stage));
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE, turns = k / TILE;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            ptx::mbarrier_init(&full[s], 1);
            ptx::mbarrier_init(&empty[s], 4);
        }
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (threadIdx.x == 0) { // the warpgroup that copies
        for (int turn = 0; turn < turns; turn++) {
            const int s = turn % STAGES;
            const int of_a[2] = {turn * TILE, row}, of_b[2] = {turn * TILE, column};
            if (turn >= STAGES)
                wait(&empty[s], turn / STAGES - 1);
            ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[s],
                                           sizeof(stage));
            ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, stages[s].a, &a, of_a, &full[s]);
            ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, stages[s].b, &b_transposed, of_b,
                                      &full[s]);
        }
    } else if (threadIdx.x >= 128) { // the one that multiplies
        const int t = threadIdx.x - 128, lane = t % 32;
        float d[32];
        for (int turn = 0; turn < turns; turn++) {
            const int s = turn % STAGES;
            wait(&full[s], turn / STAGES);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            for (int i = 0; i < TILE; i += 16)
                multiply(d, descriptor(&stages[s].a[0][i]), descriptor(&stages[s].b[0][i]), turn + i > 0);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (lane == 0)
                ptx::mbarrier_arrive(&empty[s]);
        }
        for (int r = 0; r < 32; r++)
            sums[t / 32 * 16 + lane / 4 + r / 2 % 2 * 8][r / 4 * 8 + lane % 4 * 2 + r % 2] = d[r];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync 1, 128;" ::: "memory");
        if (t == 0) {
            const int of_c[2] = {column, row};
            ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &c, of_c, sums);
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
        }
    }
}
