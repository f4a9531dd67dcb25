"""Streams and events: which stream a call runs on, what waits for what, and CUDA graphs of calls."""

import ctypes
import doctest
import itertools
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cases import integers, on, poison, run_python
from numpy.testing import assert_array_equal

import smemkit
from smemkit import _core

on_gpu = pytest.mark.parametrize("device", [pytest.param("cuda:0", marks=pytest.mark.gpu)], indirect=True)
N = 2048  # an N × N matrix takes a GPU long to multiply, compared with the time of a call
FIRST_CREATED_HANDLE = 3  # handles below it are CUDA's default streams


@pytest.fixture
def stream(device):
    return smemkit.Stream(device=device)


def call_in_thread(call):
    """Calls `call` in another thread; returns or raises what it does."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result(timeout=100)


class Interface:
    """A stream of another library, which implements __cuda_stream__ as a method."""

    def __init__(self, *answer):
        self.answer = answer

    def __cuda_stream__(self):
        return self.answer


class StreamWithAttribute:
    """A stream of another library, which has its handle in an attribute."""

    def __init__(self, name, value):
        setattr(self, name, value)


# ---- what a stream is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [smemkit.Stream, smemkit.Event])
def test_the_examples(kind):
    (found,) = doctest.DocTestFinder(recurse=False).find(kind, kind.__name__)
    assert found.examples
    with smemkit.Device("cpu"):
        assert doctest.DocTestRunner().run(found).failed == 0


def test_stream_attributes(device, stream):
    assert stream.device == device
    assert stream.__cuda_stream__() == (0, stream.handle)
    assert repr(stream) == f"<smemkit.Stream device='{device}' handle={stream.handle:#x}>"
    assert stream.handle == 0 if device == "cpu" else stream.handle >= FIRST_CREATED_HANDLE


def test_the_default_device(device):
    with smemkit.Device(device):
        assert smemkit.Stream().device == device
        assert smemkit.Event().device == device


def test_operations_on_a_synchronous_stream_return_when_their_work_is_done(device):
    n = 512 if device == "cpu" else 8192
    asynchronous, stream = (smemkit.Stream(device=device, synchronous=wait) for wait in (False, True))
    assert (asynchronous.synchronous, stream.synchronous) == (False, True)
    x = smemkit.ones((n, n), device=device)
    for call in (lambda: x @ x, lambda: x.sum(0), lambda: x + x, lambda: x.T.copy(), lambda: x.copy()):
        with stream:
            result = call()
            assert stream.done
        with asynchronous:
            call()
            assert asynchronous.done == (device == "cpu")
    assert (result == 1).all().item()


@on_gpu
def test_the_owners_of_operands_do_not_wait_for_a_synchronous_stream(device):
    x = smemkit.ones((8192, 8192), device=device)  # owned by the default stream
    with smemkit.Stream(device=device, synchronous=True) as stream:
        smemkit.matmul(x, x)
        other = smemkit.Stream(device=device)
        smemkit.matmul(x, x, stream=other)  # another stream than the current one: not waited for
        assert (stream.done, other.done) == (True, False)
        other.synchronize()


@on_gpu
def test_a_capture_on_a_synchronous_stream_is_not_waited_for(device):
    x = smemkit.ones((64, 64), device=device)
    with smemkit.Stream(device=device, synchronous=True):
        assert smemkit.benchmark(smemkit.matmul, x, x, max_seconds=0.05).median > 0


@pytest.mark.parametrize("name", ["device", "handle", "done", "synchronous", "other"])
def test_a_stream_does_not_change(stream, name):
    with pytest.raises((AttributeError, TypeError)):
        setattr(stream, name, 1)


def test_stream_of_a_stream_is_equal(device, stream):
    again = smemkit.Stream(stream)
    assert again is not stream
    assert again == stream
    assert hash(again) == hash(stream)
    assert {stream: 1}[again] == 1
    assert smemkit.Stream(stream, device=device) == stream
    assert stream != stream.handle
    with pytest.raises(TypeError):
        _ = stream < again


def test_wrapped_stream_is_kept_alive(stream):
    before = sys.getrefcount(stream)
    for _ in range(5):
        wrapped = smemkit.Stream(stream)
    assert sys.getrefcount(stream) == before + 1
    del wrapped
    assert sys.getrefcount(stream) == before


@on_gpu
def test_streams_of_different_handles_differ(device, stream):
    other = smemkit.Stream(device=device)
    assert stream != other
    assert stream != smemkit.Stream(0)
    assert stream != smemkit.Stream(device="cpu")


@on_gpu
def test_the_default_streams(device):
    assert smemkit.Stream(0).handle == smemkit.Stream(1).handle == 0
    assert smemkit.Stream(0) == smemkit.Stream(1, device=device)
    assert smemkit.Stream(2).handle == 2
    x = on(device, integers(1000, np.float32))
    for stream in (0, 1, 2, smemkit.Stream(0), smemkit.Stream(2), Interface(0, 2)):
        assert_array_equal(smemkit.add_one(x, stream=stream).numpy(), integers(1000, np.float32) + 1)


@on_gpu
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda handle: handle,
        lambda handle: np.uint64(handle),
        lambda handle: Interface(0, handle),
        lambda handle: StreamWithAttribute("__cuda_stream__", (0, handle)),
        lambda handle: StreamWithAttribute("ptr", handle),
        lambda handle: StreamWithAttribute("cuda_stream", handle),
        lambda handle: StreamWithAttribute("handle", handle),
        lambda handle: StreamWithAttribute("handle", ctypes.c_void_p(handle)),
    ],
    ids=["integer", "numpy", "method", "property", "cupy", "torch", "handle", "ctypes"],
)
def test_accepted_stream_objects(device, stream, wrapped):
    x = on(device, integers(1000, np.float32))
    source = wrapped(stream.handle)
    assert smemkit.Stream(source) == stream
    assert_array_equal(smemkit.add_one(x, stream=source).numpy(), integers(1000, np.float32) + 1)
    smemkit.Stream(device=device).wait(source)
    _core.mark(device, source).synchronize()


@on_gpu
def test_numbas_default_stream_has_no_number(device):
    assert smemkit.Stream(StreamWithAttribute("handle", ctypes.c_void_p(0))) == smemkit.Stream(0)


# ---- rejected streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [3, 0, "1", Interface(0, 3)])
def test_cpu_rejects_foreign_streams(source):
    message = "the CPU device has no streams, expected None or a Stream of its own, got " + type(source).__name__
    stream, x = smemkit.Stream(device="cpu"), smemkit.zeros(3, device="cpu")
    for name, call in {
        "source": lambda: smemkit.Stream(source, device="cpu"),
        "other": lambda: stream.wait(source),
        "stream": lambda: smemkit.sum(x, stream=source),
    }.items():
        with pytest.raises(ValueError, match=f"^{name}: {message}$"):
            call()
    with pytest.raises(ValueError, match=f"^stream: {message}$"):
        stream.record().record(source)


@on_gpu
@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("1", TypeError, "expected an integer or an object with __cuda_stream__, got str"),
        (True, TypeError, "expected an integer or an object with __cuda_stream__, got bool"),
        (1.0, TypeError, "expected an integer or an object with __cuda_stream__, got float"),
        (-1, ValueError, r"expected a handle from 0 to 2\*\*64 - 1, got -1"),
        (2**64, ValueError, r"expected a handle from 0 to 2\*\*64 - 1, got 18446744073709551616"),
        (StreamWithAttribute("ptr", -5), ValueError, r"expected a handle from 0 to 2\*\*64 - 1, got -5"),
        (Interface(1, 7), ValueError, r"expected \(0, handle\) of __cuda_stream__, got \(1, 7\)"),
        (Interface(2**99, 7), ValueError, r"expected \(0, handle\) of __cuda_stream__, got "),
        (Interface(0), ValueError, r"expected \(0, handle\) of __cuda_stream__, got \(0,\)"),
        (Interface(0, 1, 2), ValueError, r"expected \(0, handle\) of __cuda_stream__, got \(0, 1, 2\)"),
        (StreamWithAttribute("__cuda_stream__", 5), TypeError, "'int' object is not iterable"),
        (Interface(0, "seven"), ValueError, "invalid literal"),
        (StreamWithAttribute("ptr", [7]), TypeError, "int.. argument must be"),
    ],
    ids=lambda value: None if isinstance(value, (str, type)) else type(value).__name__,
)
def test_rejected_stream_objects(device, stream, source, error, message):
    x = smemkit.zeros(3, device=device)
    for name, call in {
        "source": lambda: smemkit.Stream(source),
        "other": lambda: stream.wait(source),
        "stream": lambda: smemkit.sum(x, stream=source),
    }.items():
        with pytest.raises(error, match=f"^{name}: {message}"):
            call()


@on_gpu
def test_wait_rejects_none(device, stream):
    with pytest.raises(
        TypeError, match="other: expected an integer or an object with __cuda_stream__, got NoneType"
    ):
        stream.wait(None)


@on_gpu
def test_exceptions_of_stream_objects_propagate(device):
    class Broken:
        @property
        def __cuda_stream__(self):
            raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose"):
        smemkit.Stream(Broken())


@on_gpu
def test_streams_of_another_device_are_refused(device, stream):
    cpu_stream, x = smemkit.Stream(device="cpu"), smemkit.zeros(3, device="cpu")
    with pytest.raises(ValueError, match=f"stream: expected a stream of cpu, got one of {device}"):
        smemkit.sum(x, stream=stream)
    with pytest.raises(ValueError, match=f"stream: expected a stream of {device}, got one of cpu"):
        smemkit.sum(x.to(device), stream=cpu_stream)
    with pytest.raises(ValueError, match=f"stream: expected a stream of {device}, got one of cpu"):
        smemkit.Event(device=device).record(cpu_stream)
    with pytest.raises(ValueError, match=f"source: expected a stream of cpu, got one of {device}"):
        smemkit.Stream(stream, device="cpu")


@pytest.mark.skipif(smemkit.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_there_are_no_handles():
    with pytest.raises(smemkit.NoDeviceError, match="device: 'cuda' is not available: "):
        smemkit.Stream(0)


# ---- the current stream -----------------------------------------------------------------------------------------


def test_with_statement_sets_the_current_stream(device, stream):
    other = smemkit.Stream(device=device)
    assert _core.current_stream(device) is None
    with stream as entered:
        assert entered is stream
        assert _core.current_stream(device) is stream
        with other, smemkit.Device("cpu"):
            assert _core.current_stream(device) is other
            with stream:
                assert _core.current_stream(device) is stream
            assert _core.current_stream(device) is other
        assert _core.current_stream(device) is stream
    assert _core.current_stream(device) is None


@on_gpu
def test_current_stream_is_per_device(device, stream):
    cpu_stream = smemkit.Stream(device="cpu")
    with stream, cpu_stream:
        assert _core.current_stream(device) is stream
        assert _core.current_stream("cpu") is cpu_stream
        x = integers(1000, np.float32)
        assert_array_equal(smemkit.add_one(x, device="cpu"), x + 1)
        assert_array_equal(smemkit.add_one(x, device=device), x + 1)


def test_exception_restores_the_previous_stream(device, stream):
    with pytest.raises(ZeroDivisionError, match="on purpose"), stream:
        raise ZeroDivisionError("on purpose")
    assert _core.current_stream(device) is None


def test_streams_must_be_exited_in_order(device, stream):
    other = smemkit.Stream(device=device)
    stream.__enter__()
    other.__enter__()
    with pytest.raises(RuntimeError, match="exits before a stream that was entered after it"):
        stream.__exit__(None, None, None)
    assert _core.current_stream(device) is other
    other.__exit__(None, None, None)
    assert _core.current_stream(device) is None
    with pytest.raises(RuntimeError, match=f"<smemkit.Stream device='{device}'.* exits in a thread that has not"):
        stream.__exit__(None, None, None)


def test_current_stream_is_per_thread(device, stream):
    def elsewhere():
        assert _core.current_stream(device) is None
        with pytest.raises(RuntimeError, match="exits in a thread that has not entered it"):
            stream.__exit__(None, None, None)
        with smemkit.Stream(stream) as mine:
            return _core.current_stream(device) is mine

    with stream:
        assert call_in_thread(elsewhere)
        assert _core.current_stream(device) is stream


def test_many_threads_enter_one_stream(device, stream):
    def work(_):
        for _ in range(200):
            with stream:
                assert _core.current_stream(device) is stream
        return _core.current_stream(device) is None

    before = sys.getrefcount(stream)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    assert sys.getrefcount(stream) == before


def test_thread_that_ends_inside_a_block_leaks_nothing(stream):
    before = sys.getrefcount(stream)
    for _ in range(3):
        thread = threading.Thread(target=stream.__enter__)
        thread.start()
        thread.join()
    assert sys.getrefcount(stream) == before


def test_a_thread_that_python_did_not_start(device, stream):
    """Python knows the thread only during a call: a stream that it entered is released with the thread's state."""
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    def call(_):
        seen.append(_core.current_stream(device))
        stream.__enter__()
        seen.append(_core.current_stream(device) is stream)

    libc, thread = ctypes.CDLL(None), ctypes.c_void_p()
    libc.pthread_join.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    before = sys.getrefcount(stream)
    for _ in range(3):
        assert libc.pthread_create(ctypes.byref(thread), None, call, None) == 0
        assert libc.pthread_join(thread, None) == 0
    assert seen == [None, True] * 3
    assert sys.getrefcount(stream) == before


