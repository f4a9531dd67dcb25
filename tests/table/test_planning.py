"""plan(): the launches that it reports, compared with those of the call."""

import threading

import numpy as np
import pytest
from cases import expect_launches, numbered, on, parts_of, poison
from numpy.testing import assert_array_equal

import smemkit
from smemkit import _core

X = numbered((70, 90), "float32")
CALLS = {
    "matmul": lambda **kw: ("matmul", (X, X.T), kw),
    "a batch": lambda **kw: ("matmul", (X.reshape(3, 1, 21, 100), X.reshape(3, 100, 21)), kw),
    "mixed dtypes": lambda **kw: ("matmul", (X, X.T.astype(">f8")), kw),
    "sum of all": lambda **kw: (smemkit.sum, (X.repeat(30, 0),), kw),
    "sum of columns": lambda **kw: (smemkit.sum, (X, 0), kw),
    "tree": lambda **kw: (smemkit.sum, (X, 1), {"block_size": 32, **kw}),
    "var": lambda **kw: ("var", (X[::2, ::-1], (0, 1)), kw),
    "argmax": lambda **kw: ("reduce", (X, "argmax", 1), {"kernel": "rowwise", **kw}),
    "transpose": lambda **kw: ("transpose", (X,), kw),
    "permutation": lambda **kw: ("transpose", (X.reshape(7, 10, 90), (1, 0, 2)), kw),
    "identity permutation": lambda **kw: ("transpose", (X, (0, 1)), kw),
    "convert": lambda **kw: ("convert", (X[:, ::-2], "int8"), kw),
    "reverse": lambda **kw: ("reverse", (X.ravel(),), kw),
    "add_one": lambda **kw: ("add_one", (X,), kw),
    "sequential": lambda **kw: ("sum", (X,), {**kw, "kernel": "sequential", "device": "cpu"}),
    "no elements": lambda **kw: ("sum", (X[:0],), kw),
}


def launches_of(plan):
    return sum(launch.times for launch in plan.launches)


@pytest.mark.parametrize("n", [0, 1000])
@pytest.mark.parametrize("name", CALLS)
def test_plan_has_the_launches_of_the_call(device, name, n):
    op, args, kw = CALLS[name](device=device)
    before = _core.allocations()
    with parts_of(n):
        with expect_launches(0):
            plan = smemkit.plan(op, *args, **kw)
        assert _core.allocations() == before
        with expect_launches(launches_of(plan)):
            (getattr(smemkit, op) if isinstance(op, str) else op)(*args, **kw)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (CALLS["matmul"](kernel="tiled"), ["convert strided", "matmul tiled, tile 32, precision highest"]),
        (("matmul", (X, X[:9].T.copy()), {"tile": 8}), ["matmul tiled, tile 8, precision highest"]),
        (CALLS["sum of all"](), ["reduce rows"]),
        (CALLS["sum of columns"](), ["reduce small_columns"]),
        (("sum", (np.ones((40_000, 3), np.int32), 1), {}), ["reduce rowwise"]),
        (("sum", (np.ones((30_000, 3), np.int32), 1), {}), ["reduce small_columns"]),
        (("sum", (np.ones((30_000, 3), np.float32), 1), {}), ["reduce rows"]),
        (("sum", (np.ones((70_000, 2), np.int64), 1), {}), ["reduce rows"]),
        (("sum", (np.ones((70_000, 2), np.int32), 1), {}), ["reduce rowwise"]),
        (("sum", (np.ones((9000, 2), np.float16), 1), {}), ["reduce rows"]),
        (("sum", (np.ones((8000, 2), np.float16), 1), {}), ["reduce small_columns"]),
        (("var", (np.zeros((5000, 301), np.float32), 1), {}), ["reduce rows"]),
        (("sum", (np.zeros((5000, 301), np.float32), 1), {}), ["reduce small_columns"]),
        (("sum", (np.zeros((5000, 301), np.float16), 1), {}), ["reduce rows"]),
        (("sum", (np.zeros((200_000, 30, 3), np.int8), 1), {}), ["reduce small_columns"]),
        (("sum", (np.zeros((250_000, 30, 10), np.int8), 1), {}), ["reduce columns"]),
        (CALLS["tree"](), ["reduce tree, block_size 32"]),
        (CALLS["argmax"](), ["reduce rowwise"]),
        (CALLS["transpose"](), ["transpose tiles"]),
        (("transpose", (X,), {"pad": 2}), ["transpose padded, tile 32, pad 2"]),
        (CALLS["identity permutation"](), ["transpose small"]),
        (CALLS["no elements"](), ["no launch"]),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_plan_str(device, call, expected):
    op, args, kw = call
    with parts_of(1 << 30):  # the whole call in one part
        assert str(smemkit.plan(op, *args, device=device, **kw)).splitlines() == expected


