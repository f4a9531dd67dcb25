// Inline PTX: each instruction's results, computed by hand from the PTX ISA's descriptions.
#include "check.h"

#define RUN_1(out, text, a) asm(text:out : a)

__global__ void integers(long long *x)
{
    int i = 0, a = -7, b = 3;
    unsigned u, v = 0xF0F0F0F0u;
    long long l;
    unsigned short h;
    int n = 0;

    asm("add.s32 %0, %1, %2;" : "=r"(i) : "r"(a), "r"(b));
    x[n++] = i; // -4
    asm("add.sat.s32 %0, %1, %2;" : "=r"(i) : "r"(INT_MAX), "r"(b));
    x[n++] = i; // INT_MAX
    asm("mul.hi.s32 %0, %1, %2;" : "=r"(i) : "r"(1 << 30), "r"(-8));
    x[n++] = i; // -2
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(l) : "r"(1 << 30), "r"(-8));
    x[n++] = l; // -2^33
    asm("mad.lo.s32 %0, %1, %2, %0;" : "+r"(i) : "r"(a), "r"(b));
    x[n++] = i; // -23
    asm("mul24.lo.s32 %0, %1, %2;" : "=r"(i) : "r"(0x1000007), "r"(-3));
    x[n++] = i; // -21
    asm("div.s32 %0, %1, %2;" : "=r"(i) : "r"(a), "r"(2));
    x[n++] = i; // -3
    asm("rem.s32 %0, %1, %2;" : "=r"(i) : "r"(a), "r"(b));
    x[n++] = i; // -1
    asm("abs.s32 %0, %1;" : "=r"(i) : "r"(a));
    x[n++] = i; // 7
    asm("min.s32 %0, %1, %2;" : "=r"(i) : "r"(a), "r"(b));
    x[n++] = i; // -7
    asm("max.u32 %0, %1, %2;" : "=r"(u) : "r"(a), "r"(b));
    x[n++] = u; // 2^32 - 7
    asm("bfe.u32 %0, %1, 4, 8;" : "=r"(u) : "r"(v));
    x[n++] = u; // 0x0F
    asm("bfe.s32 %0, %1, 4, 4;" : "=r"(i) : "r"(v));
    x[n++] = i; // -1
    asm("bfi.b32 %0, %1, %2, 8, 4;" : "=r"(u) : "r"(5), "r"(v));
    x[n++] = u; // 0xF0F0F5F0
    asm("bfind.u32 %0, %1;" : "=r"(u) : "r"(0x00800000));
    x[n++] = u; // 23
    asm("bfind.s32 %0, %1;" : "=r"(u) : "r"(-1));
    x[n++] = (int)u; // -1
    asm("brev.b32 %0, %1;" : "=r"(u) : "r"(1));
    x[n++] = u; // 2^31
    asm("popc.b32 %0, %1;" : "=r"(u) : "r"(v));
    x[n++] = u; // 16
    asm("clz.b64 %0, %1;" : "=r"(u) : "l"(1ll));
    x[n++] = u; // 63
    asm("prmt.b32 %0, %1, %2, 0x7410;" : "=r"(u) : "r"(0x33221100), "r"(0x77665544));
    x[n++] = u; // 0x77441100
    asm("prmt.b32.rc8 %0, %1, 0, %2;" : "=r"(u) : "r"(0x33221100), "r"(2));
    x[n++] = u; // 0x22222222
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(u) : "r"(0xF0), "r"(0xCC), "r"(0xAA));
    x[n++] = u; // xor: 0x96
    asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(u) : "r"(0x11112222), "r"(0x33334444), "r"(16));
    x[n++] = u; // 0x44441111
    asm("shf.l.clamp.b32 %0, %1, %2, %3;" : "=r"(u) : "r"(0x11112222), "r"(0x33334444), "r"(40));
    x[n++] = u; // 0x11112222
    asm("shl.b32 %0, %1, 33;" : "=r"(u) : "r"(1));
    x[n++] = u; // 0
    asm("shr.s32 %0, %1, 40;" : "=r"(i) : "r"(-8));
    x[n++] = i; // -1
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(i) : "r"(0x01FF0203), "r"(0x04050607), "r"(100));
    x[n++] = i; // 100+4-5+12+21=132
    asm("dp2a.lo.s32.s32 %0, %1, %2, %3;" : "=r"(i) : "r"(0x0003FFFE), "r"(0x04050607), "r"(0));
    x[n++] = i; // -14+18=4
    asm("vadd4.s32.s32.s32.sat %0, %1, %2, %3;" : "=r"(u) : "r"(0x7F010203), "r"(0x01010101), "r"(0));
    x[n++] = u; // 0x7F020304
    asm("sad.u32 %0, %1, %2, %3;" : "=r"(u) : "r"(3), "r"(10), "r"(1));
    x[n++] = u; // 8
    asm("{ .reg .pred p, q; setp.lt.s32 p|q, %1, %2; selp.b32 %0, 10, 20, p; @q add.s32 %0, %0, 1; }"
        : "=r"(i)
        : "r"(a), "r"(b));
    x[n++] = i; // 10
    asm("{ .reg .pred p; setp.lt.u32 p, %1, %2; @!p mov.u32 %0, 77; @p mov.u32 %0, 78; }"
        : "=r"(i)
        : "r"(a), "r"(b));
    x[n++] = i; // 77
    asm("{ .reg .b32 c; .reg .pred p; mov.u32 c, 0; AGAIN%=: add.u32 c, c, 3; setp.lt.u32 p, c, %1; @p bra "
        "AGAIN%=; mov.u32 %0, c; }"
        : "=r"(u)
        : "r"(10));
    x[n++] = u; // 12
    asm("{ .reg .b32 lo, hi; mov.b64 {lo, hi}, %1; mov.b64 %0, {hi, lo}; }" : "=l"(l) : "l"(0x100000002ll));
    x[n++] = l; // 0x200000001
    asm("add.cc.u32 %0, %2, 1; addc.u32 %1, %3, 0;" : "=&r"(u), "=r"(i) : "r"(~0u), "r"(5));
    x[n++] = (long long)i << 32 | u; // 6 << 32
    asm("sub.cc.u32 %0, %2, 1; subc.u32 %1, %3, 0;" : "=&r"(u), "=r"(i) : "r"(0), "r"(5));
    x[n++] = (long long)i << 32 | u; // 4, ~0
    asm("cvt.u16.u32 %0, %1;" : "=h"(h) : "r"(0x12345));
    x[n++] = h; // 0x2345
    asm("cvt.sat.s8.s32 %0, %1;" : "=r"(i) : "r"(-300));
    x[n++] = i; // -128
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(i) : "f"(2.5f));
    x[n++] = i; // 2
    asm("cvt.rpi.s32.f32 %0, %1;" : "=r"(i) : "f"(2.25f));
    x[n++] = i; // 3
    asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(u) : "f"(-2.25f));
    x[n++] = u; // 0
    asm("mov.u32 %0, %1;" : "=r"(i) : "r"(123));
    x[n++] = i; // 123
    u = 40;
    asm("add.u32 %0, %0, %1;" : "+r"(u) : "n"(2));
    x[n++] = u; // 42
    asm("not.b32 %0, %1; // a comment\n\t/* another */ neg.s32 %0, %0;" : "=r"(i) : "r"(4));
    x[n++] = i; // 5
    x[n] = 0x7e57;
}

