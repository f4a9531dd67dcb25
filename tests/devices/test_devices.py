"""Devices: the default, their properties and memory, and what threads, forks and Ctrl-C do to them."""

import gc
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest
from cases import Kernel, expect_launches, run_python, small_problem
from numpy.testing import assert_array_equal
from tiers import times

import smemkit
from smemkit import _core


def default_device():
    """The device of a call that names none."""
    return smemkit.zeros(1).device


# ---- the default ------------------------------------------------------------------------------------------------


def test_the_default_is_the_first_gpu_or_the_cpu():
    done = run_python("-c", "import smemkit; print(smemkit.zeros(1).device)")
    assert done.stdout.strip() == ("cuda:0" if smemkit.is_available() else "cpu"), done.stderr


def test_the_environment_names_the_default(device):
    script = "import smemkit; print(smemkit.Device().name, smemkit.zeros(1).device)"
    done = run_python("-c", script, SMEMKIT_DEVICE=device)
    assert done.stdout.split() == [device, device], done.stderr


def test_environment_with_invalid_device_name():
    done = run_python("-c", "import smemkit; smemkit.zeros(1)", SMEMKIT_DEVICE="gpu")
    assert "ValueError: SMEMKIT_DEVICE: expected 'cpu', 'cuda' or 'cuda:N', got 'gpu'" in done.stderr


def test_environment_with_missing_device():
    done = run_python("-c", "import smemkit; smemkit.zeros(1)", SMEMKIT_DEVICE="cuda:99")
    assert "NoDeviceError: SMEMKIT_DEVICE: 'cuda:99' is not available: " in done.stderr


def test_device_context_sets_the_default(device):
    before = default_device()
    with smemkit.Device(device) as entered:
        assert (default_device(), entered, smemkit.Device()) == (device, device, device)
        with smemkit.Device("cpu"):
            assert default_device() == "cpu"
        assert default_device() == device
    assert default_device() == before


def test_device_context_restores_the_default_on_error(device):
    before = default_device()
    with pytest.raises(KeyError), smemkit.Device(device):
        raise KeyError
    assert default_device() == before


def test_default_device_is_per_thread(device):
    found = []
    with smemkit.Device("cpu"):
        thread = threading.Thread(target=lambda: found.append(_core.default_device()))
        thread.start()
        thread.join()
    assert found == [smemkit.Device().name]


def test_host_kernels_ignore_the_default_device(device):
    (x, y), expected = small_problem("matmul", "float32")
    with smemkit.Device(device), expect_launches(1):
        assert_array_equal(smemkit.matmul(x, y, kernel="sequential"), expected)


# ---- properties -------------------------------------------------------------------------------------------------


def test_the_cpu_is_always_there_and_last():
    assert smemkit.devices()[-1] == "cpu"
    assert all(isinstance(device, smemkit.Device) for device in smemkit.devices())


def test_is_available_means_a_gpu():
    reason = _core.cuda_unavailable()
    assert smemkit.is_available() is (reason is None) is any(d.is_cuda for d in smemkit.devices())
    assert reason is None or len(reason) > 20


def test_device_properties(device):
    here = smemkit.Device(device)
    assert (here.name, here, here.is_cuda) == (device, device, device != "cpu")
    assert (here.warp_size, here.max_threads_per_block) == (32, 1024)
    assert 48 * 1024 <= here.shared_per_block <= here.shared_per_block_optin <= here.shared_per_multiprocessor
    assert 0 < here.free_bytes <= here.memory_bytes
    assert here.multiprocessors >= 1
    assert repr(here).startswith(f"<Device {device}: {here.description}")
    assert here.description in here._repr_html_()


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_gpu_properties(device):
    here = smemkit.Device("cuda")
    assert here.name == device
    assert here.capability >= (7, 5)
    assert here.l2_bytes > 0
    assert here.memory_bandwidth > 1e10
    assert here.driver_version
    assert here.runtime_version


def test_the_cpu_has_no_capability():
    here = smemkit.Device("cpu")
    assert (here.capability, here.driver_version, here.runtime_version) == (None, None, None)


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "cuda:", "cuda:-1", "cuda:x", "cuda:0x", "cuda:00", "cpu\0"])
def test_invalid_device_names(name):
    with pytest.raises(ValueError, match=r"device: expected 'cpu', 'cuda' or 'cuda:N', got "):
        smemkit.Device(name)


