"""smemkit.dask compared with the plain operations: chunks of NumPy and of Array, on Dask's own schedulers."""

import contextlib
import copy
import pickle
import re
import threading
import time
import warnings
import weakref

import numpy as np
import pytest
from cases import ROOT, on
from tiers import times

pytest.importorskip("dask.array", reason="smemkit.dask needs Dask")

import dask
import dask.array as da
from dask.base import tokenize
from dask.sizeof import sizeof

import smemkit
import smemkit.dask as chunked
from smemkit import _core
from smemkit.dask.matmul import _turn

REDUCTIONS = [name for name in chunked.__all__ if name not in ("matmul", "reduce", "transpose")]
ROUNDINGS = {"float16": 2**-10, "float32": 2**-22, "complex64": 2**-21}  # relative
KINDS = pytest.mark.parametrize("kind", ["numpy", "smemkit"])


@pytest.fixture(autouse=True)
def two_threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


def random_array(random, dtype, shape):
    kind = np.dtype(dtype).kind
    low, high = (0, 2) if kind == "b" else (0, 10) if kind == "u" else (-9, 10)
    return random.integers(low, high, shape).astype(dtype)


def random_chunks(random, shape):
    return tuple(int(random.integers(1, n + 1)) if n else 0 for n in shape)


def as_chunks(x, chunks, kind, device="cpu"):
    """`x` as an array of Dask, whose chunks are of this kind."""
    array = da.from_array(x, chunks=chunks)
    if kind == "numpy":
        return array
    meta = smemkit.empty((0,) * x.ndim, x.dtype, device="cpu")
    return array.map_blocks(smemkit.asarray, device=device, dtype=x.dtype, meta=meta)


def compute(lazy, kind):
    """The result as NumPy's array; checks that it is what Dask expects."""
    result = lazy.compute()
    assert isinstance(result, smemkit.Array) == (kind == "smemkit")
    assert isinstance(lazy._meta, smemkit.Array) == (kind == "smemkit")
    result = result.numpy() if kind == "smemkit" else np.asarray(result)
    assert (lazy.dtype, lazy.shape) == (result.dtype, result.shape)
    return result


def raising(shape=(6, 4), chunks=2, dtype="float32"):
    """An array of Dask that fails when a chunk is computed."""

    def fail(chunk, block_info=None):
        raise AssertionError("a chunk was touched")

    return da.ones(shape, chunks=chunks, dtype=dtype).map_blocks(fail, dtype=dtype, meta=np.empty((0, 0), dtype))


# ---- results ----------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_on_random_arrays(device, op, kind):
    random = np.random.default_rng(sum(map(ord, op)))
    dtypes = ("float32", "float64", "int8", "uint16", "bool", "complex64", "float16")
    for dtype in times(dtypes, [dtypes[(REDUCTIONS.index(op) + (kind == "numpy") * 3) % len(dtypes)]]):
        shape = tuple(random.integers(1, 8, random.integers(1, 4)).tolist())
        x = random_array(random, dtype, shape)
        lazy = as_chunks(x, random_chunks(random, shape), kind, device)
        for axis in (None, int(random.integers(len(shape))), (0, -1) if len(shape) > 1 else (0,)):
            if op.startswith("arg") and isinstance(axis, tuple):
                continue
            keepdims = bool(random.integers(2))
            options = {} if kind == "smemkit" else {"device": device}
            result = compute(getattr(chunked, op)(lazy, axis, keepdims=keepdims, **options), kind)
            expected = np.asarray(smemkit.reduce(x, op, axis, keepdims=keepdims, device="cpu"))
            tolerance = ROUNDINGS.get(dtype, 2**-50) if op in ("mean", "var", "std", "prod") else 0
            assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


