"""Repeated small calls: what the launch cache may reuse, and what must be separate for each call."""

import threading

import numpy as np
import pytest
from cases import in_threads, integers, on, poison
from numpy.testing import assert_array_equal

import smemkit

on_gpu = pytest.mark.parametrize("device", [pytest.param("cuda:0", marks=pytest.mark.gpu)], indirect=True)
REPEATS = 40


def empty(device, shape, dtype="float32"):
    return on(device, poison(shape, dtype))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("n", [1, 16, 33, 70])
def test_cached_launches_use_their_own_operands(device, n, dtype):
    """All calls are made before any result is read."""
    a, b = ([integers((n, n), dtype, seed=seed + i) for i in range(REPEATS)] for seed in (0, 100))
    arrays = [(on(device, x), on(device, y)) for x, y in zip(a, b, strict=True)]
    products, transposed = ([empty(device, (n, n), dtype) for _ in a] for _ in range(2))
    sums = [empty(device, (), dtype) for _ in a]
    for _ in range(2):
        for (x, y), product, other, total in zip(arrays, products, transposed, sums, strict=True):
            smemkit.matmul(x, y, out=product)
            smemkit.transpose(x, out=other)
            smemkit.sum(y, out=total)
    for x, y, product, other, total in zip(a, b, products, transposed, sums, strict=True):
        assert_array_equal(product.numpy(), x @ y)
        assert_array_equal(other.numpy(), x.T)
        assert_array_equal(total.numpy(), y.sum(dtype=dtype))


@pytest.mark.parametrize("n", [16, 300])
@pytest.mark.covering(most=1)
def test_dependent_small_and_large_launches(device, n):
    """Small launches among large ones; each needs the result of the one before."""
    shift = np.roll(np.eye(n, dtype=np.float32), 1, axis=0)
    x, rows = on(device, integers((n, n), "float32")), empty(device, (n,))
    y, a, expected = empty(device, (n, n)), on(device, shift), x.numpy()
    for _ in range(REPEATS):
        smemkit.matmul(a, x, out=y)
        smemkit.transpose(y, out=x)
        expected = (shift @ expected).T
        smemkit.sum(x, 1, out=rows)
    assert_array_equal(x.numpy(), expected)
    assert_array_equal(rows.numpy(), expected.sum(1))


def test_alternating_shapes(device):
    """The same kernels, with grids and arguments that differ from call to call."""
    shapes = [(m, n) for m in (1, 3, 16, 40, 200) for n in (1, 5, 31, 130)]
    hosts = [integers(shape, "float32", seed=i) for i, shape in enumerate(shapes)]
    arrays = [(on(device, x), empty(device, x.shape[::-1]), empty(device, x.shape[1])) for x in hosts]
    for _ in range(3):
        for x, transposed, sums in arrays:
            smemkit.transpose(x, out=transposed)
            smemkit.sum(x, 0, out=sums)
    for host, (_, transposed, sums) in zip(hosts, arrays, strict=True):
        assert_array_equal(transposed.numpy(), host.T)
        assert_array_equal(sums.numpy(), host.sum(0))


def test_threads_at_once(device):
    hosts = [[integers((20, 20), "float32", seed=10 * t + i) for i in range(10)] for t in range(4)]
    arrays = [[(on(device, x), empty(device, x.shape), empty(device, ())) for x in row] for row in hosts]

    def work(i):
        for _ in range(REPEATS):
            for x, product, total in arrays[i]:
                smemkit.matmul(x, x, out=product)
                smemkit.sum(product, out=total)

    in_threads(len(arrays), work)
    for row, done in zip(hosts, arrays, strict=True):
        for x, (_, product, total) in zip(row, done, strict=True):
            assert_array_equal(product.numpy(), x @ x)
            assert float(total) == (x @ x).sum()


@on_gpu
def test_calls_queued_behind_long_work(device):
    """No call's kernel has started when the last call is made."""
    big = on(device, integers((4096, 4096), "float32"))
    product = smemkit.empty((4096, 4096), "float32", device=device)
    xs = [on(device, np.full(16, i, np.float32)) for i in range(300)]
    outs = [empty(device, ()) for _ in xs]
    smemkit.sum(xs[0], out=outs[0])
    for _ in range(5):
        smemkit.matmul(big, big, out=product)
    for x, out in zip(xs, outs, strict=True):
        smemkit.sum(x, out=out)
    assert [float(out) for out in outs] == [16.0 * i for i in range(300)]


@on_gpu
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize(("dtype", "before"), [("uint8", 0), ("int16", 0), ("complex64", 1), ("float32", 1)])
def test_calls_during_another_threads_capture(device, dtype, before, mode):
    """The first call of a kernel, or one after `before` others: neither ends the capture."""
    torch = pytest.importorskip("torch")
    x, out = on(device, integers((5, 7), dtype)), empty(device, (7, 5), dtype)
    for _ in range(before):
        smemkit.transpose(on(device, integers((6, 7), dtype)), out=empty(device, (7, 6), dtype))
    graph, ones = torch.cuda.CUDAGraph(), torch.ones(8, device="cuda")
    failures = []

    def work():
        try:
            smemkit.transpose(x, out=out)
        except Exception as error:
            failures.append(error)

    with torch.cuda.graph(graph, capture_error_mode=mode):
        twos = ones + 1
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    graph.replay()
    assert not failures
    assert twos.tolist() == [2] * 8
    assert_array_equal(out.numpy(), x.numpy().T)
