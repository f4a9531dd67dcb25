"""Tensor copies and operands of wgmma on the CPU device do what a model after the documentation says."""

from functools import cache

import numpy as np
import pytest
from hopper_model import Operand, Tensor, accumulator_place, descriptor, loaded, operand_address, stored
from numpy.testing import assert_array_equal

import smemkit

ml_dtypes = pytest.importorskip("ml_dtypes")

COUNTS = [40, pytest.param(200, marks=pytest.mark.slow)]
REALS = [np.dtype(t) for t in (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)]
DTYPES = [np.dtype(f"{kind}int{bits}") for bits in (8, 16, 32, 64) for kind in ("", "u")]
DTYPES += [*REALS, np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)]

SHARED = 20480  # bytes of shared memory for a box and what is around it
COPIES = r"""
#include <cstdint>
#include <cuda.h>

__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// [rank, five coordinates with the innermost first, address, bytes]
__global__ void load(const __grid_constant__ CUtensorMap map, const int *how, unsigned char *shared)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    __shared__ uint64_t barrier;
    const int *c = how + 1;

    for (int i = threadIdx.x; i < SHARED; i += blockDim.x)
        bytes[i] = shared[i];
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&barrier)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned to = at(bytes) + how[6], from = at(&barrier);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(from), "r"(how[7]) : "memory");
        switch (how[0]) { LOADS }
    }
    for (int done = 0; !done;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at(&barrier)) : "memory");
    for (int i = threadIdx.x; i < SHARED; i += blockDim.x)
        shared[i] = bytes[i];
}

__global__ void store(const __grid_constant__ CUtensorMap map, const int *how, const unsigned char *shared)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    const int *c = how + 1;

    for (int i = threadIdx.x; i < SHARED; i += blockDim.x)
        bytes[i] = shared[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned from = at(bytes) + how[6];
        switch (how[0]) { STORES }
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""
LOAD = 'asm volatile("cp.async.bulk.tensor.{n}d.shared::cluster.global.mbarrier::complete_tx::bytes'
LOAD += ' [%0], [%1, {{{places}}}], [%2];" :: "r"(to), "l"(&map), "r"(from), {values} : "memory");'
STORE = 'asm volatile("cp.async.bulk.tensor.{n}d.global.shared::cta.bulk_group'
STORE += ' [%1, {{{places}}}], [%0];" :: "r"(from), "l"(&map), {values} : "memory");'


def by_rank(text, first):
    cases = []
    for n in range(1, 6):
        places = ", ".join(f"%{first + i}" for i in range(n))
        values = ", ".join(f'"r"(c[{i}])' for i in range(n))
        cases.append(f"case {n}: {text.format(n=n, places=places, values=values)} break;")
    return "\n".join(cases)


@cache
def copies():
    text = COPIES.replace("LOADS", by_rank(LOAD, 3)).replace("STORES", by_rank(STORE, 2))
    with smemkit.Device("cpu"):
        return smemkit.Kernel(text.replace("SHARED", str(SHARED)))


def box_bytes(box, steps, itemsize):
    return itemsize * int(np.prod([-(-size // step) for size, step in zip(box, steps, strict=True)]))


def reach(shape, strides):
    return sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def random_strides(rng, shape, itemsize, overlaps):
    """Strides within a packed array of that shape: of its axes in any order or, if it `overlaps`, often others."""
    order = [*rng.permutation(len(shape) - 1), len(shape) - 1]
    strides = np.zeros(len(shape), int)
    strides[order] = itemsize * np.cumprod([1, *[shape[axis] for axis in order[:0:-1]]])[::-1]
    while overlaps:
        others = np.array([*(16 * rng.integers(0, 40, len(shape) - 1)), itemsize])
        if reach(shape, others) <= reach(shape, strides):
            return others
        overlaps = rng.random() < 0.95
    return strides


def random_tensor(rng, rank, swizzle, itemsize, overlaps):
    unit = 16 // itemsize
    size = SHARED
    while size > SHARED - 4096:
        row = swizzle // itemsize or min(unit * rng.integers(1, 13), 256 // unit * unit)
        box = (*rng.integers(1, 9 if rank < 4 else 5, rank - 1), row)
        steps = (*rng.choice([1, 1, 1, 2, 3, 5, 8], rank - 1), 1)
        size = box_bytes(box, steps, itemsize)
    shape = [*rng.integers(1, 8, rank - 1), rng.integers(1, 2 * row + 1)]
    overlaps = overlaps and rank > 1 and rng.random() < 0.5
    if rank > 1 and not overlaps:
        shape[-1] = -(-shape[-1] // unit) * unit
    strides = random_strides(rng, shape, itemsize, overlaps)
    while any(stride % 16 for stride in strides[:-1]):
        shape[-1] += 1
        strides = random_strides(rng, shape, itemsize, overlaps)
    shape, strides, box, steps = (tuple(map(int, numbers)) for numbers in (shape, strides, box, steps))
    return Tensor(shape, strides, itemsize, box, steps, swizzle)


def random_coordinates(rng, tensor, lowest):
    unit = 16 // tensor.itemsize  # at which boxes may begin
    """The box has elements of the tensor in most cases; in others it is anywhere near."""
    far = rng.random() < 0.15
    low = [max(lowest, -size + (not far)) for size in tensor.box]
    first = [int(rng.integers(a, size + 4 * far)) for a, size in zip(low, tensor.shape, strict=True)]
    return (*first[:-1], first[-1] // unit * unit)


def random_copies(count, lowest):
    """Arrays of random bytes, maps, tensors, coordinates and addresses in shared memory."""
    rng = np.random.default_rng(1)
    for i in range(count):
        dtype, swizzle = DTYPES[i % len(DTYPES)], int(rng.choice([0, 32, 64, 128]))
        tensor = random_tensor(rng, 1 + i % 5, swizzle, dtype.itemsize, overlaps=lowest < 0)
        memory = rng.integers(0, 256, np.prod(tensor.shape) * dtype.itemsize, np.uint8)
        fill = "nan" if dtype in REALS and rng.random() < 0.7 else "zeros"
        map_ = smemkit.TensorMap(
            memory.view(dtype).reshape(tensor.shape),
            tensor.box,
            swizzle=swizzle,
            fill=fill,
            strides=tensor.strides,
            element_strides=tensor.element_strides,
        )
        start = 128 * int(rng.integers(0, 32))
        shared = rng.integers(0, 256, SHARED, np.uint8)
        yield memory, dtype, map_, fill, tensor, random_coordinates(rng, tensor, lowest), start, shared


def arguments(tensor, coordinates, start):
    inner_first = [*coordinates[::-1], 0, 0, 0, 0][:5]
    size = box_bytes(tensor.box, tensor.element_strides, tensor.itemsize)
    return np.array([len(tensor.box), *inner_first, start, size], np.int32)


@pytest.mark.parametrize("count", COUNTS)
def test_boxes_are_loaded(count):
    for memory, dtype, map_, fill, tensor, coordinates, start, shared in random_copies(count, lowest=-1000):
        expected, outside = loaded(shared, memory, tensor, coordinates, start)
        copies()["load"][1, 32, SHARED](map_, arguments(tensor, coordinates, start), shared)
        if fill == "nan":
            assert np.isnan(shared[outside].view(dtype).astype(float)).all(), (map_, coordinates, start)
            shared[outside] = 0
        assert_array_equal(shared, expected, f"{map_} from {coordinates} to {start}")


@pytest.mark.parametrize("count", COUNTS)
def test_boxes_are_stored(count):
    # CUDA programming guide: no coordinate is negative where a box is stored
    for memory, _, map_, _, tensor, coordinates, start, shared in random_copies(count, lowest=0):
        expected = stored(shared, memory, tensor, coordinates, start)
        copies()["store"][1, 32, SHARED](map_, arguments(tensor, coordinates, start), shared)
        assert_array_equal(memory, expected, f"{map_} to {coordinates} from {start}")


A, B = 32768, 65536  # bytes of shared memory for each operand
WIDEST = 192
PRODUCTS = r"""
#include <cstdint>

