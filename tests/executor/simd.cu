// SIMD within a word, and inline PTX: values computed by hand.
#include "check.h"

__global__ void words(unsigned *out)
{
    int n = 0;
    out[n++] = __vadd4(0x01ff7f80, 0x01018001);
    out[n++] = __vaddss4(0x7f80007f, 0x01ff0001);
    out[n++] = __vaddus4(0xff80007f, 0x01800001);
    out[n++] = __vsub2(0x00010000, 0x00020001);
    out[n++] = __vsubus2(0x00010005, 0x00020001);
    out[n++] = __vabsdiffu4(0x05ff0010, 0x08010020);
    out[n++] = __vabsdiffs4(0x05ff0010, 0x08010020);
    out[n++] = __vsadu4(0x05ff0010, 0x08010020);
    out[n++] = __vcmpgts4(0x01ff7f80, 0x00000000);
    out[n++] = __vcmpgtu4(0x01ff7f00, 0x00000000);
    out[n++] = __vseteq2(0x12345678, 0x12340000);
    out[n++] = __vmaxs4(0x01ff7f80, 0x00000000);
    out[n++] = __vminu2(0x0001ffff, 0x00020001);
    out[n++] = __vavgu4(0x01020304, 0x02020405);
    out[n++] = __vneg2(0x00018000);
    out[n++] = __vabsss4(0x80ff0105);
}

static const unsigned WORDS[] = {0x0200ff81, 0x7f80007f, 0xffff0080, 0xffffffff, 0x00000004, 0x03fe0010,
                                 0x03020010, 0x00000111, 0xff00ff00, 0xffffff00, 0x00010000, 0x01007f00,
                                 0x00010001, 0x02020405, 0xffff8000, 0x7f010105};

__global__ void instructions(unsigned *out, const unsigned *in)
{
    unsigned lane, below, found, three, bytes, loaded;
    unsigned long long then, now;

    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("bfind.u32 %0, %1;" : "=r"(found) : "r"(lane));
    asm("lop3.b32 %0, %1, %2, %3, 0xe8;" : "=r"(three) : "r"(0xf0u), "r"(0xccu), "r"(0xaau));
    asm("prmt.b32 %0, %1, %2, 0x5140;" : "=r"(bytes) : "r"(0x33221100u), "r"(0x77665544u));
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(loaded) : "l"(in + lane) : "memory");
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(then));
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    unsigned *mine = out + 7 * threadIdx.x;
    mine[0] = lane, mine[1] = below, mine[2] = found, mine[3] = three, mine[4] = bytes, mine[5] = now >= then;
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(mine + 6), "r"(loaded) : "memory");
}

// the sum of each lane's number and that of the lane 4 above, within segments of 16 lanes; CUB writes it like this
__global__ void shuffled(unsigned *out)
{
    unsigned input = threadIdx.x * 10, sum;
    unsigned long long wide = (unsigned long long)threadIdx.x << 32 | 7, both;
    asm volatile("{"
                 "  .reg .u32 r0;"
                 "  .reg .pred p;"
                 "  shfl.sync.down.b32 r0|p, %1, %2, %3, %5;"
                 "  @p add.u32 r0, r0, %4;"
                 "  mov.u32 %0, r0;"
                 "}"
                 : "=r"(sum)
                 : "r"(input), "r"(4), "r"(0x100f), "r"(input), "r"(~0u));
    asm volatile("{ .reg .u32 lo; .reg .u32 hi; .reg .pred p; mov.b64 {lo, hi}, %1;"
                 "  shfl.sync.up.b32 lo|p, lo, %2, %3, %4; shfl.sync.up.b32 hi|p, hi, %2, %3, %4;"
                 "  mov.b64 %0, {lo, hi}; @p add.u64 %0, %0, %1; }"
                 : "=l"(both)
                 : "l"(wide), "r"(1), "r"(0), "r"(~0u));
    out[2 * threadIdx.x] = sum;
    out[2 * threadIdx.x + 1] = (unsigned)(both >> 32) + (unsigned)both;
}

int main()
{
    Array<unsigned> out(16), in(32), results(7 * 40);

    words<<<1, 1>>>(out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 16; i++)
        EQUAL_AT(i, out[i], WORDS[i]);
    for (int i = 0; i < 32; i++)
        in[i] = 100 + i;
    in.upload();
    instructions<<<1, 40>>>(results.device, in.device);
    RUNS();
    results.download();
    for (int t = 0; t < 40; t++) {
        const int lane = t % 32;
        const unsigned want[] = {(unsigned)lane, (1u << lane) - 1, lane ? 31 - __builtin_clz(lane) : ~0u,
                                 0xe8,           0x55114400,       1,
                                 100u + lane};
        for (int i = 0; i < 7; i++)
            EQUAL_AT(7 * t + i, results[7 * t + i], want[i]);
    }
    shuffled<<<1, 32>>>(results.device);
    RUNS();
    results.download();
    for (int t = 0; t < 32; t++) {
        EQUAL_AT(t, results[2 * t], t % 16 + 4 < 16 ? 20 * t + 40 : 10 * t);
        EQUAL_AT(t, results[2 * t + 1], t ? 2 * t - 1 + 14 : 7);
    }
    return verdict();
}