@KINDS
def test_products_of_random_arrays(device, kind):
    random = np.random.default_rng(5)
    dtypes = ("float32", "int8", "complex64", "float16", "bool", "bfloat16", "float64")
    for dtype in times(dtypes, dtypes[kind == "numpy" :: 2]):
        m, k, n, b = (int(i) for i in random.integers(2, 9, 4))
        shapes = (((m, k), (k, n)), ((b, m, k), (k, n)), ((k,), (1, k, n)), ((b, m, k), (k,)), ((k,), (k,)))
        for first, second in shapes:
            x, y = random_array(random, dtype, first), random_array(random, dtype, second)
            lazy = [as_chunks(v, random_chunks(random, v.shape), kind, device) for v in (x, y)]
            options = {} if kind == "smemkit" else {"device": device}
            result = compute(chunked.matmul(*lazy, **options), kind)
            np.testing.assert_array_equal(result, np.asarray(smemkit.matmul(x, y, device="cpu")), strict=True)


@KINDS
def test_transposes_of_random_arrays(device, kind):
    random = np.random.default_rng(6)
    for axes in (None, (1, 0, 2), (2, -3, 1), (0, 1, 2)):
        x = random_array(random, "int16", (5, 4, 6))
        lazy = as_chunks(x, random_chunks(random, x.shape), kind, device)
        result = compute(chunked.transpose(lazy, axes, **({} if kind == "smemkit" else {"device": device})), kind)
        np.testing.assert_array_equal(result, x.transpose(axes), strict=True)