EXIT_INSIDE_STREAM_SCRIPT = """
import sys, threading, smemkit
ready = threading.Event()
def work(name):
    with smemkit.Stream(device=name):
        ready.set()
        threading.Event().wait()
threading.Thread(target=work, args=sys.argv[1:], daemon=True).start()
assert ready.wait(30)
smemkit.Stream(device=sys.argv[1]).__enter__()
"""


def test_interpreter_exits_inside_a_block(device):
    done = run_python("-c", EXIT_INSIDE_STREAM_SCRIPT, device)
    assert (done.returncode, done.stderr) == (0, "")


# ---- events -----------------------------------------------------------------------------------------------------


def test_an_event_that_was_never_recorded(device, stream):
    event = smemkit.Event(device=device)
    assert repr(event) == f"<smemkit.Event device='{device}' never recorded>"
    assert event.done
    event.synchronize()
    stream.wait(event)
    with pytest.raises(ValueError, match=r"self: expected an Event that has been recorded, got <smemkit.Event"):
        event.seconds_since(stream.record())
    with pytest.raises(ValueError, match=r"earlier: expected an Event that has been recorded, got <smemkit.Event"):
        stream.record().seconds_since(event)


def test_events_are_in_order(device, stream):
    x = on(device, np.ones(10_007, np.float32))
    begin, end = stream.record(), smemkit.Event(device=device)
    smemkit.sum(x, stream=stream)
    end.record(stream)
    assert end.seconds_since(begin) > 0
    assert end.seconds_since(end) == 0
    end.synchronize()
    assert end.done
    assert (end.device, repr(end)) == (device, f"<smemkit.Event device='{device}'>")
    for other in (3, None, stream):
        with pytest.raises(TypeError, match=f"earlier: expected an Event of {device}, got "):
            end.seconds_since(other)