__device__ void copy(unsigned char *bytes, const int4 *image)
{
    for (int i = threadIdx.x; i < BYTES / 16; i += blockDim.x)
        ((int4 *)bytes)[i] = image[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
}

// a block for each product
__global__ void multiply(const int *which, const int4 *images, const uint64_t *operands, unsigned *products)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    const uint64_t base = (unsigned)__cvta_generic_to_shared(bytes) >> 4;
    const uint64_t a = operands[2 * blockIdx.x] + base, b = operands[2 * blockIdx.x + 1] + base;
    unsigned *d = products + (blockIdx.x * blockDim.x + threadIdx.x) * (WIDEST / 2);

    copy(bytes, images + blockIdx.x * (BYTES / 16));
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    switch (which[blockIdx.x]) { MULTIPLICATIONS }
}
"""
MULTIPLICATION = """
    {{
        {accumulator} x[{registers}] = {{}};
        asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k{k}.{to}.{name}.{name}"
                     " {{{places}}}, %{first}, %{second}, 1{rest};" : {values} : "l"(a), "l"(b));
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        memcpy(d, x, sizeof x);
        break;
    }}
"""
TYPES = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "tf32": np.dtype(np.float32),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
}
MAJORS = [(a, b) for a in ("k", "mn") for b in ("k", "mn")]
FORMS = [("f16", n, *majors) for n in (8, 24, 96, 192) for majors in MAJORS]
FORMS += [("bf16", n, *majors) for n in (16, 80) for majors in MAJORS]
FORMS += [(name, n, "k", "k") for name, n in (("tf32", 8), ("tf32", 96), ("e4m3", 24), ("e4m3", 128))]
FORMS += [(name, n, "k", "k") for name, n in (("s8", 24), ("s8", 192), ("u8", 8), ("u8", 96))]


def multiplication(name, n, a_major, b_major):
    registers = n // 2
    integers = name in ("s8", "u8")
    rest = "" if integers else ", 1, 1"
    if TYPES[name].itemsize == 2:
        rest += f", {int(a_major == 'mn')}, {int(b_major == 'mn')}"
    return MULTIPLICATION.format(
        accumulator="int" if integers else "float",
        registers=registers,
        n=n,
        k=32 // TYPES[name].itemsize,
        to="s32" if integers else "f32",
        name=name,
        places=", ".join(f"%{i}" for i in range(registers)),
        first=registers,
        second=registers + 1,
        rest=rest,
        values=", ".join(f'"+{"r" if integers else "f"}"(x[{i}])' for i in range(registers)),
    )


@cache
def products():
    cases = "".join(f"case {i}: {multiplication(*form)}" for i, form in enumerate(FORMS))
    text = PRODUCTS.replace("MULTIPLICATIONS", cases).replace("WIDEST", str(WIDEST)).replace("BYTES", str(A + B))
    with smemkit.Device("cpu"):
        return smemkit.Kernel(text)


def random_operand(rng, rows, itemsize, major, first, size):
    """An operand in bytes `first` to `first + size`, and the addresses of its elements, none of which overlap.

    Its pattern begins at a multiple of the pattern's size, but it may begin in the middle of the pattern's lines.
    """
    row, k = np.indices((rows, 32 // itemsize))
    while True:
        swizzle = int(rng.choice([0, 32, 64, 128]))
        unit = 8 * swizzle or 16
        leading, stride = (unit * int(2 ** rng.uniform(0, np.log2(size / unit))) for _ in range(2))
        start = first + unit * int(rng.integers(0, 4096 // unit))
        used = 32 if major == "k" else min(rows * itemsize, swizzle)
        if swizzle > used:
            start += 16 * int(rng.integers(0, (swizzle - used) // 16 + 1)) & (~31 if major == "k" else ~15)
        if swizzle and major == "k":
            leading = 16 * int(rng.integers(0, 1 << 14))  # it has no meaning
        operand = Operand(itemsize, start, leading, stride, swizzle, major)
        addresses = operand_address(operand, row, k)
        if addresses.max() + itemsize <= first + size and np.unique(addresses).size == addresses.size:
            return operand, addresses


def random_matrix(rng, name, rows):
    lowest = 0 if name == "u8" else -3
    return rng.integers(lowest, 5, (rows, 32 // TYPES[name].itemsize))


def put(image, addresses, matrix, dtype):
    image[addresses[..., None] + np.arange(dtype.itemsize)] = matrix.astype(dtype)[..., None].view(np.uint8)


@pytest.mark.parametrize("count", COUNTS)
def test_operands_are_found(count):
    rng = np.random.default_rng(2)
    which = np.concatenate([rng.permutation(len(FORMS)) for _ in range(-(-count // len(FORMS)))])[:count]
    images = rng.integers(0, 256, (count, A + B), np.uint8)
    descriptors = np.zeros((count, 2), np.uint64)
    expected, operands = [], []
    for i, form in enumerate(which):
        name, n, *majors = FORMS[form]
        dtype, matrices = TYPES[name], []
        for j, (rows, major, first, size) in enumerate(zip((64, n), majors, (0, A), (A, B), strict=True)):
            operand, addresses = random_operand(rng, rows, dtype.itemsize, major, first, size)
            matrices.append(random_matrix(rng, name, rows))
            put(images[i], addresses, matrices[j], dtype)
            descriptors[i, j] = descriptor(operand)
            operands.append(operand)
        expected.append(matrices[0] @ matrices[1].T)

    words = np.zeros((count, 128, WIDEST // 2), np.uint32)
    products()["multiply"][count, 128, A + B](which.astype(np.int32), images.view(np.int32), descriptors, words)
    for i, form in enumerate(which):
        name, n = FORMS[form][:2]
        d = np.zeros((64, n))
        values = words[i, :, : n // 2].view(np.int32 if name in ("s8", "u8") else np.float32)
        d[accumulator_place(*np.indices(values.shape))] = values
        assert_array_equal(d, expected[i], f"{FORMS[form]}: {operands[2 * i]}, {operands[2 * i + 1]}")


@pytest.mark.parametrize(("name", "major"), [("f16", "k"), ("tf32", "k"), ("s8", "k"), ("f16", "mn")])
@pytest.mark.parametrize("count", COUNTS)
def test_the_matrices_that_wgmma_reads_are_in_different_banks(name, major, count):
    """A tensor core reads 8 rows of 16 bytes at once; in every canonical layout, these are in all 32 banks."""
    rng, size = np.random.default_rng(3), TYPES[name].itemsize
    along = 16 // size
    for _ in range(count):
        operand, addresses = random_operand(rng, 64, size, major, 0, A)
        tall = addresses if major == "k" else addresses.T  # rows of 16 bytes that lie together
        for row in range(0, tall.shape[0], 8):
            for column in range(0, tall.shape[1], along):
                banks = tall[row : row + 8, column : column + along] // 4 % 32
                assert np.unique(banks).size == 32, operand
