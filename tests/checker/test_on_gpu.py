"""Right kernels, of right and faulty/*.fixed.cu, leave the same numbers on a GPU as on the CPU device."""

import numpy as np
import pytest
from kernel_files import TESTS, read

import smemkit

BY_CHANCE = {  # what they leave depends on which atomic comes first
    "compaction_by_ballot",
    "compaction_count.fixed",
    "compaction_in_block",
    "frontier_queue",
    "lock_per_lane",
    "piece_overwritten.fixed",
    "plain_exchange.fixed",
    "queue_length.fixed",
}
FILES = sorted([*(TESTS / "right").glob("*.cu"), *(TESTS / "faulty").glob("*.fixed.cu")])
FILES = [path for path in FILES if path.stem not in BY_CHANCE]


def on_device(value, device):
    if isinstance(value, smemkit.TensorMap):
        return value.of(smemkit.asarray(value.array, device=device))
    if isinstance(value, np.ndarray) and value.dtype.kind != "V":  # an array of structs is copied by the launch
        return smemkit.asarray(value, device=device)
    return value


def results(case, device):
    """What a launch leaves in the kernel's arrays."""
    with smemkit.Device(device):
        operands = {name: on_device(value, device) for name, value in case.operands().items()}
        case.run(operands)
    arrays = case.arrays(operands)
    return {name: value.numpy() for name, value in arrays.items() if isinstance(value, smemkit.Array)}


@pytest.mark.gpu
@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_right_kernel_leaves_the_same_numbers_on_a_gpu(path):
    if not smemkit.is_available():
        pytest.skip("no CUDA device")
    case = read(path)
    there = results(case, "cuda:0")
    for name, here in results(case, "cpu").items():
        if here.dtype.kind in "fc":
            np.testing.assert_allclose(there[name], here, rtol=1e-3, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(there[name], here, err_msg=name)
