"""An error at any point of any call loses nothing: no memory, no references, and neither the next call nor a
clean end of the process fails."""

import contextlib
import copy
import gc
import itertools
import pickle
import re
import sys
import threading

import numpy as np
import pytest
from cases import integers, on, parts_of, poison, run_python
from numpy.testing import assert_array_equal
from tiers import times

import smemkit
from smemkit import _core

X = integers((5, 7), np.float32)
GPU = pytest.mark.parametrize("device", [pytest.param("cuda:0", marks=pytest.mark.gpu)], indirect=True)


class CallOperands:
    """The operands of the calls below."""

    def __init__(self, device):
        self.device = device
        self.stream = smemkit.Stream(device=device)
        self.event = smemkit.Event(device=device)
        self.x, self.wide = X.copy(), X.astype(">f8")
        self.array, self.other = on(device, X), on(device, X.astype(np.float64))
        self.out, self.out_array = np.empty_like(X), on(device, X)
        self.rows, self.pickled = self.array[::2, ::-1], pickle.dumps(self.array)

    def held(self):
        """The reference counts of the operands and of shared objects."""
        owned = [value for value in vars(self).values() if not isinstance(value, (np.dtype, bytes, str))]
        shared = [self.x.dtype, self.wide.dtype, self.array.dtype, self.other.dtype, smemkit.Array, smemkit.Stream]
        return [sys.getrefcount(thing) for thing in (*owned, *shared)]


def with_stream(t):
    with t.stream:
        smemkit.add_one(smemkit.add_one(t.array), out=t.out_array)


def in_parts(t):
    with parts_of(64):
        smemkit.matmul(t.x.repeat(20, 0), t.wide.T, device=t.device)
        smemkit.sum(t.wide, 1, out=t.x[:, 0], device=t.device)
        smemkit.convert(t.x.T, np.int8, device=t.device)
        smemkit.asarray(t.wide, dtype=np.float32, device=t.device)


def assign(t):
    t.out_array[1:, ::2] = t.array[1:, ::2]
    t.out_array[0] = 5
    t.out_array[:, 1] = t.x[:, 1]


def share(t):
    smemkit.from_dlpack(t.array)
    smemkit.from_dlpack(t.rows, copy=True)
    if t.device == "cpu":
        np.from_dlpack(t.rows)
        smemkit.from_dlpack(t.x, device="cpu")
        smemkit.matmul(t.x, np.from_dlpack(t.array).T, device="cpu")


