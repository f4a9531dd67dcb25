"""NumPy results of a GPU: some are in pinned memory, which is used again when they die."""

import gc

import numpy as np
import pytest
from cases import run_python

import smemkit

N = 512  # a result of 1 MiB


@pytest.fixture(params=[np.float32, np.complex128])
def matrix(request):
    return np.random.default_rng(7).integers(-9, 9, (N, N)).astype(request.param)


def transposed(matrix, device, count=8):
    """The last of results that die at once: from the third on they are in the same pinned memory."""
    for _ in range(count):
        result = smemkit.transpose(matrix, device=device)
    return result


def test_a_result_has_its_memory_to_itself(matrix, device):
    transposed(matrix, device)
    kept = [smemkit.transpose(matrix + i, device=device) for i in range(12)]
    arrays = [smemkit.asarray(matrix + i, device=device) for i in range(12)]
    copies = [array.numpy() for array in arrays]
    for i, (result, copy) in enumerate(zip(kept, copies, strict=True)):
        assert np.array_equal(result, (matrix + i).T) and np.array_equal(copy, matrix + i), i
    places = [array.ctypes.data for array in kept + copies]
    assert len(set(places)) == len(places)


def test_a_view_keeps_the_memory(matrix, device):
    transposed(matrix, device)
    view = smemkit.transpose(matrix, device=device)[3:, ::2]
    for i in range(8):
        smemkit.transpose(matrix + i, device=device)
    assert np.array_equal(view, matrix.T[3:, ::2])


def test_a_result_is_an_ordinary_array(matrix, device):
    result = transposed(matrix, device)
    assert result.flags.owndata and result.flags.writeable and result.flags.c_contiguous and result.base is None
    result[...] = 5
    assert (result == 5).all()
    result.resize((N + 1, N), refcheck=False)  # moves it
    assert (result[:N] == 5).all() and (result[N] == 0).all()
    result.resize((3, 5), refcheck=False)
    assert (result == 5).all()
    result = transposed(matrix, device)
    result.resize((N // 2, N), refcheck=False)
    assert np.array_equal(result, matrix.T[: N // 2])


def test_results_as_operands(matrix, device):
    """From pinned memory operands are uploaded without a copy on the host."""
    result = transposed(matrix, device)
    for i in range(4):
        result = smemkit.transpose(result, device=device)
        assert np.array_equal(result, matrix if i % 2 == 0 else matrix.T), i


def test_empty_cache_spares_results(matrix, device):
    result = transposed(matrix, device)
    smemkit.empty_cache(device)
    assert np.array_equal(result, matrix.T)
    smemkit.empty_cache(device)
    del result
    assert np.array_equal(transposed(matrix, device), matrix.T)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_results_that_die_are_pinned_and_others_are_not(device):
    torch = pytest.importorskip("torch")
    torch.cuda.init()  # before that torch finds nothing pinned

    def is_pinned(array):
        return torch.from_numpy(array).is_pinned()

    smemkit.empty_cache(device)
    matrix = np.ones((700, 700), np.float32)
    kept = [smemkit.transpose(matrix, device=device) for _ in range(20)]
    assert not any(map(is_pinned, kept))
    assert is_pinned(transposed(matrix, device))
    assert is_pinned(transposed(matrix[:680], device))  # about the same size
    assert not is_pinned(smemkit.transpose(matrix[:100], device=device))
    many = [smemkit.transpose(matrix, device=device) for _ in range(300)]
    assert sum(map(is_pinned, many)) * matrix.nbytes <= 256 << 20
    del kept, many
    gc.collect()
    large = np.ones((6000, 6000), np.float32)
    assert not is_pinned(transposed(large, device, 4))


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
@pytest.mark.parametrize("stream", ["default", "other"])
def test_memory_is_not_used_again_while_others_copy_from_it(device, stream):
    """torch copies from pinned memory without waiting, and the copy is behind other work."""
    torch = pytest.importorskip("torch")
    torch.cuda.init()
    ones = np.ones((700, 700), np.float32)
    large = torch.ones((8192, 8192), device="cuda")
    transposed(ones, device)
    with torch.cuda.stream(torch.cuda.Stream() if stream == "other" else torch.cuda.default_stream()):
        for i in range(10):
            result = torch.from_numpy(smemkit.transpose(ones * i, device=device))
            assert i == 0 or result.is_pinned()
            for _ in range(3):
                large @ large
            there = result.to("cuda", non_blocking=True)
            del result
            smemkit.transpose(ones * -1, device=device)
            smemkit.transpose(ones * -1, device=device)
            assert bool((there == i).all()), i


FORK = """
import os, sys, numpy, smemkit
x = numpy.arange(1 << 20, dtype=numpy.float32).reshape(1024, 1024)
for _ in range(8):
    result = smemkit.transpose(x, device="cuda:0")
child = os.fork()
if child == 0:
    right = numpy.array_equal(result, x.T)
    del result  # its memory is not given to anyone
    os._exit(0 if right else 3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
result[...] = 0  # the parent's pages are others than before
for i in range(8):
    del result
    result = smemkit.transpose(x + i, device="cuda:0")
    if not numpy.array_equal(result, (x + i).T):
        sys.exit(4)
    result[...] = 0
sys.exit(status)
"""
FORK_AND_RESIZE = """
import os, sys, numpy, smemkit
x = numpy.arange(1 << 20, dtype=numpy.float32).reshape(1024, 1024)
for _ in range(8):
    result = smemkit.transpose(x, device="cuda:0")
child = os.fork()
result[1] = 7
if child == 0:
    result.resize((1025, 1024), refcheck=False)
    os._exit(0 if (result[1] == 7).all() and (result[1024] == 0).all() else 3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
there = smemkit.asarray(result, device="cuda:0")  # by DMA
smemkit.transpose(x, out=result, device="cuda:0")
expected = x.T.copy()
ok = numpy.array_equal(result, expected)
expected[1] = 7
sys.exit(status or not ok or not numpy.array_equal(there.numpy(), expected))
"""


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
@pytest.mark.parametrize("program", [FORK, FORK_AND_RESIZE])
def test_a_forked_child_has_the_results_and_the_parent_its_own(device, program):
    done = run_python("-W", "ignore", "-c", program)
    assert done.returncode == 0, done.stderr
