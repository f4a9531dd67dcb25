"""Memory: a call releases what it allocates, also if it fails; and arrays of more than 2**31 elements."""

import functools
import gc
import itertools
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import integers, on, poison, run_python
from numpy.testing import assert_array_equal
from tiers import times

import smemkit
from smemkit import _core

X = integers((33, 33), np.float32)
CALLS = {  # with all kinds of memory: scratch, converted operands, batches
    "matmul": lambda x, **options: smemkit.matmul(x, x, **options),
    "matmul in float64": lambda x, **options: smemkit.matmul(x, x, dtype=np.float64, **options),
    "sum": lambda x, **options: smemkit.sum(x, block_size=32, **options),
    "sum of columns": lambda x, **options: smemkit.sum(x, axis=0, **options),
    "sum in float16": lambda x, **options: smemkit.sum(x, dtype=np.float16, **options),
    "argmax": lambda x, **options: smemkit.argmax(x, axis=1, **options),
    "var": lambda x, **options: smemkit.var(x, **options),
    "transpose": lambda x, **options: smemkit.transpose(x, **options),
    "identity permutation": lambda x, **options: smemkit.transpose(x, (0, 1), kernel="padded", **options),
    "add_one": lambda x, **options: smemkit.add_one(x, **options),
    "convert": lambda x, **options: smemkit.convert(x, np.int16, **options),
}
LAYOUTS = {  # the same numbers as NumPy arrays of several layouts, and as an Array
    "numpy": lambda device: X,
    "strided": lambda device: np.repeat(X, 2, axis=1)[:, ::2],
    "swapped": lambda device: X.astype(">f4"),
    "Array": lambda device: on(device, X),
}
OUTS = {
    "no out": lambda x, device, like: None,
    "out": lambda x, device, like: like if isinstance(x, np.ndarray) else on(device, like),
    "wider out": lambda x, device, like: OUTS["out"](x, device, like.astype(np.result_type(like, np.float64))),
}


@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.covering(1)
def test_failing_device_allocations_leak_nothing(device, name, layout, out):
    """The first allocation of a call fails, then the second, … until the call succeeds."""
    gc.collect()  # other tests' Arrays, which would be released at any time
    call, x = CALLS[name], LAYOUTS[layout](device)
    expected = smemkit.asnumpy(call(x, device=device))
    if out == "wider out" and name == "argmax":
        pytest.skip("indices are integers")
    target = OUTS[out](x, device, poison(expected.shape, expected.dtype))
    untouched = None if target is None else smemkit.asnumpy(target).copy()
    result = None
    for n in itertools.count(1):
        allocations = _core.allocations()
        _core.fail_allocation(n)
        try:
            result = call(x, device=device, out=target)
        except smemkit.OutOfMemoryError as error:
            assert "for a test" in str(error)
        assert _core.allocations() == allocations + (result is not None and target is None and layout == "Array")
        if left := _core.fail_allocation(0):
            break
        if target is not None and result is None:
            assert_array_equal(smemkit.asnumpy(target), untouched)
    assert left > 0
    assert n > 1 or layout == "Array"
    assert_array_equal(smemkit.asnumpy(result).astype(expected.dtype), expected)