def test_the_last_record_counts(device, stream):
    first, event = stream.record(), stream.record()
    before = event.seconds_since(first)
    smemkit.sum(on(device, np.ones(10_007, np.float32)), stream=stream)
    event.record(stream)
    assert event.seconds_since(first) > before


def test_without_a_stream_an_event_is_recorded_on_the_current_one(device, stream):
    event = smemkit.Event(device=device)
    event.record()
    with stream:
        event.record()
    event.synchronize()
    assert event.done


def test_threads_record_one_event(device, stream):
    event, first = smemkit.Event(device=device), stream.record()

    def work(_):
        for _ in range(100):
            event.record(stream)
            stream.wait(event)
            event.synchronize()
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    assert event.seconds_since(first) >= 0


@pytest.mark.parametrize("call", [lambda: smemkit.Event("cpu"), lambda: smemkit.Stream(None, "cpu")])
def test_the_device_is_a_keyword(call):
    with pytest.raises(TypeError, match="positional argument"):
        call()


def test_cpu_streams_are_always_done(stream, device):
    if device != "cpu":
        stream.synchronize()
    assert stream.done
    assert stream.record() is not stream.record()
    stream.synchronize()


# ---- what waits for what ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def product():
    """Zeros and ones, and their product, exact in float32."""
    x = np.random.default_rng(0).integers(0, 2, (N, N)).astype(np.float32)
    return x, x @ x