def test_missing_device_error_says_why():
    why = "there (is|are) .+ CUDA device" if smemkit.is_available() else _core.cuda_unavailable()[:20]
    for ask in (smemkit.Device, smemkit.synchronize, lambda name: smemkit.zeros(1, device=name)):
        with pytest.raises(smemkit.NoDeviceError, match=f"device: 'cuda:99' is not available: {why}"):
            ask("cuda:99")
    assert issubclass(smemkit.NoDeviceError, smemkit.Error)


def test_synchronize(device):
    smemkit.synchronize(device)
    smemkit.synchronize()


# ---- memory -----------------------------------------------------------------------------------------------------


def statistics(device):
    """Memory statistics after all pending releases."""
    smemkit.synchronize(device)
    gc.collect()
    smemkit.synchronize(device)
    return smemkit.memory_stats(device)


def test_memory_stats_count_arrays(device):
    before = statistics(device)
    array = smemkit.empty((1 << 20,), "float64", device=device)
    now = statistics(device)
    assert array.nbytes <= now.used - before.used <= 2 * array.nbytes
    assert now.peak >= max(before.peak, now.used)
    assert now.reserved >= now.used
    view = array[::2]
    assert statistics(device).used == now.used
    del array
    assert statistics(device).used == now.used  # the view keeps it
    del view
    after = statistics(device)
    assert (after.used, after.peak) == (before.used, now.peak)


def test_calls_release_scratch_memory(device):
    before = statistics(device)
    x = np.ones((300, 1000), ">f8")
    assert_array_equal(smemkit.sum(x, 0, device=device), x.sum(0))
    after = statistics(device)
    assert after.used == before.used
    assert after.peak >= x.nbytes // 3  # the call may be divided into parts


def test_empty_cache_keeps_live_arrays(device):
    x = smemkit.asarray(np.arange(1000), device=device)
    y = smemkit.add_one(x)
    del x
    smemkit.empty_cache(device)
    assert smemkit.memory_stats(device).reserved >= y.nbytes
    assert_array_equal(y.numpy(), np.arange(1, 1001))


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_empty_cache_gives_memory_back(device):
    gc.collect()
    smemkit.empty_cache(device)
    before = smemkit.memory_stats(device).reserved
    array = smemkit.empty(1 << 30, "uint8", device=device)
    del array
    assert smemkit.memory_stats(device).reserved >= before + (1 << 30)  # kept for the next allocation
    free = smemkit.Device(device).free_bytes
    smemkit.empty_cache(device)
    assert smemkit.memory_stats(device).reserved <= before
    assert smemkit.Device(device).free_bytes >= free + (1 << 29)


def test_the_default_devices_memory(device):
    with smemkit.Device(device):
        array = smemkit.zeros(100_000)
        assert smemkit.memory_stats() == smemkit.memory_stats(device)
        assert smemkit.memory_stats().used >= array.nbytes
        smemkit.empty_cache()


@pytest.mark.parametrize("call", [smemkit.memory_stats, smemkit.empty_cache])
def test_memory_functions_reject_unknown_devices(call):
    with pytest.raises(ValueError, match="device: expected 'cpu', 'cuda' or 'cuda:N', got 'gpu'"):
        call("gpu")
    with pytest.raises(smemkit.NoDeviceError, match="device: 'cuda:99' is not available: "):
        call("cuda:99")
    with pytest.raises(TypeError, match="device: expected"):
        call(7)


def test_memory_stats_str():
    stats = smemkit.MemoryStats(used=0, peak=3 << 20, reserved=5 << 30)
    assert str(stats) == "0 bytes used, 3 MiB at most, 5 GiB reserved"
    assert str(stats) in stats._repr_html_()
    with pytest.raises(AttributeError):
        stats.used = 1


# ---- the executor's threads -------------------------------------------------------------------------------------


@pytest.fixture
def threads():
    before = smemkit.get_num_threads()
    yield
    smemkit.set_num_threads(before)