CALLS = {
    "matmul": lambda t: smemkit.matmul(t.x, t.wide.T, device=t.device),
    "matmul of Arrays": lambda t: smemkit.matmul(t.array, t.other.T),
    "matmul into out": lambda t: smemkit.matmul(t.x[:5, :5], t.x[:5], out=t.out, device=t.device),
    "sum": lambda t: smemkit.sum(t.wide, 0, initial=3, keepdims=True, device=t.device),
    "sum of an Array": lambda t: smemkit.sum(t.rows, out=t.out_array[0, 0]),
    "var": lambda t: smemkit.var(t.array, 1),
    "argmax": lambda t: smemkit.argmax(t.x, device=t.device),
    "transpose": lambda t: smemkit.transpose(t.x, device=t.device),
    "transpose of an Array": lambda t: smemkit.transpose(t.array, stream=t.stream),
    "reverse": lambda t: smemkit.reverse(t.wide, device=t.device),
    "add_one": lambda t: smemkit.add_one(t.rows),
    "convert": lambda t: smemkit.convert(t.x[::-1], np.complex64, device=t.device),
    "asarray": lambda t: smemkit.asarray(t.wide, dtype=np.int32, device=t.device),
    "zeros": lambda t: (smemkit.zeros((3, 4), device=t.device), smemkit.empty(7, np.int8, device=t.device)),
    "arithmetic": lambda t: (t.array + t.other[0], t.array * 2, 2.5 / t.rows, -t.rows, t.array - t.array[:, 1:2]),
    "comparisons": lambda t: (t.array == t.other[0], t.array != 1, t.rows < 2.5, 3 in t.array, t.array <= 10**30),
    "methods": lambda t: (
        t.array.sum(0),
        t.rows.var(ddof=1),
        t.array.T.squeeze(),
        t.array.argmin(1),
        t.array.tolist(),
    ),
    "new arrays": lambda t: (
        smemkit.full_like(t.array, 2),
        smemkit.arange(5, device=t.device),
        np.max(t.array, 1),
    ),
    "operator @": lambda t: t.array @ t.other.T,
    "views": lambda t: (t.array[1:, ::-2].T.reshape(-1)[3:], t.array.ravel(), t.array[..., None, 0].mT, [*t.rows]),
    "assignment": assign,
    "copies": lambda t: (copy.copy(t.rows), t.rows.astype(np.float64), t.array.to("cpu"), t.array.to(t.device)),
    "numbers": lambda t: (t.array.item(3), float(t.array[1, 2]), int(t.other[0, 0]), bool(t.array[:1, :1])),
    "numpy": lambda t: (t.array.numpy(), t.rows.numpy(), np.asarray(t.rows)),
    "text": lambda t: (repr(t.array[:2, :2]), str(t.rows[0])),
    "pickle": lambda t: pickle.loads(pickle.dumps(t.rows)),
    "DLPack": share,
    "capsules": lambda t: (t.array.__dlpack__(), t.rows.__dlpack__(max_version=(1, 1))),
    "streams": lambda t: (smemkit.Stream(device=t.device).record(), smemkit.Stream(t.stream)),
    "events": lambda t: (t.event.record(t.stream), t.stream.wait(t.event), t.event.synchronize()),
    "with a stream": with_stream,
    "in parts": in_parts,
    "timed": lambda t: smemkit.timed(smemkit.sum, t.x, device=t.device),
    "memory": lambda t: (smemkit.memory_stats(t.device), smemkit.Device(t.device)),
}
REFUSED = {
    "shapes": lambda t: smemkit.matmul(t.x, t.x[:3], device=t.device),
    "out of another shape": lambda t: smemkit.matmul(t.array, t.other.T, out=t.out_array),
    "out on another device": lambda t: smemkit.add_one(t.x, out=t.out_array, device=t.device),
    "out of another dtype": lambda t: smemkit.add_one(t.wide, out=t.x.astype(np.int8), device=t.device),
    "two devices": lambda t: smemkit.matmul(t.array, t.x.T),
    "axis": lambda t: smemkit.sum(t.array, 2),
    "axes": lambda t: smemkit.transpose(t.array, (0, 0)),
    "dtype": lambda t: smemkit.convert(t.x, "M8[s]", device=t.device),
    "initial": lambda t: smemkit.max(t.x, initial="x", device=t.device),
    "nothing": lambda t: smemkit.max(t.x[:0], device=t.device),
    "kernel": lambda t: smemkit.sum(t.array, kernel="nope"),
    "device": lambda t: smemkit.sum(t.x, device="gpu"),
    "stream": lambda t: smemkit.sum(t.array, stream="nope"),
    "index": lambda t: t.array[9],
    "fancy index": lambda t: t.array[[0, 1]],
    "shape": lambda t: t.array.reshape(4, 4),
    "value": lambda t: t.array.__setitem__(0, "a"),
    "length": lambda t: t.array.__setitem__(0, [1, 2]),
    "summand": lambda t: t.array + "a",
    "compared": lambda t: t.array == "a",
    "beside a NumPy array": lambda t: t.x != t.array,
    "factor": lambda t: t.array @ t.array,
    "keyword": lambda t: t.array.sum(nope=0),
    "function": lambda t: np.sort(t.array),
    "item": lambda t: t.array.item(99),
    "text": lambda t: smemkit.asarray(np.array(["a"]), device=t.device),
    "capsule": lambda t: smemkit.from_dlpack(object()),
    "copy": lambda t: smemkit.from_dlpack(t.array, device="cuda:99"),
    "version": lambda t: t.array.__dlpack__(max_version="x"),
    "wait": lambda t: t.stream.wait(7.5),
    "memory": lambda t: smemkit.memory_stats("gpu"),
}


def refused(name):
    def call(t):
        try:
            REFUSED[name](t)
        except (TypeError, ValueError, IndexError, smemkit.NoDeviceError):
            return
        pytest.fail(f"not refused: {name}")

    return call


