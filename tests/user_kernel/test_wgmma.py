"""wgmma: every shape and layout against NumPy, exactly, and what the checker says of its rules."""

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from together import Variants, compile_errors, together

import smemkit

pytestmark = pytest.mark.usefixtures("compiled_when_used")

COMMON = Path(__file__).resolve().parents[2] / "kernels" / "common"
TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
RESULTS = {"f32": np.float32, "f16": np.float16, "s32": np.int32}
ROWS = {0: 16, 32: 32, 64: 64, 128: 128}  # bytes of a row of the pattern, by swizzle
CODES = {0: 0, 128: 1, 64: 2, 32: 3}


def kernel_text(n, k, d, a, b, *, registers=False, scales=(1, 1), transposes=(0, 0), satfinite=False, code=""):
    """The kernel that multiplies once, `code` before it."""
    count = n // 4 if d == "f16" else n // 2
    type_, own = ("float", "+f") if d == "f32" else ("uint32_t", "+r")
    accumulators = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"{own}"(d[{i}])' for i in range(count))
    first = f"{{%{count}, %{count + 1}, %{count + 2}, %{count + 3}}}" if registers else f"%{count}"
    at = count + (4 if registers else 1)
    inputs = '"r"(ar[0]), "r"(ar[1]), "r"(ar[2]), "r"(ar[3])' if registers else '"l"(da)'
    more = "" if d == "s32" else f", {scales[0]}, {scales[1]}"
    if a in ("f16", "bf16"):
        more += f", {transposes[1]}" if registers else f", {transposes[0]}, {transposes[1]}"
    name = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}{'.satfinite' if satfinite else ''}.{d}.{a}.{b}"
    return f"""
#include <cstdint>
#include "ptx/wgmma.cuh"
__global__ void k(const uint4 *image, int chunks, const uint32_t *a, const {type_} *c, {type_} *out, uint64_t da,
                  uint64_t db, int keep)
{{
    extern __shared__ uint4 s[];
    {type_} d[{count}];
    uint32_t ar[4];
    const uint64_t base = (uint32_t)__cvta_generic_to_shared(s) >> 4 & 0x3fff;
    da += base, db += base;
    for (int i = threadIdx.x; i < chunks; i += 128)
        s[i] = image[i];
    for (int i = 0; i < {count}; i++)
        d[i] = c[threadIdx.x * {count} + i];
    for (int i = 0; i < 4; i++)
        ar[i] = a[threadIdx.x * 4 + i];
    ptx::fence_proxy_async();
    __syncthreads();
    {code}
    ptx::wgmma_fence();
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{at + 1}, 0;"
                 "{name} {{{accumulators}}}, {first}, %{at}, p{more}; }}"
                 : {outputs} : {inputs}, "l"(db), "r"(keep));
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    for (int i = 0; i < {count}; i++)
        out[threadIdx.x * {count} + i] = d[i];
}}
"""


def kernel(text):
    with smemkit.Device("cpu"):
        return smemkit.Kernel(text, options=[f"-I{COMMON}"])


@cache
def compiled(*texts):
    return kernel(together("k", texts))


def one_of(texts, text):
    """The kernel of a text, which is compiled with the others."""
    return compiled(*texts)[f"k{texts.index(text)}"]


# ---- layouts, as the PTX ISA's "Strides" and "Matrix Descriptor Format" give them ----