@pytest.mark.parametrize("count", [1, 2, 5, 1])
def test_results_do_not_depend_on_num_threads(threads, count):
    smemkit.set_num_threads(count)
    (x, y), expected = small_problem("matmul", "int32")
    assert smemkit.get_num_threads() == smemkit.Device("cpu").multiprocessors == count
    assert_array_equal(smemkit.matmul(x, y, tile=2, device="cpu"), expected)


@pytest.mark.parametrize("count", [0, -1, 257])
def test_too_few_or_too_many_threads(count):
    before = smemkit.get_num_threads()
    with pytest.raises(ValueError, match=rf"n: expected 1 \.\.\. 256 threads, got {count}"):
        smemkit.set_num_threads(count)
    assert smemkit.get_num_threads() == before


@pytest.mark.parametrize("count", ["2", 2.0, None, True])
def test_set_num_threads_requires_an_integer(count):
    with pytest.raises(TypeError, match=f"n: expected an integer, got {type(count).__name__}"):
        smemkit.set_num_threads(count)


def test_eight_threads_call_all_operations_at_once(device):
    rows = [row for row in smemkit.kernels() if row.default]
    kernels = [Kernel(row, dtype, default=True) for row in rows for dtype in row.dtypes]
    problems = [(kernel, *small_problem(kernel.row.op, kernel.dtype)) for kernel in kernels]
    start, failures, rounds = threading.Barrier(8), [], times(5, 3)

    def call(first):
        start.wait()
        for i in range(first, first + rounds * len(problems)):
            kernel, operands, expected = problems[i % len(problems)]
            try:
                assert_array_equal(kernel(*operands, device=device), expected)
            except Exception as error:
                failures.append(error)

    workers = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    with expect_launches(8 * rounds * len(problems)):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not failures


FORK = """
import os, sys, numpy, smemkit
x = numpy.arange(1000, dtype=numpy.float32)
assert smemkit.sum(x, device="cpu") == x.sum()  # the workers are running
child = os.fork()
right = all(smemkit.sum(x, block_size=32, device="cpu") == x.sum() for _ in range(10))
if child == 0:
    os._exit(0 if right else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not right)
"""


def test_the_cpu_works_in_a_forked_child():
    done = run_python("-W", "ignore", "-c", FORK)
    assert done.returncode == 0, done.stderr


FORK_CUDA = """
import os, sys, numpy, smemkit
x = numpy.arange(1000, dtype=numpy.float32)
there = smemkit.asarray(x, device="cuda:0")
child = os.fork()
if child == 0:
    for call in (lambda: smemkit.sum(x, device="cuda:0"), lambda: smemkit.sum(there), lambda: there.numpy()):
        try:
            call()
        except smemkit.FatalCudaError as error:
            assert "CUDA was initialised before fork(); use the 'spawn' start method" in str(error)
        else:
            os._exit(4)
    os._exit(0 if smemkit.sum(x, device="cpu") == x.sum() else 3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert smemkit.sum(there).item() == x.sum()
sys.exit(status)
"""


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_cuda_refuses_a_forked_child_and_says_why(device):
    done = run_python("-W", "ignore", "-c", FORK_CUDA)
    assert done.returncode == 0, done.stderr


MISSING_KERNELS = """
import numpy, smemkit
from smemkit import _core
x = smemkit.asarray(numpy.ones((64, 64), numpy.float16), device="cuda:0")
major, minor = smemkit.Device("cuda:0").capability
calls = {"add": lambda: x + x, "convert": lambda: x.astype(numpy.float32)}
for name in (None, "naive", "tiled", "mma", "matvec") + ("wgmma",) * ((major, minor) == (9, 0)):
    calls[f"matmul {name}"] = lambda name=name: smemkit.matmul(x, x[:, :1] if name == "matvec" else x, kernel=name)
for name in (None, "atomic", "tree", "shuffle", "single_pass", "rows"):
    calls[f"reduce {name}"] = lambda name=name: smemkit.sum(x, kernel=name)
for name in (None, "naive", "padded", "vectorized"):
    calls[f"transpose {name}"] = lambda name=name: smemkit.transpose(x, kernel=name)
archs = _core.build_info()["archs"]
expected = f" is not in this build for cuda:0, an sm_{major}{minor}: smemkit was built for {archs}. To add a GPU"
for what, call in calls.items():
    try:
        call()
        print(what, "raised nothing")
    except smemkit.Error as error:
        if expected not in str(error):
            print(what, type(error), error)
print(smemkit.sum(numpy.ones(9), device="cpu"))
"""


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_a_kernel_that_is_not_compiled_for_a_gpu_says_for_which_it_is(device):
    if "compute_" in _core.build_info()["archs"]:
        pytest.skip("the driver compiles this build's kernels")
    done = run_python("-c", MISSING_KERNELS, CUDA_FORCE_PTX_JIT="1")  # the driver ignores compiled kernels
    assert (done.stdout, done.stderr) == ("9.0\n", "")