def long_product(x, stream=None, **keywords):
    return smemkit.matmul(x, x, kernel="naive", stream=stream, **keywords)


@on_gpu
def test_a_stream_is_done_when_its_work_is(device, stream, product):
    x = on(device, product[0])
    smemkit.synchronize(device)
    results = [long_product(x, stream) for _ in range(20)]
    event = stream.record()
    assert not stream.done
    assert not event.done
    event.synchronize()
    assert event.done
    stream.synchronize()
    assert stream.done
    for result in results:
        assert_array_equal(result.numpy(), product[1])


@on_gpu
@pytest.mark.parametrize("ours", [True, False], ids=["Stream", "handle"])
def test_a_call_waits_for_an_operand_of_another_stream(device, product, ours):
    streams = [smemkit.Stream(device=device) for _ in range(3)]
    given = streams if ours else [stream.handle for stream in streams]
    x = on(device, product[0])
    for first, second in itertools.permutations([None, *given], 2):
        y = long_product(x, first)
        z = smemkit.add_one(y, stream=second)
        assert_array_equal(z.numpy(), product[1] + 1)
        assert_array_equal(y.numpy(), product[1])


@on_gpu
def test_later_work_waits_for_stream_block(device, product):
    x = on(device, product[0])
    with smemkit.Stream(device=device):
        y = long_product(x)
    with smemkit.Stream(device=device):
        z = smemkit.add_one(y)
        total = smemkit.sum(z)
    expected = (product[1] + 1).sum(dtype=np.float64)
    assert abs(total.item() - expected) <= np.spacing(np.float32(expected))
    assert_array_equal(z.numpy(), product[1] + 1)