__global__ void floats(float *x)
{
    float a = 1.5f, r;
    unsigned u;
    unsigned short h;
    int n = 0;
    asm("add.rz.f32 %0, %1, %2;" : "=f"(r) : "f"(1.0f), "f"(0x1.8p-24f));
    x[n++] = r; // 1
    asm("add.rp.f32 %0, %1, %2;" : "=f"(r) : "f"(1.0f), "f"(0x1p-30f));
    x[n++] = r; // 1 + 2^-23
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(a), "f"(a), "f"(0.25f));
    x[n++] = r; // 2.5
    asm("fma.rm.f32 %0, %1, %2, %3;" : "=f"(r) : "f"(1.0f), "f"(1.0f), "f"(-0x1p-30f));
    x[n++] = r; // 1 - 2^-24
    asm("mul.f32 %0, %1, 0f40000000;" : "=f"(r) : "f"(a));
    x[n++] = r; // 3
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(NAN), "f"(1.0f));
    x[n++] = r != r; // 1
    asm("min.f32 %0, %1, %2;" : "=f"(r) : "f"(NAN), "f"(1.0f));
    x[n++] = r; // 1
    asm("add.ftz.f32 %0, %1, %2;" : "=f"(r) : "f"(0x1p-140f), "f"(0.0f));
    x[n++] = r; // 0
    asm("add.sat.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(a));
    x[n++] = r; // 1
    asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(3.0f));
    x[n++] = r; // 8
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(32.0f));
    x[n++] = r; // 5
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(4.0f));
    x[n++] = r; // 0.25
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(4.0f));
    x[n++] = r; // 0.5
    asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(9.0f));
    x[n++] = r; // 3
    asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(3.0f), "f"(2.0f));
    x[n++] = r; // 1.5
    asm("neg.f32 %0, %1;" : "=f"(r) : "f"(a));
    x[n++] = r; // -1.5
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(1.0f));
    x[n++] = h; // 0x3c00
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((unsigned short)0xC100));
    x[n++] = r; // -2.5
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(1.0f), "f"(2.0f));
    x[n++] = u == 0x3F804000; // 1
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(1.0f), "f"(2.0f));
    x[n++] = u == 0x3C004000; // 1
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(h) : "f"(100000.0f));
    x[n++] = h; // 0x7bff
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(u) : "f"(1 + 0x1p-11f));
    x[n++] = u == 0x3f802000; // 1
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(1000.0f), "f"(1.0f));
    x[n++] = h; // 0x7e38
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(-1.75f), "f"(1.0f));
    x[n++] = h; // 0xbf3c
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(u) : "h"((unsigned short)0x7e38));
    x[n++] = u == 0x5F003C00; // 448, 1
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(u) : "r"(0x40003C00), "r"(0x42004000), "r"(0x3C003C00));
    x[n++] = u == 0x47004200; // 7, 3
    asm("max.f16x2 %0, %1, %2;" : "=r"(u) : "r"(0x40003C00), "r"(0x42003800));
    x[n++] = u == 0x42003C00; // 1
    asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(0.0f));
    x[n++] = r; // 0
    asm("{ .reg .f64 d; cvt.f64.f32 d, %1; add.f64 d, d, 0d3FF0000000000000; cvt.rn.f32.f64 %0, d; }"
        : "=f"(r)
        : "f"(a));
    x[n++] = r; // 2.5
    asm("cvt.rn.f32.s32 %0, %1;" : "=f"(r) : "r"(-3));
    x[n++] = r; // -3
    asm("copysign.f32 %0, %1, %2;" : "=f"(r) : "f"(-1.0f), "f"(2.0f));
    x[n++] = r; // -2
    x[n] = 77;
}