class Operand:
    """`values` (rows, k) laid out for a descriptor, from byte `start` of the image on."""

    def __init__(self, values, swizzle, transposed, start, gap=0, base=0):
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        size, row = values.dtype.itemsize, ROWS[swizzle]
        rows, k = values.shape
        self.offsets = np.zeros((rows, k), np.int64)
        r, p = np.meshgrid(np.arange(rows), np.arange(k), indexing="ij")
        groups = rows // 8
        if not transposed:
            chunk = p * size // 16
            self.stride = 8 * row + gap
            self.leading = groups * self.stride if swizzle == 0 else 0
            offsets = r % 8 * row + r // 8 * self.stride + p * size % 16
            offsets = offsets + chunk * (self.leading if swizzle == 0 else 16)
        else:
            j, chunks = r // 8, row // 16
            first, second = 8 * row + gap, (k // 8) * (8 * row + gap)
            if swizzle == 0:
                self.leading, self.stride = first, second
                offsets = p % 8 * 16 + p // 8 * self.leading + j * self.stride + r % 8 * size
            else:
                self.stride, self.leading = first, second
                offsets = p % 8 * row + p // 8 * self.stride + j % chunks * 16 + j // chunks * self.leading
                offsets = offsets + r % 8 * size
        offsets = offsets + start
        offsets ^= (((offsets >> 7) - base) & (row // 16 - 1)) << 4
        self.offsets, self.raw, self.size = offsets, raw, size
        self.descriptor = start >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32 | base << 49
        self.descriptor |= CODES[swizzle] << 62

    def put(self, image):
        for byte in range(self.size):
            image[self.offsets + byte] = self.raw[:, byte :: self.size]

    @property
    def end(self):
        return int(self.offsets.max()) + self.size


def fragments(values, dtype):
    """(64, n) as the accumulators of 128 threads, in words."""
    n = values.shape[1]
    lanes = np.arange(128)
    rows = (lanes // 32 * 16 + lanes % 32 // 4)[:, None, None, None] + 8 * np.arange(2)[None, None, :, None]
    columns = 8 * np.arange(n // 8)[None, :, None, None] + (2 * (lanes % 4))[:, None, None, None] + np.arange(2)
    return np.ascontiguousarray(values[rows, columns].reshape(128, -1).astype(dtype))


def a_registers(values):
    """(64, k) as the four registers of each of 128 threads."""
    words = np.ascontiguousarray(values).view(np.uint32)
    lanes, r = np.arange(128)[:, None], np.arange(4)[None]
    return np.ascontiguousarray(words[lanes // 32 * 16 + lanes % 32 // 4 + 8 * (r % 2), lanes % 4 + 4 * (r // 2)])


def integers(rng, shape, type_, low=-3, high=4):
    return rng.integers(0 if type_ == "u8" else low, high, shape).astype(TYPES[type_])


def multiply(
    rng,
    n,
    d,
    a,
    b,
    *,
    swizzles=(128, 128),
    transposes=(0, 0),
    registers=False,
    keep=1,
    scales=(1, 1),
    gaps=(0, 0),
    check=False,
    compiled_with=None,
    **more,
):
    """Launches one multiplication, whose text is compiled with these, and compares all of d."""
    k = 32 // np.dtype(TYPES[a]).itemsize
    x, y = integers(rng, (64, k), a), integers(rng, (n, k), b)
    c = rng.integers(-8, 9, (64, n))
    left = Operand(x, swizzles[0], transposes[0], 0, gaps[0])
    right = Operand(y, swizzles[1], transposes[1], -(-left.end // 1024) * 1024, gaps[1])
    image = np.zeros(-(-max(left.end, right.end) // 16) * 16, np.uint8)
    left.put(image)
    right.put(image)
    words = np.float32 if d == "f32" else np.uint32
    start, out = fragments(c, RESULTS[d]).view(words), np.zeros((128, n // 4 if d == "f16" else n // 2), words)
    text = kernel_text(n, k, d, a, b, registers=registers, scales=scales, transposes=transposes, **more)
    arguments = (
        *(image.view(np.uint32), len(image) // 16, a_registers(x), start, out),
        *(left.descriptor, right.descriptor, keep),
    )
    launch = one_of(compiled_with or [text], text)[1, 128, len(image)]
    launch(*arguments)
    product = scales[0] * scales[1] * (x.astype(np.float64) @ y.astype(np.float64).T)
    assert_array_equal(out.view(RESULTS[d]), fragments(product + keep * c, RESULTS[d]))
    if check:
        report = smemkit.check(launch, *arguments)
        assert not report.faults, report


ALL = [("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")]
ALL += [(d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
ALL += [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]


FORMS = [  # in groups of six that are compiled together; the first one has each type
    *(("f32", "f16", "f16", False), ("f32", "bf16", "bf16", True), ("f32", "tf32", "tf32", False)),
    *(("f16", "e4m3", "e5m2", True), ("s32", "s8", "u8", False), ("f16", "f16", "f16", True)),
]
FORMS += [form for types in ALL for form in ((*types, False), (*types, True)) if form not in FORMS]


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(i, id="-".join(map(str, form)), marks=[pytest.mark.slow] * (i >= 6))
        for i, form in enumerate(FORMS)
    ],
)
def test_types(number):
    first = number // 6 * 6
    texts = [
        kernel_text(16, 32 // np.dtype(TYPES[a]).itemsize, d, a, b, registers=registers)
        for d, a, b, registers in FORMS[first : first + 6]
    ]
    d, a, b, registers = FORMS[number]
    multiply(np.random.default_rng(1), 16, d, a, b, registers=registers, check=True, compiled_with=texts)


@pytest.mark.parametrize("n", range(8, 257, 8))
@pytest.mark.covering(most=3)
def test_widths(n):
    multiply(np.random.default_rng(n), n, "f32", "f16", "f16")


@pytest.mark.parametrize("swizzle", ROWS)
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("gap", [0, 1024])
@pytest.mark.covering(most=8)
def test_layouts(swizzle, transposed, gap):
    rng, form = np.random.default_rng(swizzle + gap), ("f32", "bf16", "bf16")
    texts = [kernel_text(128, 16, *form, transposes=transposes) for transposes in ((0, 0), (1, 1))]
    transposes = (transposed,) * 2
    multiply(rng, 128, *form, swizzles=(swizzle,) * 2, transposes=transposes, gaps=(gap,) * 2, compiled_with=texts)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.covering(most=3)
def test_any_form(seed):
    rng = np.random.default_rng(seed)
    d, a, b = ALL[rng.integers(len(ALL))]
    n = int(rng.integers(1, 33)) * 8
    if d == "s32" and n > 32:
        n = -(-n // 16) * 16
    halves = a in ("f16", "bf16")
    multiply(
        *(rng, n, d, a, b),
        swizzles=tuple(int(choice) for choice in rng.choice(list(ROWS), 2)),
        transposes=tuple(int(choice) for choice in rng.integers(0, 2, 2)) if halves else (0, 0),
        registers=bool(rng.integers(2)),
        keep=int(rng.integers(2)),
        scales=(1, 1) if d == "s32" else tuple(int(choice) for choice in rng.choice([-1, 1], 2)),
        gaps=tuple(int(choice) for choice in rng.choice([0, 1024], 2)),
    )


SMALL = Variants("k", options=[f"-I{COMMON}"])
HALVES = SMALL.add(kernel_text(8, 16, "f32", "f16", "f16"))
BYTES, SATURATED_BYTES = (
    SMALL.add(kernel_text(8, 32, "s32", "s8", "s8", satfinite=satfinite)) for satfinite in (False, True)
)


def test_infinities_nans_and_saturation():
    rng = np.random.default_rng(5)
    x, y = integers(rng, (64, 16), "f16").astype(np.float32), integers(rng, (8, 16), "f16").astype(np.float32)
    x[3, 2], x[5, 0], x[6, 1:3] = np.inf, np.nan, (np.inf, -np.inf)
    y[:, 1:3] = 1
    x, y = x.astype(np.float16), y.astype(np.float16)
    left, right = Operand(x, 0, 0, 0), Operand(y, 0, 0, 2048)
    image = np.zeros(right.end, np.uint8)
    left.put(image)
    right.put(image)
    out = np.zeros((128, 4), np.float32)
    SMALL[HALVES][1, 128, len(image)](
        *(image.view(np.uint32), len(image) // 16, a_registers(x), out.copy(), out),
        *(left.descriptor, right.descriptor, 0),
    )
    with np.errstate(invalid="ignore"):
        assert_array_equal(out, fragments(x.astype(np.float64) @ y.astype(np.float64).T, np.float32))
    assert set(out.view(np.uint32)[np.isnan(out)].tolist()) == {0x7FFFFFFF}  # CUDA's NaN
    big = np.full((64, 8), 2**31 - 10)
    for text, want in ((BYTES, 2**31 - 10 + 192 - 2**32), (SATURATED_BYTES, 2**31 - 1)):
        x, y = np.full((64, 32), 2, np.int8), np.full((8, 32), 3, np.int8)
        left, right = Operand(x, 0, 0, 0), Operand(y, 0, 0, 2048)
        left.put(image)
        right.put(image)
        out = np.zeros((128, 4), np.uint32)
        SMALL[text][1, 128, len(image)](
            *(image.view(np.uint32), len(image) // 16, a_registers(x), fragments(big, np.int32).view(np.uint32)),
            *(out, left.descriptor, right.descriptor, 1),
        )
        assert_array_equal(out.view(np.int32), want)


def test_the_base_offset_moves_the_pattern():
    """A pattern that begins 256 bytes after a multiple of 1024."""
    rng = np.random.default_rng(2)
    x, y = integers(rng, (64, 16), "f16"), integers(rng, (8, 16), "f16")
    left, right = Operand(x, 128, 0, 256, base=2), Operand(y, 128, 0, 9216 + 384, base=3)
    image = np.zeros(20480, np.uint8)
    left.put(image)
    right.put(image)
    assert left.offsets[8, 0] == 256 + 1024  # the first row of each eight is not swizzled
    out = np.zeros((128, 4), np.float32)
    SMALL[HALVES][1, 128, len(image)](
        *(image.view(np.uint32), len(image) // 16, a_registers(x), out.copy(), out),
        *(left.descriptor, right.descriptor, 0),
    )
    assert_array_equal(out, fragments(x.astype(np.float64) @ y.astype(np.float64).T, np.float32))


MATMUL = """
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma.cuh"
#include <cuda.h>
// out (64, 256) = a (64, K) @ b (256, K)^T in two stages of 128 bytes of k, which one thread loads by TMA
// each step waits for all but `groups` groups, or not at all if it is -1, and hands back the stage of the one
// `left` - 1 steps before
__global__ void matmul(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *out,
                       int steps, int groups, int left)
{
    extern __shared__ __align__(1024) char s[];
    __shared__ uint64_t full[2], empty[2];
    float d[128];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    if (t == 0)
        for (int i = 0; i < 2; i++) {
            ptx::mbarrier_init(&full[i], 1);
            ptx::mbarrier_init(&empty[i], 4);
        }
    __syncthreads();
    if (warp == 4) {
        for (int i = 0; lane == 0 && i < steps; i++) {
            char *to = s + i % 2 * 40960;
            const int k = i * 64;
            while (i >= 2 && !ptx::mbarrier_test_wait_parity(&empty[i % 2], (i / 2 + 1) % 2)) {}
            ptx::mbarrier_arrive_expect_tx(&full[i % 2], 40960);
            const unsigned bar = (unsigned)__cvta_generic_to_shared(&full[i % 2]);
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                         " [%0], [%2, {%4, 0}], [%5]; cp.async.bulk.tensor.2d.shared::cluster.global."
                         "mbarrier::complete_tx::bytes [%1], [%3, {%4, 0}], [%5];"
                         :: "r"((unsigned)__cvta_generic_to_shared(to)),
                            "r"((unsigned)__cvta_generic_to_shared(to + 8192)), "l"(&a), "l"(&b), "r"(k), "r"(bar)
                         : "memory");
        }
        return;
    }
    for (float &one : d)
        one = 0;
    for (int i = 0; i < steps; i++) {
        const char *from = s + i % 2 * 40960;
        const uint64_t da = ptx::wgmma_descriptor(from), db = ptx::wgmma_descriptor(from + 8192);
        while (!ptx::mbarrier_test_wait_parity(&full[i % 2], i / 2 % 2)) {}
        for (float &one : d)
            asm volatile("" : "+f"(one)::"memory");
        ptx::wgmma_fence();
        for (int step = 0; step < 4; step++)
            ptx::wgmma_mma_async(d, da + 2 * step, db + 2 * step, __half());
        ptx::wgmma_commit_group();
        for (float &one : d)
            asm volatile("" : "+f"(one)::"memory");
        if (groups == 0)
            ptx::wgmma_wait_group<0>();
        if (groups == 1)
            ptx::wgmma_wait_group<1>();
        if (lane == 0 && i + 1 >= left)
            ptx::mbarrier_arrive(&empty[(i + 1 - left) % 2]);
    }
    if (groups >= 0)
        ptx::wgmma_wait_group<0>();
    for (int i = 0; i < 128; i++)
        out[(16 * warp + lane / 4 + i % 4 / 2 * 8) * 256 + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}
"""


@cache
def matmul_kernel():
    return kernel(MATMUL)


def matmul(groups, left):
    rng = np.random.default_rng(3)
    a, b = integers(rng, (64, 320), "f16"), integers(rng, (256, 320), "f16")
    out = np.zeros((64, 256), np.float32)
    launch = matmul_kernel()[1, 160, 2 * 40960]
    maps = [smemkit.TensorMap(operand, (len(operand), 64), swizzle=128) for operand in (a, b)]
    return launch, (*maps, out, 5, groups, left), out, a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("groups", [0, 1])
@pytest.mark.parametrize("completion", ["early", "late"])
@pytest.mark.covering(1)
def test_a_pipeline_of_tensor_copies(groups, completion):
    launch, arguments, out, want = matmul(groups, groups + 1)
    launch(*arguments)
    assert_array_equal(out, want)
    report = smemkit.check(launch, *arguments, completion=completion)
    assert not report.faults, report


def test_a_stage_that_is_handed_back_before_the_wait():
    launch, arguments, *_ = matmul(1, 1)
    report = smemkit.check(launch, *arguments, completion="early")
    assert {(fault.kind, fault.hazard) for fault in report.faults} == {("race", "WAR")}, report
    assert "the wgmma.mma_async that thread" in report.faults[0].message


@pytest.mark.parametrize("completion", ["early", "late"])
def test_a_run_without_a_wait_has_wrong_numbers(completion):
    launch, arguments, out, want = matmul(-1, 1)
    launch(*arguments)
    assert (out != want).any()
    report = smemkit.check(launch, *arguments, completion=completion)
    assert ("race", "RAW") in {(fault.kind, fault.hazard) for fault in report.faults}, report


WARP = "const int warp = threadIdx.x / 32; "


RULES = [
    ("if (threadIdx.x == 40) return;", "barrier", "wgmma.fence needs all 32 lanes of the warp, and 31"),
    ("if (threadIdx.x >= 96) return;", "barrier", "wait at FILE for the other warps of their warpgroup"),
    ("db += 4096;", "out_of_bounds", "with a descriptor of b"),
    ("d[0] = 0; ptx::wgmma_fence(); d[0] = 1; d[1] = d[0];", None, ""),
]


@pytest.mark.parametrize(("code", "kind", "message"), RULES)
def test_rules(code, kind, message):
    texts = [kernel_text(8, 16, "f32", "f16", "f16", code=other) for other, *_ in RULES]
    text = kernel_text(8, 16, "f32", "f16", "f16", code=code)
    x = np.ones(4096, np.uint32)
    arguments = (x, 256, x, x.astype(np.float32), x.astype(np.float32), 8 << 32, 8 << 32 | 128, 1)
    report = smemkit.check(one_of(texts, text)[1, 128, 4096], *arguments)
    assert {fault.kind for fault in report.faults} == ({kind} if kind else set()), report
    assert message.partition("FILE")[2] in (report.faults[0].message if kind else "")
    assert message.partition("FILE")[0] in (report.faults[0].message if kind else "")


def test_an_operand_beyond_shared_memory_is_one_fault():
    source = (Path(__file__).parents[1] / "faulty/wgmma_no_wait.fixed.cu").read_text()
    assert "descriptor(b, 8)" in source
    launch = kernel(source.replace("descriptor(b, 8)", "descriptor(b + 8, 8)"))[1, 128]
    x, y = np.zeros(512, np.int32), np.zeros(64, np.int32)
    for _ in range(3):
        (fault,) = smemkit.check(launch, x, y, np.zeros(512, np.float32)).faults
        assert fault.kind == "out_of_bounds"
        assert "wgmma.mma_async reads beyond" in fault.message


def test_the_first_wgmma_needs_a_fence():
    text = kernel_text(8, 16, "f32", "f16", "f16").replace("ptx::wgmma_fence();", "")
    x = np.ones(4096, np.uint32)
    arguments = (x, 256, x, x.astype(np.float32), x.astype(np.float32), 8 << 32, 8 << 32 | 128, 1)
    (fault,) = smemkit.check(kernel(text)[1, 128, 4096], *arguments).faults
    assert (fault.kind, fault.hazard) == ("race", "RAW")
    assert "executes wgmma.mma_async without a wgmma.fence before" in fault.message
    assert "Put wgmma.fence.sync.aligned in front" in fault.fix


def test_a_block_that_is_no_warpgroup():
    x = np.ones(4096, np.uint32)
    arguments = (x, 256, x, x.astype(np.float32), x.astype(np.float32), 8 << 32, 8 << 32 | 128, 1)
    with pytest.raises(smemkit.Error, match="needs the four warps of a warpgroup, and the block has 96 threads"):
        SMALL[HALVES][1, 96, 4096](*arguments)


LACKING = {
    "m64n12k16.f32.f16.f16": 6,
    "m64n8k8.f32.f16.f16": 4,
    "m64n8k16.f16.bf16.bf16": 2,
    "m64n40k32.s32.s8.s8": 20,
    "m64n8k16.f32.f16.f16": 8,
}


def lacking_text(name, count):
    outputs = ", ".join(f'"+r"(d[{i}])' for i in range(count))
    vector = ", ".join(f"%{i}" for i in range(count))
    scales = "1" if "s8" in name else "1, 1, 1, 0, 0"
    text = f'asm volatile("wgmma.mma_async.sync.aligned.{name} {{{vector}}}, %{count}, %{count}, {scales};"'
    return f'#include <cstdint>\n__global__ void k(uint32_t *d) {{ {text} : {outputs} : "l"(0ull)); }}'


@cache
def errors():
    """The compiler's messages about the forms that PTX lacks, by name. The first one's error comes after those of
    the others, so that it would be left out beside them."""
    first, *others = (lacking_text(*form) for form in LACKING.items())
    return dict(zip(LACKING, compile_errors("k", [first]) + compile_errors("k", others), strict=True))


@pytest.mark.parametrize("name", LACKING)
@pytest.mark.usefixtures("compiled_at_once")
def test_forms_that_ptx_lacks_are_refused(name):
    assert "wgmma" in errors()[name].splitlines()[0]


REGISTERS = """
__global__ void k(int *x)
{
    const int warp = threadIdx.x / 32;
    %s
    x[threadIdx.x] = 1;
}
"""


def set_registers(kind, count):
    return f'asm volatile("setmaxnreg.{kind}.sync.aligned.u32 %0;" :: "n"({count}));'


REGISTER_RULES = [
    (set_registers("inc", 240), None, ""),
    (f"if (warp < 4) {set_registers('dec', 24)} else {set_registers('inc', 256)}", None, ""),
    (set_registers("inc", 20), "trap", "to 20 registers at"),
    (set_registers("inc", 100), "trap", "a multiple of 8 from 24 to 256"),
    (set_registers("inc", 264), "trap", "a multiple of 8 from 24 to 256"),
    (set_registers("dec", 40) + set_registers("dec", 48), "trap", "setmaxnreg.dec to 48 registers"),
    (f"if (warp != 5) {set_registers('dec', 40)}", "barrier", "and warp 5 has not executed it"),
    (f"if (threadIdx.x % 32) {set_registers('dec', 40)}", "barrier", "setmaxnreg needs all 32 lanes"),
]


@pytest.mark.parametrize(("code", "kind", "message"), REGISTER_RULES)
def test_setmaxnreg(code, kind, message):
    launch = one_of([REGISTERS % other for other, *_ in REGISTER_RULES], REGISTERS % code)[1, 256]
    report = smemkit.check(launch, np.zeros(256, np.int32))
    assert {fault.kind for fault in report.faults} == ({kind} if kind else set()), report
    assert not kind or message in report.faults[0].message


CUTLASS = """
#include <cstdint>
#include "ptx/wgmma.cuh"
struct atom {
    static __device__ void fma(uint32_t const &a0, uint32_t const &a1, uint32_t const &a2, uint32_t const &a3,
                               uint64_t const &desc_b, float &d0, float &d1, float &d2, float &d3, int scale_D)
    {
        asm volatile(
            "{\\n.reg .pred p;\\nsetp.ne.b32 p, %9, 0;\\n"
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3},{%4, %5, %6, %7}, %8, p, "
            "%10, %11, %12;\\n}\\n"
            : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(desc_b), "r"(int32_t(scale_D)), "n"(int32_t(-1)),
              "n"(int32_t(1)), "n"(int32_t(0)));
    }
};
__global__ void k(const uint4 *image, const uint32_t *a, float4 *out)
{
    __shared__ alignas(128) uint4 s[16];
    uint32_t ar[4];
    float4 d;
    const int t = threadIdx.x;
    if (t < 16)
        s[t] = image[t];
    for (int i = 0; i < 4; i++)
        ar[i] = a[4 * t + i];
    ptx::fence_proxy_async();
    __syncthreads();
    const uint64_t b = (uint64_t)((uint32_t)__cvta_generic_to_shared(s) >> 4) | 8ull << 16 | 8ull << 32;
    ptx::wgmma_fence();
    for (int step = 0; step < 2; step++)
        atom::fma(ar[0], ar[1], ar[2], ar[3], b, d.x, d.y, d.z, d.w, step);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    out[t] = d;
}
"""


def test_as_cutlass_writes_it():
    """The first multiplication overwrites d, which is not set; the constants have the constraint n."""
    rng = np.random.default_rng(8)
    x, y = integers(rng, (64, 16), "bf16"), integers(rng, (8, 16), "bf16")
    right, out = Operand(y, 0, 0, 0), np.zeros((128, 4), np.float32)
    image = np.zeros(256, np.uint8)
    right.put(image)
    assert right.descriptor & 0x3FFF0000 == 8 << 16
    launch = kernel(CUTLASS.replace("\\\\", "\\"))[1, 128]
    arguments = image.view(np.uint32), a_registers(x), out
    launch(*arguments)
    assert_array_equal(out, fragments(-2 * (x.astype(np.float64) @ y.astype(np.float64).T), np.float32))
    report = smemkit.check(launch, *arguments)
    assert not report.faults, report


@pytest.mark.parametrize("read", ["__ldg(&d[i])", "atomicAdd(&d[i], 0.0f)"])
def test_accumulators_in_flight_are_seen_by_what_the_dialect_reads(read):
    source = (Path(__file__).parents[1] / "faulty/wgmma_no_wait.cu").read_text().replace("= d[i];", f"= {read};")
    x, y = np.zeros(512, np.int32), np.zeros(64, np.int32)
    report = smemkit.check(kernel(source)[1, 128], x, y, np.zeros(512, np.float32))
    assert any("before its wgmma.wait_group" in fault.message for fault in report.faults), report


ONES = """
#include <cuda_fp16.h>
#include <cstdint>

__device__ __attribute__((noinline)) void start(float (&d)[4], const __half *s)
{
    const uint64_t at = (__cvta_generic_to_shared(s) & 0x3FFFF) >> 4 | 1ull << 16 | 8ull << 32;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(at), "l"(at));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

__device__ __attribute__((noinline)) void start_and_return(const __half *s, volatile char *below)
{
    float d[4] = {};
    start(d, s);
    below[threadIdx.x] = 0;
}

__device__ __attribute__((noinline)) void far_down_the_stack(const __half *s)
{
    volatile char below[8192];
    start_and_return(s, below);
}

__global__ void ones(float *out, int waiting, int returns)
{
    __shared__ alignas(128) __half s[4096];
    float d[4] = {};
    for (int i = threadIdx.x; i < 4096; i += 128)
        s[i] = 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (returns)
        far_down_the_stack(s);
    else
        start(d, s);
    if (threadIdx.x >= waiting)
        return;
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int r = 0; r < 4; r++)
        out[threadIdx.x * 4 + r] = d[r];
}
"""


def test_a_warp_that_has_exited_has_no_accumulators():
    out = np.zeros((128, 4), np.float32)
    kernel(ONES)[1, 128](out, 96, 0)
    assert_array_equal(out[:96], 16)
    assert_array_equal(out[96:], 0)


def test_a_function_must_not_return_with_accumulators_in_use():
    with pytest.raises(smemkit.Error, match="has returned before a wait for it"):
        kernel(ONES)[1, 128](np.zeros((128, 4), np.float32), 128, 1)


@pytest.mark.parametrize("instruction", ["wgmma.fence", "wgmma.commit_group"])
@pytest.mark.parametrize("where", ["before a wait", "at the end", "at another line", "in half a warp"])
def test_launches_tell_lanes_that_lack_an_instruction(instruction, where):
    statement = f'asm volatile("{instruction}.sync.aligned;" ::: "memory");'
    assert ONES.count(statement) == 1
    some = f"if (threadIdx.x != 40)\n        {statement}"
    message = f"{instruction} needs all 32 lanes of the warp, and lanes 0 and 8 of warp 1 have not .* kernel.cu:"
    if where == "before a wait":
        text = ONES.replace(statement, some)
    elif where == "at another line":
        text = ONES.replace(statement, f"{some}\n    else\n        {statement}")
        message = message.replace(instruction, "wgmma.fence or wgmma.commit_group")
    else:  # behind all multiplications
        text = ONES.replace(statement, "")
        text = text.replace(
            "        start(d, s);\n    if", f"        start(d, s);\n    __syncthreads();\n    {some}\n    if"
        )
    threads, waiting = 128, 0 if where == "at the end" else 128
    if where == "in half a warp":
        text, threads = f"__global__ void half(float *out, int, int) {{ {statement} }}", 16
        message = f"{instruction} needs all 32 lanes of the warp, and the block has 16 threads"
    with pytest.raises(smemkit.Error, match=message):
        kernel(text)[1, threads](np.zeros((128, 4), np.float32), waiting, 0)
