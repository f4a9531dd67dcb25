"""The checker on kernels with common mistakes, and on correct ones.

kernel_files.py reads the files of faulty/ and right/.
"""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from cases import integers, small_problem
from kernel_files import TESTS, Case, read

import smemkit


@pytest.fixture(scope="module", autouse=True)
def _compiled_ahead(request):
    """Compiles the kernels of all selected tests in parallel. Workers that come later find them cached."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    cases = {call.params["case"] for call in calls if call and isinstance(call.params.get("case"), Case)}
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))  # begins with its share
    begin = own * len(cases) // workers
    ordered = sorted(cases, key=lambda case: case.path)
    ordered = ordered[begin:] + ordered[:begin]
    with ThreadPoolExecutor(os.cpu_count() // workers or 1) as pool:
        list(pool.map(lambda case: case.launch(case.operands())[0].compile_checked(), ordered))


def each(folder, pattern="*.cu"):
    """Runs a test on each file of a folder."""
    paths = sorted((TESTS / folder).glob(pattern))
    return pytest.mark.parametrize("case", [pytest.param(read(path), id=path.stem) for path in paths])


FAULTY = [read(path) for path in sorted((TESTS / "faulty").glob("*.cu")) if not path.stem.endswith(".fixed")]
each_faulty = pytest.mark.parametrize("case", [pytest.param(case, id=case.path.stem) for case in FAULTY])


@pytest.mark.parametrize("order", ["as declared", "random"])
@each_faulty
@pytest.mark.covering(1, most=30)
def test_fault_is_found_at_its_line(case, order, monkeypatch):
    kind, *details = case.fault
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "1" if kind == "hang" else "20")
    hazard = next((word for word in details if word in ("RAW", "WAR", "WAW", "proxy")), None)
    here, there = case.line("HERE"), case.line("THERE")
    if kind == "race":
        there = there or here
    report = case.check(**({"schedule": "random", "seed": 1} if order == "random" else {}))
    assert not report.ok
    folded = [consequence for fault in report.faults for consequence in fault.knock_on]
    faults = [*report.faults, *folded]
    for fault in faults:
        assert fault.line in case.marks, report
        other = fault in folded or case.marks[fault.line] == "ALSO"
        assert fault.kind == kind or (fault.kind in details and other), report
        assert fault.other_line is None or fault.other_line in case.marks, report
        assert fault.message, report
    found = [
        fault
        for fault in faults
        if (fault.line == here if there is None else {fault.line, fault.other_line} == {here, there})
        and hazard in (None, fault.hazard)
        and (kind != "race" or order == "random" or fault.warp_synchronous == ("warp-synchronous" in details))
    ]
    assert found, report
    assert "HERE" in found[0].text or "THERE" in found[0].text, report


@each("faulty", "*.fixed.cu")
@pytest.mark.covering(most=12)
def test_fixed_kernels_have_no_fault(case, monkeypatch):
    monkeypatch.setenv("SMEMKIT_WATCHDOG", "20")
    report = case.check()
    assert report.ok, report
    assert report.lines


@pytest.mark.parametrize(("schedule", "seed"), [("serial", 0), ("random", 1), ("random", 2), ("lockstep", 0)])
@each("right")
@pytest.mark.covering(1, most=16)
def test_correct_kernels_have_no_fault(case, schedule, seed):
    operands = case.operands()
    before = {name: np.copy(value) for name, value in case.arrays(operands).items()}
    report = case.check(operands, schedule=schedule, seed=seed)
    assert report.ok, report
    assert report.lines
    for name, value in case.arrays(operands).items():  # a check changes nothing
        np.testing.assert_array_equal(value, before[name])


def test_corpus_is_complete():
    assert len(FAULTY) >= 36
    assert len({case.topic for case in FAULTY}) >= 13
    assert len(list((TESTS / "right").glob("*.cu"))) >= 34
    for case in FAULTY:
        assert case.topic, case.path
        marks = Counter(case.marks.values())
        assert marks["HERE"] == 1, case.path
        assert marks["THERE"] <= 1, case.path
        fixed = read(case.path.with_suffix(".fixed.cu"))
        assert not fixed.fault, fixed.path
        assert not fixed.marks, fixed.path
        assert fixed.arguments == case.arguments, fixed.path


# ---- results of the correct kernels -----------------------------------------------------------------------------


def rows(x, width):
    return x.reshape(-1, width)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layernorm(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


def life(x, y):
    alive = y.now & 1
    around = sum(np.roll(alive, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - alive
    return y.next, (around == 3) | (alive & (around == 2))


def stencil_1d(x, y):
    padded = np.pad(vars(x)["in"], 3)
    return y.out, sum(padded[j : j + 90] for j in range(7))


def heat(x, y):
    s = rows(x.x, 64).astype(float)
    for _ in range(5):
        padded = np.pad(s, ((0, 0), (1, 1)))
        s = 0.25 * padded[:, :-2] + 0.5 * s + 0.25 * padded[:, 2:]
    return rows(y.x, 64), s


def gravity(x, y):
    position, mass = x.position[:, :3].astype(float), x.position[:, 3]
    d = position[None] - position[:, None]
    pull = d * (mass / ((d * d).sum(2) + 0.01) ** 1.5)[:, :, None]
    return y.acceleration[:, :3], pull.sum(1)


def waves(x, y):
    s = np.sin(np.arange(32) * 2 * np.pi / 128) + 1
    shown = (255 * np.outer(s, s) / 4).reshape(2, 16, 2, 16)
    return y.ptr[:, :, 1], shown[:, ::-1, :, ::-1].reshape(32, 32).astype(int)


def rank_sum(x, y):
    mine = rows(x.x, 64)[:, ::-1]
    rank = (rows(x.x, 64)[:, None, :] < mine[:, :, None]).sum(2)
    return rows(y.y, 64), mine + rank[:, ::-1]


def elimination(x, y):
    return y.a[:, 5], np.linalg.solve(x.a[:, :5] + 4 * np.eye(5), x.a[:, 5])


def convolution_2d(x, y):
    padded, weights = np.pad(vars(x)["in"], 1), [1, 2, 1]
    shifted = (weights[i] * weights[j] * padded[i : i + 11, j : j + 16] for i in range(3) for j in range(3))
    return y.out, sum(shifted)


def nearest(x, y):
    best = np.abs(x.points[:, None] - (x.centroids - 1.5)).argmin(1)
    sums = np.bincount(best, x.points, 4)
    return np.r_[y.sums, y.counts], np.r_[sums, np.bincount(best, minlength=4)]


def sparse_rows(x, y):
    products = x.values[:180] * x.x[np.arange(180) * 7 % 64]
    return y.y, np.add.reduceat(products, np.ravel(9 * np.arange(20)[:, None] + [0, 2, 5]))


def powers(x, y):
    s = rows(x.x, 32)[:, :, None].astype(float) ** np.arange(4)
    return y.y, (s + s[:, ::-1]).reshape(64, 4)


def planes(x, y):
    return y.y, x.x.reshape(2, 4, 4, 2, 4)[:, ::-1].transpose(0, 1, 4, 3, 2).reshape(8, 4, 8)


def neighbours(x, y):
    return np.sort(y.next[: y.count[0]]), np.unique((3 * x.frontier[:, None] + [1, 4, 9]) % 256)


def first_three_warps(x, y):
    want = x.x.reshape(2, 4, 32)[:, :, ::-1].copy()
    want[:, 3] = 0
    return y.y, want.reshape(2, 128)


EXPECTED_RESULTS = {  # x: arguments before the launch, y: after it → actual and expected values
    "bulk_ring": lambda x, y: (y.y, x.x.reshape(2, 16, 2, 128).sum((1, 2))),
    "cluster_reduction": lambda x, y: (y.y, x.x.sum(1)),
    "split_k": lambda x, y: (y.c, x.a @ x.b),
    "argmax_structs": lambda x, y: (y.where[0], x.x.argmax()),
    "async_copy": lambda x, y: (rows(y.y, 128), rows(x.x, 128)[:, ::-1]),
    "async_copy_own": lambda x, y: (y.y, x.x + 1),
    "async_double_buffer": lambda x, y: (y.y, x.x.sum(0)[::-1]),
    "atomic_maximum": lambda x, y: (y.most[0], x.x.max()),
    "barrier_of_two_warps": lambda x, y: (y.x, np.r_[x.x[63::-1] + 1, x.x[64:] + 2]),
    "bitonic_sort": lambda x, y: (rows(y.keys, 128), np.sort(rows(x.keys, 128))),
    "buffer_of_two_types": rank_sum,
    "bits_of_floats": lambda x, y: (y.y, abs(x.x)),
    "bytes_of_neighbours": lambda x, y: (y.y, np.where(np.arange(64) % 2, 255 - x.x[::-1], 0)),
    "carved_arrays": lambda x, y: (y.y, (100.5 * x.x + 0.25 * (x.x % 2))[::-1]),
    "compaction_by_ballot": lambda x, y: (np.sort(y.kept[: y.count[0]]), x.x[x.x % 3 == 0]),
    "compaction_in_block": lambda x, y: (np.sort(y.kept[: y.count[0]]), x.x[x.x % 2 == 1]),
    "convolution_2d": convolution_2d,
    "convolution_constant": lambda x, y: (y.y, np.convolve(x.x, [0.1, 0.2, 0.4, 0.2, 0.1], "valid")),
    "cooperative_tiles": lambda x, y: (y.sums, rows(x.x, 64).sum(1)),
    "copy_float4": lambda x, y: (y.y, x.x + (np.arange(259) % 4 == 0) * (np.arange(259) < 256)),
    "dot_product": lambda x, y: (y.c.sum(), x.a.astype(float) @ x.b),
    "dynamic_at_file_scope": lambda x, y: (rows(y.x, 32), 2 * rows(x.x, 32)[:, ::-1]),
    "elimination": elimination,
    "every_thread_fences": lambda x, y: (y.sums, 2 * x.x.sum(0)),
    "extern_in_template": lambda x, y: (rows(y.x, 32), np.roll(rows(x.x, 32), -1, 1)),
    "float_maximum_by_cas": lambda x, y: (y.most[0], x.x.max()),
    "frontier_queue": neighbours,
    "gravity_tiles": gravity,
    "grid_barrier": lambda x, y: (y.x, x.x[::-1]),
    "grid_stride": lambda x, y: (y.y, 4 * x.x),
    "group_reduction": lambda x, y: (y.sums, [x.x.sum(), x.x[:32].sum(), x.x[32:].sum()]),
    "half_pairs": lambda x, y: (y.y, 1.5 * x.x),
    "half_warps": lambda x, y: (y.y, x.x[np.arange(32) ^ 15] + 10 * x.x[np.arange(32) ^ 8]),
    "halves_by_value": lambda x, y: (y.x, 2 * x.x + x.x[::-1]),
    "histogram_per_warp": lambda x, y: (y.histogram, np.bincount(x.x * 7 % 32)),
    "histogram_shared": lambda x, y: (y.histogram, np.bincount(x.x, minlength=256)),
    "jacobi_in_block": heat,
    "layernorm_rows": lambda x, y: (y.y, layernorm(x.x)),
    "leader_broadcast": lambda x, y: (y.x, x.x / np.array([[1], [2], [3]])),
    "lock_as_class": lambda x, y: (y.result, [6, x.x.sum()]),
    "lock_per_lane": lambda x, y: (np.sort(y.order[1:]), np.arange(96)),
    "lookback_scan": lambda x, y: (y.x, x.x.cumsum()),
    "matmul_double_buffer": lambda x, y: (y.c, x.a @ x.b),
    "matmul_edges": lambda x, y: (y.c, x.a @ x.b),
    "matmul_flat_load": lambda x, y: (y.c, x.a @ x.b),
    "matmul_tiled": lambda x, y: (y.C, x.A @ x.B),
    "matvec_warp_per_row": lambda x, y: (y.y, x.a @ x.x),
    "merge_by_rank": lambda x, y: (y.merged, np.sort(np.r_[3 * x.a, 2 * x.b + 20])),
    "message_by_flag": lambda x, y: (y.y, np.tile(7 * np.arange(31, -1, -1), (3, 1))),
    "nearest_centroids": nearest,
    "odd_even_sort": lambda x, y: (y.keys, np.sort(x.keys)),
    "packed_bits": lambda x, y: (y.words[:16].view(np.uint8), x.x % 5 == 0),
    "pairs_of_a_warp": lambda x, y: (y.histogram, [8] * 8),
    "persistent_blocks": lambda x, y: (y.y, x.x**2),
    "pipeline_ring": lambda x, y: (y.y, x.a @ x.x),
    "producer_consumer": lambda x, y: (y.y, 2 * x.x[:, :, ::-1]),
    "radix_split": lambda x, y: (y.y, sorted(x.keys * 37 % 64, key=lambda key: key & 1)),
    "records_by_memcpy": lambda x, y: (rows(y.y, 5), rows(x.x, 5)[::-1]),
    "reduce_interleaved": lambda x, y: (y.sums, rows(x.x, 64).sum(1)),
    "reduce_sequential": lambda x, y: (y.sums, [x.x[:256].sum(), x.x[256:].sum()]),
    "reduce_shuffles": lambda x, y: (y.sums.sum(), x.x.sum()),
    "reduce_unrolled": lambda x, y: (y.sums.sum(), x.x.sum()),
    "reduce_vectors": lambda x, y: (y.sum[0], x.x.sum()),
    "reverse_dynamic": lambda x, y: (y.d, x.d[::-1]),
    "reverse_static": lambda x, y: (y.d, x.d[::-1]),
    "scan_blelloch": lambda x, y: (y.y, x.x.cumsum() - x.x),
    "scan_blelloch_padded": lambda x, y: (rows(y.y, 128), rows(x.x, 128).cumsum(1) - rows(x.x, 128)),
    "scan_brent_kung": lambda x, y: (y.Y, x.X.cumsum()),
    "scan_double_buffer": lambda x, y: (y.x, x.x.cumsum()),
    "scan_in_warps": lambda x, y: (y.x[31::32], rows(x.x, 32).sum(1)),
    "scan_two_barriers": lambda x, y: (rows(y.x, 128), rows(x.x, 128).cumsum(1)),
    "several_kernels": lambda x, y: (y.x, 0.5 * (x.x + 4) + 3),
    "shared_memory_class": lambda x, y: (y.sums, rows(x.x, 128).sum(1)),
    "shorts_in_halves": lambda x, y: (y.y, 3000 * x.x[::2] + 3 * x.x[1::2]),
    "shuffles_of_part": lambda x, y: (rows(y.y, 16), rows(x.x, 16).cumsum(1)),
    "single_pass_all_read": lambda x, y: (y.total[0], x.x.sum()),
    "single_pass_ticket": lambda x, y: (y.total[0], x.x.sum()),
    "softmax_rows": lambda x, y: (y.y, softmax(x.x)),
    "sparse_rows": sparse_rows,
    "spin_lock": lambda x, y: (y.total[0], x.x.sum()),
    "stencil_1d": stencil_1d,
    "stencil_2d": life,
    "three_dimensions": planes,
    "tile_of_float4": lambda x, y: (y.y, x.x.T),
    "transpose_in_place_pairs": lambda x, y: (y.m, x.m.T),
    "transpose_padded": lambda x, y: (y.odata, x.idata.T),
    "transpose_swizzled": lambda x, y: (y.y, x.x.T),
    "tutorial_macros": lambda x, y: (y.C, x.A @ x.B),
    "vectors_by_value": powers,
    "warps_exit_early": first_three_warps,
    "waves_bitmap": waves,
}


@pytest.mark.parametrize("name", EXPECTED_RESULTS)
@pytest.mark.covering(most=24)
def test_correct_kernels_compute_expected_results(name):
    case = read(TESTS / "right" / f"{name}.cu")
    before, after = case.operands(), case.operands()
    case.run(after)
    got, want = EXPECTED_RESULTS[name](SimpleNamespace(**before), SimpleNamespace(**after))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


# ---- smemkit's own kernels --------------------------------------------------------------------------------------

SHAPES = {"matmul": ((33, 40), (40, 35)), "transpose": ((37, 50),), "reduce": ((1000,),)}
OWN = [
    pytest.param(row, dtype, dict(options), id="-".join([row.op, row.name, dtype, *map(str, options.values())]))
    for row in smemkit.kernels()
    if row.needs == "any" and "cpu" in row.devices and hasattr(smemkit, row.op)
    for dtype in ("float32", "int8")
    for options in row.variants
    if dtype in row.dtypes
]


@pytest.mark.parametrize(("row", "dtype", "options"), OWN)
@pytest.mark.covering(1, most=16)
def test_package_kernels_have_no_fault(row, dtype, options):
    operands, _ = small_problem(row.op, dtype)
    if row.op in SHAPES:
        operands = [integers(shape, dtype) for shape in SHAPES[row.op]]
    if row.op not in ("add_one", "convert"):  # these have one kernel and no kernel=
        options = {"kernel": row.name, **options}
    if row.name == "in_place":  # takes square matrices on a device only
        operands = [smemkit.asarray(integers((40, 40), dtype), device="cpu")]
        options["out"] = operands[0]
    report = smemkit.check(getattr(smemkit, row.op), *operands, **options)
    assert report.ok, report
    assert report.lines