__global__ void memory(int *x)
{
    __shared__ int s[64];
    __shared__ unsigned long long bar;
    unsigned at = (unsigned)__cvta_generic_to_shared(s), lane, all;
    int t = threadIdx.x, r, q;
    int4 v;

    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + 4 * t), "r"(t * t) : "memory");
    __syncthreads();
    asm volatile("ld.shared.b32 %0, [%1+-4];" : "=r"(r) : "r"(at + 4 * (t + 1)));
    x[t] = r;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4 + 16];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at));
    x[32 + t] = v.x + v.y + v.z + v.w; // 16+25+36+49
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(q) : "l"(x + 384 + t));
    x[64 + t] = q; // what no thread of this kernel has written
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 %0, 1, 0, p; }" : "=r"(all));
    x[96 + t] = lane + 100 * all;
    asm volatile("red.shared.add.s32 [%0], 1;" ::"r"(at) : "memory");
    __syncthreads();
    if (t == 0)
        x[128] = s[0];
    asm volatile("{ .reg .b32 a; .reg .pred p; shfl.sync.down.b32 a|p, %1, 1, 0x1f, 0xffffffff; @p mov.b32 %0, a; "
                 "@!p mov.b32 %0, -1; }"
                 : "=r"(r)
                 : "r"(t));
    x[160 + t] = r;
    asm volatile("atom.shared.cas.b32 %0, [%1], %2, %3;" : "=r"(r) : "r"(at + 4), "r"(1), "r"(50));
    x[192 + t] = r;
    __syncthreads();
    x[224 + t] = __isShared(s) + 2 * __isShared(x);
    asm("{ .reg .u64 g; .reg .pred p; cvta.to.shared.u64 g, %1; cvta.shared.u64 g, g; isspacep.shared p, g; "
        "selp.u32 %0, 1, 0, p; }"
        : "=r"(r)
        : "l"(s + t));
    x[256 + t] = r;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at + 4 * t), "l"(x + t), "r"(t % 2 ? 4 : 0));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    x[288 + t] = s[t];
    // an mbarrier for the copies of all threads
    unsigned b = (unsigned)__cvta_generic_to_shared(&bar);
    if (t == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(b), "r"(32));
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at + 128 + 4 * t), "l"(x + t));
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(b));
    asm volatile("{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra "
                 "DONE;\nbra LAB_WAIT;\nDONE:\n}\n" ::"r"(b),
                 "r"(0));
    x[320 + t] = s[32 + 31 - t];
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(b));
    int done;
    do
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(b), "l"(state));
    while (!done);
    x[352 + t] = done;
}