@on_gpu
def test_a_call_waits_for_out_of_another_stream(device, stream, product):
    x = on(device, product[0])
    for _ in range(5):
        y = long_product(x, stream)  # must not run after add_one, which overwrites y
        smemkit.add_one(x, out=y)
        assert_array_equal(y.numpy(), product[0] + 1)


@on_gpu
def test_operands_may_be_freed_while_in_use(device, product):
    """Their memory is reused only after the work on them is done."""
    for turn in range(20):
        stream = smemkit.Stream(device=device)
        x = on(device, product[0])
        with stream:
            y = long_product(x)
        del x
        if turn % 2:
            del stream
        poisoned = [on(device, np.full((N, N), np.nan, np.float32)) for _ in range(2)]
        assert_array_equal(y.numpy(), product[1])
        del poisoned


@on_gpu
def test_stream_may_be_freed_before_its_arrays(device, product):
    x = on(device, product[0])
    y = long_product(x, smemkit.Stream(device=device))
    z = smemkit.add_one(y, stream=smemkit.Stream(device=device))
    del x, y
    assert_array_equal(z.numpy(), product[1] + 1)


def test_threads_with_their_own_streams_exchange_arrays(device):
    """Each thread takes an array that another has just begun to compute, and frees it while it is still in use."""
    n = 1 << 12 if device == "cpu" else 1 << 20
    handoff = queue.Queue()
    for _ in range(6):
        handoff.put((0, smemkit.zeros(n, device=device)))

    def work(seed):
        random = np.random.default_rng(seed)
        for turn in range(50):
            with smemkit.Stream(device=device) if turn % 2 else smemkit.Device(device):
                count, x = handoff.get(timeout=100)
                for _ in range(random.integers(1, 5)):
                    count, x = count + 1, smemkit.add_one(x)
                handoff.put((count, x))
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    assert handoff.qsize() == 6
    while not handoff.empty():
        count, x = handoff.get()
        assert_array_equal(x.numpy(), np.full(n, count, np.float32))


def test_scratch_is_per_call(device):
    """The same reduction in four threads at once, each on its own stream: all results have the same bits."""
    x = np.random.default_rng(0).standard_normal(100_003 if device == "cpu" else 1 << 22).astype(np.float32)
    there = on(device, x)
    expected = smemkit.sum(there).item()
    smemkit.synchronize(device)

    def work(_):
        with smemkit.Stream(device=device):
            results = [smemkit.sum(there) for _ in range(5 if device == "cpu" else 50)]
            return {result.item() for result in results}

    with ThreadPoolExecutor(4) as threads:
        assert set().union(*threads.map(work, range(4))) == {expected}
    assert abs(expected - x.sum(dtype=np.float64)) <= np.spacing(np.float32(abs(expected))) + 2**-30 * abs(x).sum()


@on_gpu
def test_stream_wait_orders_work_of_other_libraries(device):
    """Another library's work on our streams, which only Stream.wait orders: no array of ours is involved."""
    cupy = pytest.importorskip("cupy")
    ours = [smemkit.Stream(device=device) for _ in range(2)]
    first, second = (cupy.cuda.ExternalStream(stream.handle) for stream in ours)
    x, expected = cupy.ones((N, N), cupy.float32), np.full((N, N), N + 1, np.float32)
    product, total = cupy.empty_like(x), cupy.empty_like(x)
    cupy.matmul(x, x)  # loads what matmul needs
    for wait in (
        lambda: ours[1].wait(ours[0]),
        lambda: ours[1].wait(ours[0].record()),
        lambda: ours[1].wait(ours[0].handle),
        lambda: ours[1].wait(first),
    ):
        product.fill(0)
        cupy.cuda.Device().synchronize()
        with first:
            for _ in range(10):
                cupy.matmul(x, x, out=product)
        wait()
        with second:
            cupy.add(product, 1, out=total)
        ours[1].synchronize()
        assert_array_equal(total.get(), expected)


@on_gpu
def test_a_cpu_stream_waits_on_the_host(device, stream, product):
    results = [long_product(on(device, product[0]), stream) for _ in range(10)]
    smemkit.Stream(device="cpu").wait(stream)
    assert stream.done
    results += [long_product(results[0], stream) for _ in range(10)]
    smemkit.Stream(device="cpu").wait(stream.record())
    assert stream.done
    stream.wait(smemkit.Stream(device="cpu").record())