def without_memory(t):
    """Makes each of these calls once while allocations on the device fail."""
    for name in ("matmul", "convert", "asarray", "arithmetic", "in parts", "copies"):
        _core.fail_allocation(1)
        with contextlib.suppress(smemkit.OutOfMemoryError):
            CALLS[name](t)
            pytest.fail(f"no allocation failed: {name}")
        _core.fail_allocation(0)


EVERY = CALLS | {f"refused: {name}": refused(name) for name in REFUSED} | {"without memory": without_memory}


def state(t):
    """The counts that must not grow."""
    smemkit.synchronize(t.device)
    gc.collect()
    return t.held(), _core.allocations(), smemkit.memory_stats(t.device).used


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in CALLS else pytest.mark.slow) for name in EVERY]
)
@pytest.mark.covering(most=4)
def test_thousands_of_calls_of_each_kind_leave_nothing_behind(device, name):
    t, call = CallOperands(device), EVERY[name]
    # "in parts" and "without memory" make about ten calls each
    count = times(3000, 1000) // (10 if name in ("in parts", "without memory") else 1)
    for _ in range(50):
        call(t)
    before, blocks = state(t), sys.getallocatedblocks()
    for _ in range(count):
        call(t)
    assert state(t) == before
    # nothing in every tenth call: threads that tests of other libraries have left allocate a few blocks, too
    assert sys.getallocatedblocks() - blocks < max(100, count // 10)


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("memory", "events")])
def test_failing_device_allocations_leak_nothing(device, name):
    """The first allocation on the device fails, then the second, … until the call succeeds."""
    t, call = CallOperands(device), CALLS[name]
    call(t)
    before = state(t)
    for n in itertools.count(1):
        _core.fail_allocation(n)
        try:
            call(t)
            failed = False
        except smemkit.OutOfMemoryError as error:
            assert "for a test" in str(error)
            failed = True
        left = _core.fail_allocation(0)
        assert state(t) == before
        if not failed:
            break
    assert left > 0
    assert_array_equal(smemkit.add_one(t.array).numpy(), X + 1)


# ---- the end of the process -------------------------------------------------------------------------------------

SCRIPT_SETUP = """
import sys, threading, time
import numpy as np
import smemkit
from smemkit import _core

device = sys.argv[1]
large = np.ones((4096, 4096), np.float32) if device != "cpu" else np.ones((60, 60), np.float32)
if device == "cpu":
    _core.set_part_bytes(4096)
"""
EXIT_SCRIPTS = {
    "work is queued": """
x = smemkit.asarray(large, device=device)
for _ in range(20):
    x = x @ x
    smemkit.sum(x, 0)
""",
    "work is queued on streams": """
streams = [smemkit.Stream(device=device) for _ in range(4)]
x = smemkit.asarray(large, device=device)
kept = []
for stream in streams:
    with stream:
        kept += [x @ x, smemkit.transpose(x)]
        kept.append(stream.record())
""",
    "the thread pools are running": """
smemkit.transpose(large, device=device)
""",
    "the main thread has raised SystemExit": """
smemkit.transpose(large, device=device)
sys.exit(0)
""",
    "a daemon thread is in a call": """
def work():
    while True:
        smemkit.matmul(large, large, device=device)
threading.Thread(target=work, daemon=True).start()
time.sleep(1)
""",
    "daemon threads copy": """
def work():
    while True:
        smemkit.transpose(large, device=device)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(1)
""",
    "daemon threads begin to copy": """
for _ in range(4):
    threading.Thread(target=smemkit.transpose, args=(large,), kwargs={"device": device}, daemon=True).start()
""",
    "a daemon thread queues work": """
def work():
    x = smemkit.asarray(large, device=device)
    while True:
        y = x @ x
        y.numpy()
threading.Thread(target=work, daemon=True).start()
time.sleep(1)
""",
    "a thread is in a call": """
def work():
    for _ in range(5):
        assert (smemkit.matmul(large, large, device=device) == len(large)).all()
    print("the thread has ended")
threading.Thread(target=work).start()
""",
    "arrays are in a cycle": """
class Node:
    pass
node = Node()
node.self, node.array, node.stream = node, smemkit.asarray(large, device=device), smemkit.Stream(device=device)
node.view, node.capsule = node.array[::2], node.array.__dlpack__()
node.event = node.stream.record()
sys.modules["kept"] = node
""",
    "a thread has entered a stream": """
def work():
    smemkit.Stream(device=device).__enter__()
    x = smemkit.asarray(large, device=device)
    globals()["kept"] = x + x
thread = threading.Thread(target=work)
thread.start()
thread.join()
""",
    "arrays are released at the very end": """
class Last:
    def __init__(self, array):
        self.array = array
    def __del__(self):
        self.array = None
kept = Last(smemkit.asarray(large, device=device))
_core.kept = Last(smemkit.asarray(large, device=device))
""",
    "calls failed": """
for n in range(1, 5):
    _core.fail_allocation(n)
    try:
        smemkit.matmul(large, large.astype(">f4"), device=device)
    except smemkit.OutOfMemoryError:
        pass
    _core.fail_allocation(0)
""",
}