__global__ void leaves(int *x)
{
    x[threadIdx.x] = 1;
    if (threadIdx.x % 2)
        asm("exit;");
    x[threadIdx.x] = 2;
}

int main()
{
    Array<long long> i(64);
    integers<<<1, 1>>>(i.device);
    RUNS();
    i.download();
    const long long want[] = {-4,
                              INT_MAX,
                              -2,
                              -(1ll << 33),
                              -23,
                              -21,
                              -3,
                              -1,
                              7,
                              -7,
                              (1ll << 32) - 7,
                              0x0F,
                              -1,
                              0xF0F0F5F0ll,
                              23,
                              -1,
                              1ll << 31,
                              16,
                              63,
                              0x77441100,
                              0x22222222,
                              0x96,
                              0x44441111,
                              0x11112222,
                              0,
                              -1,
                              132,
                              4,
                              0x7F020304,
                              8,
                              10,
                              77,
                              12,
                              0x200000001,
                              6ll << 32,
                              4ll << 32 | 0xffffffff,
                              0x2345,
                              -128,
                              2,
                              3,
                              0,
                              123,
                              42,
                              5,
                              0x7e57};
    for (size_t k = 0; k < sizeof want / 8; k++)
        EQUAL_AT(k, i[k], want[k]);
    Array<float> f(64);
    floats<<<1, 1>>>(f.device);
    RUNS();
    f.download();
    const float wanted[] = {
        1, 1 + 0x1p-23f, 2.5, 1 - 0x1p-24f, 3,      1, 1, 0, 1, 8,   5,  0.25, 0.5, 3, 1.5, -1.5, 0x3c00, -2.5, 1,
        1, 0x7bff,       1,   0x7e38,       0xbf3c, 1, 1, 1, 0, 2.5, -3, -2,   77};
    for (size_t k = 0; k < sizeof wanted / 4; k++)
        EQUAL_AT(k, f[k], wanted[k]);
    int winners = 0;
    Array<int> m(416);
    for (int t = 0; t < 32; t++)
        m[384 + t] = t * t;
    m.upload();
    memory<<<1, 32>>>(m.device);
    RUNS();
    m.download();
    for (int t = 0; t < 32; t++) {
        EQUAL_AT(t, m[t], t * t);
        EQUAL_AT(t, m[32 + t], 126);
        EQUAL_AT(t, m[64 + t], t * t);
        EQUAL_AT(t, m[96 + t], t + 100 * (t == 0));
        EQUAL_AT(t, m[160 + t], t < 31 ? t + 1 : -1);
        winners += m[192 + t] == 1;
        EQUAL_AT(t, m[224 + t], 1);
        EQUAL_AT(t, m[256 + t], 1);
        EQUAL_AT(t, m[288 + t], t % 2 ? t * t : 0);
        EQUAL_AT(t, m[320 + t], (31 - t) * (31 - t));
        EQUAL_AT(t, m[352 + t], 1);
    }
    EQUAL(winners, 1);
    EQUAL(m[128], 32);
    Array<int> l(32);
    leaves<<<1, 32>>>(l.device);
    RUNS();
    l.download();
    for (int t = 0; t < 32; t++)
        EQUAL_AT(t, l[t], t % 2 ? 1 : 2);
    return verdict();
}