def foreign_streams():
    def torch_stream():
        return pytest.importorskip("torch").cuda.Stream()

    def cupy_stream():
        return pytest.importorskip("cupy").cuda.Stream(non_blocking=True)

    def blocking_cupy_stream():
        return pytest.importorskip("cupy").cuda.Stream()

    def numba_stream():
        return pytest.importorskip("numba.cuda").stream()

    def core_stream():
        core_device = pytest.importorskip("cuda.core").Device(0)
        core_device.set_current()
        return core_device.create_stream()

    return [torch_stream, cupy_stream, blocking_cupy_stream, numba_stream, core_stream]


@on_gpu
@pytest.mark.parametrize("make", foreign_streams(), ids=lambda make: make.__name__)
def test_streams_of_other_libraries(device, product, make):
    foreign = make()
    before = sys.getrefcount(foreign)
    stream = smemkit.Stream(foreign)
    assert stream.handle >= FIRST_CREATED_HANDLE
    assert sys.getrefcount(foreign) > before
    x = on(device, product[0])
    y = long_product(x, foreign)
    assert_array_equal(smemkit.add_one(y).numpy(), product[1] + 1)
    with stream:
        y = long_product(x)
    assert_array_equal(smemkit.add_one(y, stream=foreign).numpy(), product[1] + 1)
    del y, stream
    smemkit.synchronize(device)
    assert sys.getrefcount(foreign) == before


@on_gpu
def test_other_libraries_take_our_streams(device, stream):
    torch = pytest.importorskip("torch")
    with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle, device=0)):
        x = torch.ones(1000, device="cuda:0") + 1
    stream.synchronize()
    assert x.sum().item() == 2000


LOST_DEVICE_SCRIPT = """
import numpy, smemkit
x = smemkit.zeros(1)
streams = smemkit.Stream(), smemkit.Stream()
event = streams[1].record()
bad = smemkit.Kernel("__global__ void bad(float *x) { x[1ll << 44] = 1; }")
bad[1, 1](x)
calls = streams[0].synchronize, lambda: streams[0].done, streams[0].record, lambda: streams[0].wait(streams[1])
calls += lambda: streams[0].wait(event), event.record, event.synchronize, lambda: event.done, smemkit.Stream
try:
    smemkit.synchronize()
except smemkit.FatalCudaError as error:
    first = str(error)
for call in calls:
    try:
        call()
    except smemkit.FatalCudaError as error:
        assert str(error) == first
    else:
        raise AssertionError(call)
with smemkit.Stream(device="cpu"):
    assert smemkit.sum(numpy.ones(3), device="cpu") == 3
del streams, event, x
"""


@on_gpu
def test_lost_device_raises_at_every_use(device):
    pytest.importorskip("cuda.core")
    done = run_python("-c", LOST_DEVICE_SCRIPT, SMEMKIT_DEVICE=device)
    assert (done.returncode, done.stderr) == (0, "")


# ---- under graph capture ----------------------------------------------------------------------------------------


def torch_capture(device, work):
    """torch's default capture: unsafe calls of other threads are rejected, and memory comes from a pool."""
    torch = pytest.importorskip("torch")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="global"):
        work(torch.cuda.current_stream())

    def replay(stream=None):
        on_stream = torch.cuda.ExternalStream(stream.handle) if stream else torch.cuda.current_stream()
        with torch.cuda.stream(on_stream):
            graph.replay()

    return replay


def cupy_capture(device, work):
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            work(stream)
        finally:
            graph = stream.end_capture()

    def replay(on_stream=None):
        graph.launch(cupy.cuda.ExternalStream(on_stream.handle) if on_stream else stream)

    return replay


def own_capture(device, work):
    """The benchmark's graphs, which replay on their own stream and wait for it."""
    return _core.Graph(work, device, warmup=0).replay


each_capture = pytest.mark.parametrize(
    "capture", [own_capture, torch_capture, cupy_capture], ids=lambda capture: capture.__name__
)