NO_HOST_MEMORY_SCRIPT = """
import gc, itertools, operator, sys, _testcapi, numpy as np, smemkit
from smemkit import _core

x = np.arange(1089, dtype=np.float32).reshape(33, 33)
y, array, stream = x.copy(), smemkit.asarray(x, device="cpu"), smemkit.Stream(device="cpu")

get = operator.getitem

def in_parts(call, *arguments, **options):
    _core.set_part_bytes(64)
    try:
        return call(*arguments, **options, device="cpu")
    finally:
        _core.set_part_bytes(0)

calls = {
    "matmul": lambda: smemkit.matmul(x, x.T, device="cpu"),
    "sum": lambda: smemkit.sum(x, axis=(0, -1), initial=1, keepdims=True, device="cpu"),
    "mean": lambda: smemkit.mean(x.astype(">f4"), 1, device="cpu"),
    "transpose": lambda: smemkit.transpose(x, (1, 0), out=np.empty((33, 66), np.float32)[:, ::2], device="cpu"),
    "convert": lambda: smemkit.convert(x, "int8", device="cpu"),
    "asarray": lambda: smemkit.asarray(x[::2], dtype=np.float64, device="cpu").numpy(),
    "axis": lambda: smemkit.sum(x, axis=2, device="cpu"),
    "shape": lambda: smemkit.matmul(x, x[:3], device="cpu"),
    "view": lambda: getattr(get(getattr(get(array, np.s_[1:, ::-2]), "T"), np.s_[3:5, None]).reshape(-1, 2), "mT"),
    "elements": lambda: list(get(array, np.s_[:3])) + [array.item(3), float(array[1, 2]), bool(array[:1, :1])],
    "assignment": lambda: (array.__setitem__(0, 1), array.__setitem__((slice(None), 1), x[0]), array[2:3]),
    "add": lambda: (operator.add(array, 1), operator.add(array, array[0]), operator.matmul(array, array)),
    "arithmetic": lambda: (operator.truediv(array, 2), operator.neg(array), operator.mul(array, array[:, :1])),
    "other operators": lambda: (operator.lt(array, 3), operator.sub(2, array.T)),
    "methods": lambda: (array.sum(0), array.max(), array.transpose(), array[None].squeeze(), array[:2].fill(3)),
    "add in place": lambda: array[:2].__iadd__(array[2:4]),
    "numpy": lambda: (array[::2].T.numpy(), np.asarray(array), memoryview(array).release()),
    "copy": lambda: (array[::2].astype(np.int16), array.copy(), array.to("cpu")),
    "capsule": lambda: (array.__dlpack__(), array[:, 1].__dlpack__(max_version=(1, 1))),
    "from_dlpack": lambda: (smemkit.from_dlpack(array[::2]), smemkit.from_dlpack(x, device="cpu")),
    "to NumPy by DLPack": lambda: np.from_dlpack(array[1:]),
    "pickle": lambda: array[:, ::3].__reduce__(),  # not its values: NumPy does not survive failed allocations
    "stream": lambda: smemkit.Stream(device="cpu").__enter__().__exit__(None, None, None),
    "event": lambda: smemkit.Event(device="cpu").record(stream),
    "matmul in parts": lambda: in_parts(smemkit.matmul, x.repeat(3, 0), x.astype(">f4")),
    "sum in parts": lambda: in_parts(smemkit.sum, x, 1, out=np.empty(66, ">f8")[::2]),
    "transpose in parts": lambda: in_parts(smemkit.transpose, x.repeat(20, 1), out=np.empty((660, 33))[::-1]),
    "in place in parts": lambda: in_parts(smemkit.convert, y[::-1], out=y),
    "asarray in parts": lambda: in_parts(smemkit.asarray, x[::2], dtype=np.float64),
    "timed": lambda: smemkit.timed(smemkit.sum, x, device="cpu"),
    "statistics": lambda: smemkit.memory_stats("cpu"),
}
for name, call in calls.items():
    for _ in range(3):  # fills the caches
        try:
            call()
        except ValueError:
            pass
    allocations, successes_in_a_row = _core.allocations(), 0
    for n in itertools.count(1):
        failed = False
        for count in (1, 2):  # allocations that fail one after another
            _testcapi.set_nomemory(n - 1, n - 1 + count)
            try:
                call()
            except MemoryError:
                failed = True
            except ValueError:
                pass
            except SystemError as error:
                # CPython 3.11 may lose an exception for which it cannot make a frame, and then, with `count` 2,
                # cannot make this text. If a C function that is called loses one, the text names the function
                lost = "error return without exception set", "" if count == 2 else None
                if sys.version_info[:2] != (3, 11) or str(error) not in lost:
                    raise
                failed = True
            finally:
                _testcapi.remove_mem_hooks()
        if _core.allocations() != allocations:
            gc.collect()  # an exception's frames may hold an Array
        assert _core.allocations() == allocations, (name, n)
        successes_in_a_row = 0 if failed else successes_in_a_row + 1
        if successes_in_a_row == 20:
            break
    assert n > 20, (name, n)  # at least one has failed
print("all right")
"""


def test_failing_host_allocations_leak_nothing():
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi, which makes allocations fail")
    done = run_python("-c", NO_HOST_MEMORY_SCRIPT, timeout=300)
    assert done.stdout == "all right\n", done.stderr[-3000:]