def test_keywords_are_those_of_the_plain_operations(device):
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    lazy, on_device = da.from_array(x, chunks=(2, 3)), {"device": device}
    for op, options in (
        ("sum", {"dtype": "float32", "initial": 5}),
        ("sum", {"dtype": "int8"}),
        ("sum", {"dtype": bool}),
        ("sum", {"kernel": "tree", "block_size": 64}),
        ("prod", {"initial": 2, "axis": 1}),
        ("min", {"initial": -3}),
        ("max", {"initial": 99, "axis": 0}),
        ("mean", {"dtype": "float32", "axis": 1}),
        ("var", {"ddof": 2, "axis": 1}),
        ("std", {"ddof": 1, "dtype": "float32"}),
        ("sum", {"split_every": 2}),
    ):
        result = getattr(chunked, op)(lazy, **options, **on_device).compute()
        options.pop("split_every", None)
        expected = getattr(smemkit, op)(x, **options, **on_device)
        assert np.asarray(result).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    y = lazy.astype("int8")
    assert chunked.matmul(y, y.T, dtype="int32", **on_device).dtype == np.int32
    wide = chunked.matmul(y, y.T, dtype="int32", split_every=2, **on_device).compute()
    np.testing.assert_array_equal(wide, x @ x.T, strict=True)
    np.testing.assert_array_equal(
        chunked.matmul(lazy, lazy.T, tile=8, **on_device).compute(), x @ x.T, strict=True
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", ["sum", "mean", "var"])
def test_elements_are_cast_before_they_are_added(device, op):
    x = np.array([1e5, -1e5, 1, 2], np.float32)  # infinite in float16
    result = getattr(chunked, op)(da.from_array(x, chunks=2), dtype=np.float16, device=device).compute()
    expected = getattr(smemkit, op)(x, dtype=np.float16, device=device)
    assert np.isnan(expected)
    np.testing.assert_array_equal(result, expected, strict=True)
    y = np.array([0.6, 0.6, 1.6, 2.6])
    assert chunked.sum(da.from_array(y, chunks=2), dtype=np.int32, device=device).compute() == 3


# ---- accuracy ---------------------------------------------------------------------------------------------------


def test_variances_have_the_accuracy_of_the_plain_operation(device):
    random = np.random.default_rng(7)
    x = (1e4 + 1e-2 * random.standard_normal((64, 900))).astype(np.float32)  # cancellation, unless means are exact
    exact = x.astype(np.float64)
    lazy = da.from_array(x, chunks=(10, 77))
    for op in ("mean", "var", "std"):
        expected = getattr(exact, op)()
        result = float(getattr(chunked, op)(lazy, device=device).compute())
        assert abs(result - expected) <= 2**-24 * 1.5 * abs(expected)
    z = x + 1j * x[::-1]
    assert float(chunked.var(da.from_array(z, chunks=(10, 77)), device=device).compute()) == pytest.approx(
        float(z.astype(complex).var()), rel=1e-6
    )


def test_sums_have_the_accuracy_of_the_plain_operation(device):
    x = np.random.default_rng(8).standard_normal(40_000).astype(np.float32)
    exact, size = x.astype(np.longdouble).sum(), np.abs(x).sum(dtype=float)
    result = chunked.sum(da.from_array(x, chunks=999), device=device).compute()
    assert abs(float(result) - exact) <= 0.5 * np.spacing(abs(np.float32(exact))) + x.size * 2**-53 * size
    half = np.full(3000, 60, np.float16)  # partial sums exceed float16, their difference does not
    both = np.concatenate([half, -half])
    assert chunked.sum(da.from_array(both, chunks=2000), device=device).compute() == 0


def test_products_of_half_precision_are_rounded_once(device):
    random = np.random.default_rng(9)
    x, y = (random.standard_normal((8, 200)).astype(np.float16) for _ in range(2))
    result = chunked.matmul(da.from_array(x, chunks=(8, 10)), da.from_array(y.T, chunks=(10, 8)), device=device)
    exact = x.astype(float) @ y.T.astype(float)
    bound = 2**-11 * np.abs(exact) + 201 * 2**-24 * (np.abs(x).astype(float) @ np.abs(y.T).astype(float)) + 2**-25
    assert (np.abs(result.compute() - exact) <= bound).all()


@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_the_first_index_wins(device, op):
    x = np.zeros((6, 9), np.float32)
    for chunks in ((6, 1), (1, 9), (2, 4), (4, 2)):
        for values in (x, np.where(np.arange(54).reshape(6, 9) % 7 == 5, np.nan, x), -x):
            for axis in (None, 0, 1):
                result = getattr(chunked, op)(da.from_array(values, chunks=chunks), axis, device=device)
                np.testing.assert_array_equal(result.compute(), getattr(np, op)(values, axis))


# ---- laziness, errors, empty chunks -----------------------------------------------------------------------------


def test_nothing_is_touched_before_it_is_computed():
    x = raising()
    results = [chunked.matmul(x, x.T), chunked.transpose(x), *(getattr(chunked, op)(x) for op in REDUCTIONS)]
    for result in results:
        with pytest.raises(AssertionError, match="a chunk was touched"):
            result.compute()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: chunked.sum(np.ones(3)),
            TypeError,
            r"x: expected a dask.array.Array, got ndarray; dask.array.from_",
        ),
        (lambda x: chunked.matmul(x, np.ones(3)), TypeError, "x2: expected a dask.array.Array, got ndarray"),
        (lambda x: chunked.matmul(x, x), ValueError, r"x1, x2: expected shapes .*, got \(6, 4\) and \(6, 4\)"),
        (lambda x: chunked.matmul(x, x.T, kernel="nope"), ValueError, "kernel: expected"),
        (lambda x: chunked.sum(x, 2), np.exceptions.AxisError, "axis 2 is out of bounds"),
        (lambda x: chunked.argmin(x, (0, 1)), TypeError, "axis: expected None or an integer"),
        (lambda x: chunked.reduce(x, "median"), ValueError, "op: expected 'sum'"),
        (lambda x: chunked.any(x, dtype=bool), TypeError, "dtype: "),
        (lambda x: chunked.transpose(x, (0, 0)), ValueError, "axes: "),
        (lambda x: chunked.sum(x, out=np.empty(())), TypeError, "unexpected keyword argument 'out'"),
        (lambda x: chunked.max(x[:0]), ValueError, "x: expected at least one element for 'max'"),
        (lambda x: chunked.argmax(x[x > 0]), ValueError, "x: expected known lengths of chunks"),
    ],
)
def test_wrong_arguments_raise_at_once(call, error, message):
    with pytest.raises(error, match=message):
        call(raising())