class Work:
    """Calls of all kinds, with fixed arrays for operands and results. The sum needs a workspace; the casts and the
    strided operands need temporaries."""

    def __init__(self, device, seed=0):
        self.device = device
        self.x = smemkit.empty((96, 80), device=device)
        self.y = smemkit.empty((80, 56), device=device)
        self.long = smemkit.empty(1_000_003, device=device)
        self.operands = self.x, self.y, self.long
        self.results = [smemkit.empty(value.shape, value.dtype, device=device) for value in self.set(seed)]

    def set(self, seed):
        """Replaces the operands' values; returns NumPy's results for them."""
        values = [integers(x.shape, np.float32, 3 * seed + i) for i, x in enumerate(self.operands)]
        for there, value in zip(self.operands, values, strict=True):
            smemkit.convert(on(self.device, value), out=there)
        x, y, line = values
        self.expected = [
            x @ y,
            x[::-2, ::-1] @ y,
            line.sum(dtype=np.float32),
            x.sum(axis=0, dtype=np.float32),
            y.sum(axis=1, dtype=np.float64),
            x.T.copy(),
            x.argmax(axis=1),
            line.max(),
            x.astype(np.int32),
        ]
        return self.expected

    def __call__(self, stream=None):
        x, y, line = self.operands
        a, b, c, d, e, f, g, h, i = self.results
        smemkit.matmul(x, y, out=a, stream=stream)
        smemkit.matmul(x[::-2, ::-1], y, out=b, stream=stream)
        smemkit.sum(line, out=c, stream=stream)
        smemkit.sum(x, axis=0, out=d, stream=stream)
        smemkit.sum(y, axis=1, dtype=np.float64, out=e, stream=stream)
        smemkit.transpose(x, out=f, stream=stream)
        smemkit.argmax(x, axis=1, out=g, stream=stream)
        smemkit.max(line, out=h, stream=stream)
        smemkit.convert(x, dtype=np.int32, out=i, stream=stream)

    def poison_results(self):
        for result in self.results:
            smemkit.convert(on(self.device, poison(result.shape, result.dtype)), out=result)
        smemkit.synchronize(self.device)

    def check_replay(self, replay, seed):
        """Asserts that a replay of these calls with other operands gives NumPy's results."""
        self.set(seed)
        self.poison_results()
        replay()
        self.check()

    def check(self):
        smemkit.synchronize(self.device)
        for result, expected in zip(self.results, self.expected, strict=True):
            assert_array_equal(result.numpy(), expected, strict=True)


@on_gpu
def test_the_captured_work_is_correct_without_capture(device):
    work = Work(device)
    for seed, stream in enumerate((None, smemkit.Stream(device=device))):
        work.set(seed)
        work.poison_results()
        work(stream)
        work.check()


@on_gpu
@each_capture
def test_a_graph_replays_what_was_captured(device, capture):
    work = Work(device)
    work()
    work.poison_results()
    replay = capture(device, work)
    for result, expected in zip(work.results, work.expected, strict=True):  # captured, not executed
        assert not np.array_equal(result.numpy(), expected)
    for seed in (0, 1, 2, 1):
        work.set(seed)
        work.poison_results()
        for _ in range(3):
            replay()
        work.check()


@on_gpu
@each_capture
def test_the_current_stream_is_captured(device, capture):
    work = Work(device)
    work()

    def inside(stream):
        with smemkit.Stream(stream, device=device):
            work()

    replay = capture(device, inside)
    work.check_replay(replay, 1)


@on_gpu
@pytest.mark.parametrize("capture", [torch_capture, cupy_capture], ids=lambda capture: capture.__name__)
def test_graphs_have_separate_counters_and_workspaces(device, capture):
    works = [Work(device, seed) for seed in range(2)]
    for work in works:
        work()
    streams = [smemkit.Stream(device=device) for _ in works]
    replays = [capture(device, work) for work in works]
    for turn in range(10):
        for i, work in enumerate(works):
            work.set(2 * turn + i)
            work.poison_results()
        order = streams if turn % 2 else [streams[0]] * 2  # concurrently, or one after the other
        for _ in range(20):
            for replay, stream in zip(replays, order, strict=True):
                replay(stream)
        for work in works:
            work.check()