@pytest.mark.parametrize("name", EXIT_SCRIPTS)
@pytest.mark.covering(most=3)
def test_process_exits_cleanly_while(device, name):
    script = EXIT_SCRIPTS[name].replace("sleep(1)", f"sleep({times(1, 0.2)})")
    done = run_python("-c", SCRIPT_SETUP + script, device, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("the thread has ended\n" if "the thread has ended" in EXIT_SCRIPTS[name] else "")


ATEXIT_SCRIPT = """
import atexit
def last():
    assert (smemkit.transpose(large, device=device) == 1).all()
    assert smemkit.sum(smemkit.asarray(large, device=device)).item() == large.size
    print("worked")
atexit.register(lambda: last())
"""


def test_calls_in_atexit_work(device):
    """Functions that are registered before smemkit is imported run after its own, when its thread pools have
    ended."""
    done = run_python("-c", ATEXIT_SCRIPT + SCRIPT_SETUP + "smemkit.transpose(large, device=device)", device)
    assert (done.returncode, done.stdout, done.stderr) == (0, "worked\n", "")
    done = run_python("-c", SCRIPT_SETUP + ATEXIT_SCRIPT, device)
    assert (done.returncode, done.stdout, done.stderr) == (0, "worked\n", "")


def test_close_may_be_called_at_any_time(device):
    script = "_core.close()\nfor _ in range(2):\n    smemkit.transpose(large, device=device)\n    _core.close()\n"
    done = run_python("-c", SCRIPT_SETUP + script, device)
    assert (done.returncode, done.stderr) == (0, "")


# ---- fork -------------------------------------------------------------------------------------------------------

FORK = """
import os, pickle
x = np.arange(1000, dtype=np.float32)
there, stream = smemkit.asarray(x, device=device), smemkit.Stream(device=device)
event = stream.record()
smemkit.transpose(large, device=device)  # the thread pools are running
child = os.fork()
if child == 0:
    calls = [
        lambda: smemkit.sum(x, device=device),
        lambda: smemkit.transpose(large, device=device),
        lambda: smemkit.sum(there),
        lambda: there.numpy(),
        lambda: there[::2].numpy(),
        lambda: there + 1,
        lambda: there.item(0),
        lambda: repr(there),
        lambda: smemkit.asarray(x, device=device),
        lambda: smemkit.zeros(3, device=device),
        lambda: smemkit.Stream(device=device),
        lambda: stream.record(),
        lambda: stream.synchronize(),
        lambda: event.synchronize(),
        lambda: smemkit.synchronize(device),
        lambda: smemkit.memory_stats(device),
        lambda: smemkit.empty_cache(device),
    ]
    for i, call in enumerate(calls):
        try:
            call()
        except smemkit.FatalCudaError as error:
            assert "CUDA was initialised before fork(); use the 'spawn' start method" in str(error), (i, error)
        else:
            assert device == "cpu", i
    assert smemkit.sum(x, device="cpu") == x.sum()
    assert there[1:].shape == (999,)
    del there, stream, event
    sys.exit(7)  # the interpreter ends normally
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert status == 7, status
assert smemkit.sum(there).item() == x.sum()
assert (smemkit.transpose(large, device=device) == 1).all()
"""


def test_forked_child_gets_an_error_and_exits_cleanly(device):
    done = run_python("-W", "ignore", "-c", SCRIPT_SETUP + FORK, device)
    assert (done.returncode, done.stderr) == (0, "")


# ---- a GPU that is lost -----------------------------------------------------------------------------------------

LOST = """
x = np.arange(1000, dtype=np.float32)
there, stream = smemkit.asarray(x, device=device), smemkit.Stream(device=device)
if "pools" in sys.argv:
    smemkit.transpose(large, device=device)
host, out = (large, np.full_like(large, np.nan)) if "large" in sys.argv else (x, np.full(1000, np.nan, np.float32))
bad = smemkit.Kernel("__global__ void bad(float *x) { x[1ll << 44] = 1; }")
with smemkit.Device(device):
    bad[1, 1](there)
time.sleep(0.2)  # so that the next call meets the error when it begins
try:
    smemkit.transpose(host, out=out, device=device)
except smemkit.FatalCudaError as error:
    assert error.code and error.name.startswith("cudaError"), (error.code, error.name)
    assert np.isnan(out).all() or "out has been written in part" in str(error)
else:
    raise AssertionError("the device is not lost")
calls = [
    lambda: smemkit.sum(x, device=device),
    lambda: smemkit.transpose(large, device=device),
    lambda: smemkit.matmul(large, large, device=device),
    lambda: smemkit.sum(there),
    lambda: there + there,
    lambda: there.numpy(),
    lambda: there[::2].numpy(),
    lambda: there.item(0),
    lambda: there.__setitem__(0, 5),
    lambda: there.to("cpu"),
    lambda: smemkit.asarray(x, device=device),
    lambda: smemkit.zeros(3, device=device),
    lambda: smemkit.synchronize(device),
    lambda: smemkit.memory_stats(device),
    lambda: smemkit.empty_cache(device),
]
allocated = _core.allocations()
for turn in range(3):
    for i, call in enumerate(calls):
        start = time.perf_counter()
        try:
            call()
        except smemkit.FatalCudaError as error:
            assert time.perf_counter() - start < 0.5, i
            assert error.code, i
        else:
            raise AssertionError(i)
        assert smemkit.matmul(x[:10], x[:10], device="cpu") == 285
assert _core.allocations() == allocated
del there, stream
assert smemkit.asarray(x, device="cpu").numpy().sum() == x.sum()
"""


@GPU
@pytest.mark.parametrize("options", [(), ("pools",), ("large",), ("pools", "large")], ids=str)
def test_lost_gpu_fails_fast_and_the_cpu_device_works(device, options):
    pytest.importorskip("cuda.core")
    done = run_python("-c", SCRIPT_SETUP + LOST, device, *options, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


# ---- errors during a call ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_device_out_is_untouched_or_reported_as_partial(device, whole):
    t = CallOperands(device)
    seen = set()
    for n in itertools.count(1):
        target = on(device, poison((300, 7), np.float32))
        host = integers((300, 7), ">f8")
        _core.fail_allocation(n)
        try:
            with parts_of(0 if whole else 1000):
                smemkit.convert(t.array, out=t.out_array)
                target[...] = host.astype(">f4")
            break
        except smemkit.OutOfMemoryError as error:
            touched = not np.isnan(target.numpy()).all()
            assert bool(re.search("written in part", str(error))) is touched
            seen.add(touched)
        finally:
            _core.fail_allocation(0)
    assert seen <= ({False} if whole else {False, True})
    assert_array_equal(target.numpy(), host)


def test_failing_threads_do_not_affect_others(device):
    """Every second call is rejected; the others must be correct."""
    t, wrong = CallOperands(device), []

    def work(i):
        for turn in range(200):
            try:
                if (i + turn) % 2:
                    refused("shapes")(t)
                elif not np.array_equal(smemkit.matmul(t.x, t.x.T, device=device), X @ X.T):
                    wrong.append(i)
            except BaseException as error:
                wrong.append(error)

    allocated = _core.allocations()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert _core.allocations() == allocated