def test_errors_of_tasks_keep_their_types():
    x = da.ones((4, 4), chunks=2)
    with pytest.raises(smemkit.NoDeviceError, match="cuda:99"):
        chunked.sum(x, device="cuda:99").compute()
    with pytest.raises(TypeError, match="operands: expected all NumPy arrays or all arrays on one device"):
        chunked.matmul(x, as_chunks(np.ones((4, 4)), 2, "smemkit")).compute()


def test_empty_chunks_count_nothing(device):
    x = np.arange(12, dtype=np.float32)
    lazy = da.from_array(x, chunks=3)
    for op in REDUCTIONS:
        masked = lazy[lazy > 6]
        masked.compute_chunk_sizes()
        assert 0 in masked.chunks[0]
        result = getattr(chunked, op)(masked, device=device).compute()
        assert result == pytest.approx(getattr(np, op)(x[x > 6]))


def test_warnings_are_those_of_the_plain_operation(device):
    x = da.ones((3, 0), chunks=3)
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        result = chunked.mean(x, 1, device=device)
    assert np.isnan(result.compute()).all()
    with pytest.warns(RuntimeWarning, match="Degrees of freedom <= 0"):
        result = chunked.var(da.ones(3, chunks=2), ddof=3, device=device)
    assert np.isnan(result.compute())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chunked.var(da.ones(3, chunks=1), ddof=1, device=device).compute()


# ---- graphs -----------------------------------------------------------------------------------------------------


def names_of(lazy):
    """The names of tasks that Dask's dashboard shows."""
    return {str(key[0]).rpartition("-")[0] for key in dict(lazy.__dask_graph__())}


def test_partial_products_are_added_by_a_tree():
    x = da.ones((8, 64), chunks=4)
    product = chunked.matmul(x, x.T)
    assert {"smemkit-matmul", "smemkit-matmul-add-partial", "smemkit-matmul-add-aggregate"} <= names_of(product)
    for key, needed in product.__dask_graph__().get_all_dependencies().items():
        if str(key[0]).startswith("smemkit-matmul"):
            assert len(needed) <= 4


def test_small_partial_results_are_combined_by_sixteen():
    def tasks(chunk, **keywords):
        return len(chunked.sum(da.zeros(64 * chunk, chunks=chunk), device="cpu", **keywords).__dask_graph__())

    assert tasks(64, split_every=4) - tasks(64) == (16 + 4 + 1) - (4 + 1)
    assert tasks(32, split_every=4) == tasks(32)  # where they are not small


def test_tasks_have_sensible_names():
    x = da.ones((4, 4), chunks=2)
    for op in REDUCTIONS:
        assert {f"smemkit-{op}-chunk", f"smemkit-{op}-aggregate"} <= names_of(getattr(chunked, op)(x))
    assert "smemkit-transpose" in names_of(chunked.transpose(x))


def test_equal_calls_have_equal_names():
    x = da.ones((4, 4), chunks=2)
    for call in (lambda: chunked.sum(x, 0), lambda: chunked.matmul(x, x), lambda: chunked.var(x, ddof=1)):
        assert call().name == call().name
    assert chunked.sum(x, 0).name != chunked.sum(x, 1).name
    assert chunked.var(x).name != chunked.var(x, ddof=1).name


# ---- Array as a chunk type --------------------------------------------------------------------------------------


def test_an_array_is_a_chunk_type(device):
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    lazy = da.from_array(on(device, x), chunks=(2, 4))
    assert isinstance(lazy._meta, smemkit.Array)
    result = (lazy * 2 - 1).compute()
    assert (type(result), result.device) == (smemkit.Array, device)
    np.testing.assert_array_equal(result.numpy(), x * 2 - 1)
    np.testing.assert_array_equal(lazy[1:, ::-2].compute().numpy(), x[1:, ::-2])
    assert chunked.sum(lazy, 0).compute().device == device
    assert sizeof(on(device, x)) == x.nbytes
    assert tokenize(on(device, x)) == tokenize(on(device, x)) != tokenize(on(device, x + 1))