@on_gpu
@pytest.mark.parametrize("kept", [0, 1100], ids=["one after the other", "all at once"])
def test_more_graphs_than_cached_counters(device, kept):
    """A destroyed graph's counters are free again; while none are free, a call allocates its own."""
    xs = [on(device, np.random.default_rng(i).standard_normal(300_000, np.float32)) for i in range(3)]
    expected = [smemkit.sum(x).item() for x in xs]
    out = on(device, np.zeros((), np.float32))
    graphs = []
    for turn in range(1200):
        x = xs[turn % 3]
        graph = _core.Graph(lambda stream, x=x: smemkit.sum(x, out=out, stream=stream), device, 2, 0, 0)
        graphs = [*graphs, graph][-kept - 1 :]
        for which in {0, len(graphs) // 2, len(graphs) - 1} if turn % 100 == 0 else {len(graphs) - 1}:
            graphs[which].replay()
            assert out.item() == expected[(turn - (len(graphs) - 1 - which)) % 3]


@on_gpu
def test_a_graph_among_calls_that_are_not_captured(device):
    captured, called = Work(device, 1), Work(device, 2)
    captured()
    called()
    replay, stream = cupy_capture(device, captured), smemkit.Stream(device=device)
    for _ in range(10):
        captured.poison_results()
        called.poison_results()
        for _ in range(10):
            replay()
            called(stream)
        captured.check()
        called.check()


@on_gpu
@each_capture
@pytest.mark.alone
def test_array_may_be_freed_during_capture(device, capture):
    """Its memory is returned after the capture ends, so that the device does not run out of memory."""
    work, freed = Work(device), {}
    work()

    def inside(stream):
        work(stream)
        freed.clear()

    free = []
    for _ in range(12):
        freed["array"] = smemkit.zeros(1 << 26, device=device)  # 256 MiB
        before = _core.allocations()
        replay = capture(device, inside)
        assert _core.allocations() == before - 1
        work.poison_results()
        replay()
        work.check()
        del replay
        smemkit.synchronize(device)
        free.append(smemkit.Device(device).free_bytes)
    assert free[1] - free[-1] < 1 << 29


@on_gpu
@each_capture
@pytest.mark.alone
def test_captures_do_not_leak(device, capture):
    work = Work(device)
    work()
    smemkit.synchronize(device)  # the caller must order a replay after other work
    allocations, free = _core.allocations(), []
    for _ in range(50):
        replay = capture(device, work)
        replay()
        smemkit.synchronize(device)
        del replay
        assert _core.allocations() == allocations
        free.append(smemkit.Device(device).free_bytes)
    assert free[5] - free[-1] < 1 << 27
    work.check()


@on_gpu
@each_capture
def test_out_is_required_under_capture(device, capture):
    work = Work(device)
    work()

    def inside(stream):
        x, y, line = work.operands
        for call in (
            lambda: smemkit.matmul(x, y, stream=stream),
            lambda: smemkit.sum(line, stream=stream),
            lambda: smemkit.transpose(x, stream=stream),
            lambda: smemkit.argmax(x, axis=1, stream=stream),
            lambda: smemkit.convert(x, dtype=np.int32, stream=stream),
            lambda: smemkit.add_one(x, stream=stream),
        ):
            with pytest.raises(smemkit.Error, match=r"out=.*captur|captur.*out="):
                call()
        work(stream)

    allocations = _core.allocations()
    replay = capture(device, inside)
    assert _core.allocations() == allocations
    work.check_replay(replay, 1)


@on_gpu
@each_capture
def test_host_synchronisation_is_rejected_under_capture(device, capture):
    """A copy to the host or a wait would end the capture; after the exception the capture continues."""
    work = Work(device)
    work()
    one = on(device, np.float32(1))

    def inside(stream):
        with smemkit.Stream(stream, device=device) as current:
            for call in (
                one.item,
                one.numpy,
                one.__float__,
                lambda: smemkit.reverse(work.long),  # has no parameter out
                lambda: smemkit.asarray(np.ones(3), device=device),
                lambda: smemkit.sum(np.ones(1000, np.float32), device=device),
                current.synchronize,
                lambda: current.done,
            ):
                with pytest.raises(smemkit.Error, match="captur"):
                    call()
        work(stream)

    replay = capture(device, inside)
    work.check_replay(replay, 1)


@on_gpu
@each_capture
def test_older_event_may_be_queried_during_capture(device, capture, stream):
    work, event = Work(device), stream.record()
    work()
    seen = []

    def inside(captured):
        work(captured)
        event.synchronize()
        seen.append(event.done)

    replay = capture(device, inside)
    assert seen == [True]
    work.poison_results()
    replay()
    work.check()


@on_gpu
@pytest.mark.parametrize("capture", [torch_capture, cupy_capture], ids=lambda capture: capture.__name__)
@pytest.mark.parametrize("by_event", [False, True], ids=["stream", "event"])
def test_a_capture_may_fork_and_join(device, capture, by_event):
    main_work, side_work = Work(device, 1), Work(device, 2)
    main_work()
    side_work()
    side = smemkit.Stream(device=device)

    def inside(stream):
        main = smemkit.Stream(stream, device=device)
        side.wait(main.record() if by_event else main)
        side_work(side)
        main_work(main)
        main.wait(side.record() if by_event else side)

    replay = capture(device, inside)
    for seed in range(3):
        for i, work in enumerate((main_work, side_work)):
            work.set(10 + 2 * seed + i)
            work.poison_results()
        replay()
        main_work.check()
        side_work.check()


@on_gpu
@each_capture
def test_a_capture_that_fails_leaves_streams_and_memory_usable(device, capture):
    work = Work(device)
    work()
    allocations = _core.allocations()

    def inside(stream):
        work(stream)
        raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose"):
        capture(device, inside)
    assert _core.allocations() == allocations
    work.set(1)
    work.poison_results()
    replay = capture(device, work)
    replay()
    work.check()