CTRL_C = """
import numpy, signal, smemkit, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
x = numpy.ones((4000, 4000), numpy.float32)
out = numpy.full_like(x, numpy.nan)
used = sys.argv[1] in ("sequential reduce", "sequential transpose")
bytes = smemkit.zeros((12000, 8000) if used else (), numpy.int8, device="cpu")
long_calls = {  # they take minutes or seconds
    "naive": lambda: smemkit.matmul(x, x, kernel="naive", out=out, device="cpu"),
    "sequential": lambda: smemkit.matmul(x, x, kernel="sequential", out=out, device="cpu"),
    "sequential reduce": lambda: [smemkit.sum(bytes, kernel="sequential") for _ in range(600)],
    "sequential transpose": lambda: [smemkit.transpose(bytes, kernel="sequential") for _ in range(60)],
}
try:
    print("begins", flush=True)
    long_calls[sys.argv[1]]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert numpy.isnan(out).all()
assert smemkit.sum(x[:2], device="cpu") == 8000
print("goes on", flush=True)
"""


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    "call",
    ["naive", "sequential", "sequential reduce", "sequential transpose"],
)
@pytest.mark.covering(most=2)
def test_ctrl_c_ends_a_launch_and_the_next_one_works(call):
    command = [sys.executable, "-c", CTRL_C, call]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tempfile.gettempdir()) as process:
        try:
            assert process.stdout.readline() == "begins\n"
            time.sleep(times(0.5, 0.1))
            process.send_signal(signal.SIGINT)
            start = time.perf_counter()
            assert process.stdout.readline() == "interrupted\n"
            assert time.perf_counter() - start < 0.5 + 1.5  # allows for a busy machine
            assert process.stdout.readline() == "goes on\n"
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


INTERRUPTED_COPY = """
import numpy, signal, smemkit, time
x = numpy.ones(1 << 28, numpy.float32)
def copy():
    start = time.perf_counter()
    try:
        smemkit.asarray(x, device="cpu")
    except KeyboardInterrupt:
        pass
    return time.perf_counter() - start
copy()
whole = copy()
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, whole / 4)
interrupted = copy()
assert interrupted < 0.7 * whole, (interrupted, whole)
"""


@pytest.mark.slow  # 2 GiB
def test_ctrl_c_ends_a_copy():
    done = run_python("-c", INTERRUPTED_COPY)
    assert done.returncode == 0, done.stderr


HANDLER = """
import numpy, signal, smemkit
x = numpy.ones((700, 700), numpy.float32)
def handler(number, frame):
    smemkit.sum(x, device="cpu")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    smemkit.matmul(x, x, kernel="naive", device="cpu")
except smemkit.Error as error:
    print(error)
assert smemkit.sum(x, device="cpu") == x.size
"""


def test_launch_in_a_signal_handler_raises_instead_of_deadlocking():
    done = run_python("-c", HANDLER)
    assert done.returncode == 0, done.stderr
    assert "inside another one of the same thread: does a signal handler call smemkit?" in done.stdout


RESIZING = """
import smemkit, numpy, sys, threading, time
x = numpy.ones(40, numpy.float32)
end = time.monotonic() + float(sys.argv[1])
def work():
    while time.monotonic() < end:
        assert smemkit.sum(x, block_size=32, device="cpu") == x.size
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
n = 0
while time.monotonic() < end:
    n += 1
    smemkit.set_num_threads(1 + 5 * (n % 2))  # the next launch ends workers that other launches may rely on
    time.sleep(0.0005)
for thread in threads:
    thread.join()
"""


def test_thread_pool_resizes_during_launches():
    done = run_python("-c", RESIZING, times("3", "0.6"))
    assert done.returncode == 0, done.stderr