def test_arrays_of_the_device(device):
    x, out = on(device, X), on(device, poison((90, 70), "float32"))
    with expect_launches(0):
        plan = smemkit.plan("transpose", x, out=out)
    assert plan.kernels == ("tiles",)
    assert_array_equal(out.numpy(), poison((90, 70), "float32"))
    smemkit.transpose(x, out=out)  # the dry run must not count as an earlier launch
    assert_array_equal(out.numpy(), X.T)
    assert_array_equal(smemkit.sum(x, 0).numpy(), X.sum(0))


@pytest.mark.parametrize("shape", [(90, 70), (180, 140)], ids=["plain", "with gaps"])
@pytest.mark.parametrize("n", [0, 64])
def test_plan_does_not_write_out(device, shape, n):
    whole = poison(shape, "float32")
    out = whole[:: shape[0] // 90, :: shape[1] // 70]
    with parts_of(n):
        smemkit.plan("transpose", X, out=out, device=device)
        smemkit.plan("sum", X[:0], 0, out=out[0, :1].repeat(90), device=device)
    assert_array_equal(whole, poison(shape, "float32"))


def test_plan_raises_like_the_operation(device):
    with pytest.raises(ValueError, match=r"^x1, x2: expected shapes"):
        smemkit.plan("matmul", X, X, device=device)
    with expect_launches(1):  # later calls do launch
        assert smemkit.sum(np.ones(5, np.float32), device=device) == 5


def test_plan_ignores_other_threads(device):
    results = []

    def sum_in_another_thread():
        thread = threading.Thread(
            target=lambda: results.append(smemkit.sum(np.ones(5, np.float32), device=device))
        )
        thread.start()
        thread.join()

    with expect_launches(1):
        assert smemkit.plan(sum_in_another_thread).launches == ()
    assert results == [5]


def test_plan_rejects_unknown_operations():
    with pytest.raises(ValueError, match=r"^op: expected one of add_one, .*, var, got 'sums'"):
        smemkit.plan("sums", X)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_plan_reports_the_precision(device, precision):
    plan = smemkit.plan("matmul", X, X.T.copy(), precision=precision, device=device)
    assert plan.precision == plan.launches[0].precision == "highest"  # no kernel has a lower precision
    assert ", precision highest" in str(plan)
    expected = X.astype(np.float64) @ X.T.astype(np.float64)
    result = smemkit.matmul(X, X.T.copy(), precision=precision, device=device)
    assert np.all(np.abs(result - expected) <= (X.shape[1] + 2) * 2.0**-24 * (np.abs(X) @ np.abs(X).T))


@pytest.mark.parametrize("dtype", ["float64", "int32", "float16", "complex64"])
def test_precision_concerns_float32_alone(device, dtype):
    plan = smemkit.plan("matmul", X.astype(dtype), X.T.astype(dtype), device=device)
    assert plan.precision is None
    assert "precision" not in str(plan)
    assert smemkit.plan("sum", X, device=device).precision is None