def test_a_library_without_dask_says_what_to_install():
    from cases import run_python

    code = "import sys; sys.modules['dask'] = None; import smemkit; smemkit.dask"
    done = run_python("-c", code)
    assert "ImportError: smemkit.dask needs Dask" in done.stderr
    assert "pip install 'smemkit[dask]'" in done.stderr
    assert run_python("-c", "import smemkit; print(smemkit.dask.sum.__name__)").stdout == "sum\n"


@pytest.mark.gpu
def test_a_task_waits_for_its_work_on_a_stream_of_its_thread(monkeypatch):
    streams = []

    def matmul(a, *rest, **options):
        streams.append(_core.current_stream(a.device))
        return real(a, *rest, **options)

    real = smemkit.ops.matmul
    monkeypatch.setattr(smemkit.ops, "matmul", matmul)
    a = as_chunks(np.ones((4, 4), "f4"), 2, "smemkit", "cuda:0")
    compute(chunked.matmul(a, a), "smemkit")
    assert len(streams) > 8
    assert {(stream.device, stream.synchronous) for stream in streams if stream} == {("cuda:0", True)}
    assert len({stream.handle for stream in streams if stream}) <= 2


@pytest.mark.gpu
def test_products_on_a_gpu_take_turns(monkeypatch):
    running, most, lock = [0], [0], threading.Lock()

    def matmul(*args, **options):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        result = real(*args, **options)
        with lock:
            running[0] -= 1
        return result

    real = smemkit.ops.matmul
    a = as_chunks(np.ones((8, 8), "f4"), 2, "smemkit", "cuda:0")
    lazy = chunked.matmul(a, a)
    monkeypatch.setattr(smemkit.ops, "matmul", matmul)
    assert (lazy.compute(num_workers=4).numpy() == 8).all()
    assert most == [1]


@pytest.mark.gpu
def test_chunks_of_cupy_give_chunks_of_cupy():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    random = np.random.default_rng(5)
    x = random.integers(-3, 4, (60, 80)).astype("f4")
    lazy = da.from_array(x, chunks=(20, 40)).map_blocks(cupy.asarray, dtype=x.dtype, meta=cupy.empty((0, 0), "f4"))
    cases = {
        "product": (chunked.matmul(lazy, lazy.T), x @ x.T),
        "sum": (chunked.sum(lazy, 0), x.sum(0)),
        "total": (chunked.sum(lazy), x.sum()),
        "mean": (chunked.mean(lazy, 1, keepdims=True), x.mean(1, keepdims=True)),
        "argmax": (chunked.argmax(lazy, 1), x.argmax(1)),
        "transpose": (chunked.transpose(lazy), x.T),
    }
    for name, (result, expected) in cases.items():
        assert isinstance(result._meta, cupy.ndarray), name
        value = result.compute()
        assert isinstance(value, cupy.ndarray), name
        tolerance = 80 * 2**-24 if name == "mean" else 0  # the others are exact
        np.testing.assert_allclose(cupy.asnumpy(value), expected, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.gpu
def test_chunks_on_several_devices_are_combined_on_the_first():
    devices = smemkit.devices()
    if len(devices) < 2:
        pytest.skip("one device")
    x = np.random.default_rng(5).integers(-1, 2, (60, 80)).astype("f4")
    meta = smemkit.empty((0, 0), "f4", device="cpu")

    def spread(chunk, block_info=None):
        row, column = block_info[0]["chunk-location"]
        return smemkit.asarray(chunk, device=devices[(row + column) % len(devices)])

    a = da.from_array(x, chunks=20).map_blocks(spread, dtype=x.dtype, meta=meta)
    product = chunked.matmul(a, a.T)
    np.testing.assert_array_equal(compute(product, "smemkit"), x @ x.T)
    assert product.blocks[1, 0].compute().device == devices[1]
    for name in REDUCTIONS:
        for axis in (None, 0, 1) if not name.startswith("arg") else (0, 1):
            result = compute(getattr(chunked, name)(a, axis), "smemkit")
            expected = np.asarray(getattr(np, name)(x.astype("f8"), axis), "f8")
            np.testing.assert_allclose(result.astype("f8"), expected, rtol=1e-6)


def test_states_of_tasks_are_pickled():
    from smemkit.dask.states import STATES

    state = STATES["var"]("var", np.dtype("f4"), {"dtype": None, "ddof": 0}, None, "numpy", True)
    assert pickle.loads(pickle.dumps(state)) == state == copy.copy(state)


def test_the_guide_runs():
    text = (
        (ROOT / "docs" / "dask.md")
        .read_text(encoding="utf-8")
        .replace("(4000, 3000), chunks=1000", "(40, 30), chunks=10")
    )
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == 4
    namespace = {"__name__": "guide"}  # without the cluster
    for block in blocks:
        exec(compile(block, "dask.md", "exec"), namespace)
    assert namespace["total"].shape == (40,)
    assert namespace["gram"].compute().shape == (40, 40)


# ---- memory -----------------------------------------------------------------------------------------------------


class CountedChunks:
    """Makes the chunks of an array of Dask, and counts those that are alive."""

    def __init__(self):
        self.alive = self.most = 0

    def make(self, block_info=None):
        chunk = np.ones(block_info[None]["chunk-shape"], np.float32)
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(chunk, self.end)
        return chunk

    def end(self):
        self.alive -= 1

    def array(self, rows, columns):
        """An array of this many chunks of 4 x 4."""
        chunks = ((4,) * rows, (4,) * columns)
        return da.map_blocks(self.make, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))