def resident():
    """The bytes of this process's resident memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def refused(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except (TypeError, ValueError):
        return
    pytest.fail("not refused")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_thousands_of_calls_leak_nothing(device):
    x, array, out, wide = X, on(device, X), np.empty_like(X), X.astype(np.float64)
    rounds = [
        lambda: smemkit.matmul(x, x.T, device=device),
        lambda: smemkit.matmul(array, array),
        lambda: smemkit.matmul(x, wide, out=out, device=device),
        lambda: smemkit.sum(x, (0, 1), initial=3, device=device),
        lambda: smemkit.mean(x.astype(np.int8), 1, keepdims=True, device=device),
        lambda: smemkit.argmax(array, 0),
        lambda: smemkit.transpose(x[:, None], (1, 2, 0), device=device),
        lambda: smemkit.add_one(array, out=array),
        lambda: smemkit.convert(x[::-2], np.complex64, device=device),
        lambda: smemkit.asarray(x.T, dtype=">f4".replace(">", "<"), device=device).numpy(),
        lambda: refused(smemkit.matmul, x, x[:3], device=device),
        lambda: refused(smemkit.matmul, x, x, out=array, device=device),
        lambda: refused(smemkit.sum, x, 2, device=device),
        lambda: refused(smemkit.sum, x, dtype="M8", device=device),
        lambda: refused(smemkit.min, x[:0], initial="x", device=device),
        lambda: refused(smemkit.max, x[:0], device=device),
        lambda: refused(smemkit.transpose, x, (0, 0), device=device),
        lambda: refused(smemkit.convert, np.array(["a"]), device=device),
        lambda: refused(smemkit.add_one, x, out=x[:2], device=device),
        lambda: refused(smemkit.sum, x, kernel="nope", device=device),
    ]

    def state():
        gc.collect()
        references = [sys.getrefcount(thing) for thing in (x, array, out, wide, x.dtype, smemkit.Array)]
        return references, _core.allocations(), sys.getallocatedblocks(), resident()

    for call in rounds * 20:
        call()
    states = [state()]
    for _ in range(2):  # a leak shows in both halves, what earlier tests left and is freed meanwhile in one
        for _ in range(-(-times(5000, 2500) // len(rounds))):
            for call in rounds:
                call()
        states.append(state())
    (references, allocations, *_), *_, (references_after, allocations_after, *_) = states
    assert references_after == references
    assert allocations_after == allocations
    blocks, resident_bytes = ([one[i] for one in states] for i in (2, 3))
    assert min(abs(after - before) for before, after in itertools.pairwise(blocks)) < 100
    assert resident_bytes[-1] - resident_bytes[0] < 4 << 20


# ---- beyond 32 bits ---------------------------------------------------------------------------------------------

BIG = 2**31
gpu = pytest.mark.parametrize("device", [pytest.param("cuda:0", marks=pytest.mark.gpu)], indirect=True)


# Filling gigabytes of the host's memory takes longer than the kernels do: arrays are made once, converted on the
# device, and only the parts that are compared are downloaded.


@pytest.fixture(scope="module")
def bytes_of():
    """`bytes_of(n, below)`: a read-only array of n numbers of [0, below), without a short period."""

    @functools.cache
    def numbers(below):
        pattern = np.random.default_rng(0).integers(0, below, 1_000_003, np.uint8)
        x = np.resize(pattern, BIG + 2**16)  # enough for every shape below
        x.flags.writeable = False
        return x

    return lambda n, below=256: numbers(below)[:n]


@pytest.fixture(scope="module")
def matrix_and_transpose(bytes_of):
    """`matrix_and_transpose(shape)`: a matrix of bytes, and its transpose in C order; the last pair is cached."""

    @functools.lru_cache(maxsize=1)
    def matrices(shape):
        x = bytes_of(shape[0] * shape[1]).reshape(shape)
        return x, np.ascontiguousarray(x.T)

    return matrices


@pytest.mark.alone
@gpu
@pytest.mark.parametrize("n", [BIG - 1, BIG + 1])
def test_reductions_beyond_int32(device, bytes_of, n):
    x = np.minimum(bytes_of(n), 254)
    x[-1], x[n // 2] = 255, 7
    array = on(device, x)
    total = int(x.sum(dtype=np.uint64))
    assert smemkit.sum(array).item() == total
    assert smemkit.argmax(array).item() == n - 1
    assert smemkit.max(array).item() == 255
    assert smemkit.count_nonzero(array).item() == np.count_nonzero(x)
    assert abs(smemkit.mean(array).item() - total / n) <= 1e-12 * total / n
    assert smemkit.sum(array, kernel="tree", block_size=1024).item() == total


@pytest.mark.alone
@gpu
@pytest.mark.parametrize("shape", [(2, BIG // 2 + 1), (BIG // 2 + 1, 2), (46_341, 46_341)], ids=str)
def test_reductions_along_an_axis_beyond_int32(device, bytes_of, shape):
    x = bytes_of(shape[0] * shape[1]).reshape(shape)
    array = on(device, x)
    columns, rows = (smemkit.max(array, axis).numpy() for axis in (0, 1))
    for column in (0, -1):
        assert columns[column] == x[:, column].max()
    for part in (slice(0, 1000), slice(-1000, None)):
        assert_array_equal(rows[part], x[part].max(1))


@pytest.mark.alone
@gpu
@pytest.mark.parametrize(
    "row",
    [row for row in smemkit.kernels("transpose") if row.needs != "host" and row.name != "in_place"],
    ids=lambda r: r.name,
)
@pytest.mark.parametrize("shape", [(46_341, 46_341), (3, 715_827_883)], ids=str)
def test_transposes_beyond_int32(device, matrix_and_transpose, shape, row):
    x, transposed = matrix_and_transpose(shape)
    result = smemkit.transpose(on(device, x), kernel=row.name).numpy()
    assert np.array_equal(result, x if row.role == "ceiling" else transposed)


products_kernels = pytest.mark.parametrize(
    "row", [row for row in smemkit.kernels("matmul") if row.needs != "host"], ids=lambda r: r.name
)


def dtype_for(row):
    """The smallest dtype that the kernel takes."""
    return np.dtype(next(d for d in ("uint8", "float16", "float32", "float64") if d in row.dtypes))


@pytest.mark.alone
@gpu
@products_kernels
def test_products_beyond_int32(device, bytes_of, row):
    dtype = dtype_for(row)
    # a, c, and copies with as many bytes; or 15 residues of each number
    needed = 120 << 30 if row.name == "wgmma_residues" else 4 * dtype.itemsize * BIG
    if smemkit.Device(device).memory_bytes < needed:
        pytest.skip(f"needs {needed >> 30} GiB")
    below = 5 if dtype == np.float16 else 256  # so that the products are exact

    def of_kernel(x):
        return on(device, x).astype(dtype)

    long = bytes_of(3 * (BIG // 3 + 7), below).reshape(-1, 3)  # for a, and as large as c
    b = bytes_of(9, below).reshape(3, 3).astype(dtype)
    result = smemkit.matmul(of_kernel(long), on(device, b), kernel=row.name)
    for part in (slice(0, 1000), slice(-1000, None)):
        assert_array_equal(result[part].numpy(), long[part].astype(dtype) @ b)
    del result
    m, k = (128, 128) if row.needs == "sm_90a" else (2, 4)  # these copy whole tiles, or compute them
    batch = bytes_of(BIG + m * k, below).reshape(-1, m, k)
    b = np.tile(b, (k // 2, m // 2))[:k, :m]
    result = smemkit.matmul(of_kernel(batch), on(device, b), kernel=row.name)
    assert_array_equal(result[-3:].numpy(), batch[-3:].astype(dtype) @ b)


@pytest.mark.alone
@gpu
@pytest.mark.slow  # one block, or one thread, computes the whole sum
@products_kernels
def test_inner_products_beyond_int32(device, row):
    x = np.zeros(BIG + 1, np.uint8)
    x[:: 2**24 + 1] = 1  # few enough for uint8
    x[-1] = 1
    array = on(device, x).astype(dtype_for(row))
    if row.name.startswith(("wgmma_s", "wgmma_l", "dmma_")) and row.role == "production":
        with pytest.raises(ValueError, match=f"kernel '{row.name}' .* kernel=None"):
            smemkit.matmul(array, array, kernel=row.name)
        return
    assert smemkit.matmul(array, array, kernel=row.name).item() == np.count_nonzero(x)


@pytest.mark.alone
@gpu
def test_first_kernels_beyond_int32(device, bytes_of):
    x = bytes_of(BIG + 1)
    array = on(device, x)
    assert np.array_equal(smemkit.add_one(array).numpy(), x + np.uint8(1))
    for row in smemkit.kernels("reverse"):
        assert np.array_equal(smemkit.reverse(array, kernel=row.name).numpy(), x[::-1])


@gpu
def test_offsets_beyond_four_gigabytes(device):
    x = np.random.default_rng(0).integers(-100, 100, (2**15 + 1, 2**15), np.int16).astype(np.float64)  # 8 GiB
    view = x[:, ::-2]
    assert_array_equal(smemkit.sum(view, axis=1, device=device)[-5:], view[-5:].sum(1))
    assert_array_equal(smemkit.convert(view, np.int8, device=device)[-5:], view[-5:].astype(np.int8))
    assert_array_equal(smemkit.transpose(view, device=device)[:, -5:], view[-5:].T)
    assert_array_equal(smemkit.argmax(view, axis=1, device=device)[-5:], view[-5:].argmax(1))


@pytest.mark.alone
@gpu
def test_a_full_device_raises_and_the_next_small_call_works(device):
    quarter = smemkit.Device(device).free_bytes // 4
    kept = [smemkit.empty(quarter, np.uint8, device=device) for _ in range(3)]
    before = _core.allocations()
    with pytest.raises(
        smemkit.OutOfMemoryError, match=rf"out of memory on {re.escape(device)}: {2 * quarter} bytes"
    ):
        smemkit.convert(kept[0], np.int16)
    assert _core.allocations() == before
    assert smemkit.sum(X, device=device) == X.sum()
    del kept[:]
    assert smemkit.empty(3 * quarter, np.uint8, device=device).nbytes == 3 * quarter  # freed blocks are merged