@pytest.mark.parametrize("op", ["sum", "var", "argmax", "matmul", "transpose"])
def test_a_worker_holds_few_chunks(op):
    counted = CountedChunks()
    x = counted.array(6, 16)
    if op == "matmul":
        lazy = chunked.matmul(x, da.ones((64, 2), chunks=(4, 2), dtype=np.float32), device="cpu")
    else:
        lazy = chunked.sum(chunked.transpose(x)) if op == "transpose" else getattr(chunked, op)(x, device="cpu")
    with dask.config.set(scheduler="threads", num_workers=1):
        lazy.compute()
    assert 0 < counted.most <= 2
    assert counted.alive == 0


def test_means_of_infinities_are_those_of_one_array():
    for values in [np.inf, np.inf], [np.inf, 1, np.inf, 1], [-np.inf, 1, 2, 3], [np.inf, 1, -np.inf, 1]:
        for dtype in "f4", "f8":
            x = np.array(values, dtype)
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(chunked.mean(da.from_array(x, chunks=1)).compute(), x.mean())


@pytest.mark.parametrize("op", ["min", "max"])
def test_minima_of_nothing(op):
    function, x = getattr(chunked, op), da.zeros((0, 3), chunks=(1, 2))
    np.testing.assert_array_equal(function(x, 0, initial=5.0).compute(), [5, 5, 5])
    unknown = da.from_array(np.arange(12.0).reshape(4, 3), chunks=(2, 3))
    unknown = unknown[unknown[:, 0] > 100]
    np.testing.assert_array_equal(function(unknown, 0, initial=5.0).compute(), [5, 5, 5])
    with pytest.raises(ValueError, match=op):
        function(unknown, 0).compute()


@pytest.mark.parametrize("op", ["argmin", "argmax"])
def test_positions_in_nothing(op):
    with pytest.raises(ValueError, match=op):
        getattr(chunked, op)(da.zeros(0))


def test_products_by_kernels_of_lower_precision():
    x = da.from_array(np.arange(64.0, dtype=np.float32).reshape(8, 8) % 7, chunks=4)
    result = chunked.matmul(x, x, kernel="mma_large", device="cpu").compute()
    np.testing.assert_array_equal(result, x.compute() @ x.compute())


def test_a_gpu_has_one_turn_by_whatever_name(device):
    x = np.ones((2, 2), np.float32)
    named = [device, smemkit.Device(device)] + ["cuda"] * (device == "cuda:0")
    turns = [_turn(x, name) for name in named] + [_turn(on(device, x), None)]
    with smemkit.Device(device):
        turns.append(_turn(x, None))
    if device == "cpu":
        assert all(isinstance(turn, contextlib.nullcontext) for turn in turns)
    else:
        assert len(set(map(id, turns))) == 1
