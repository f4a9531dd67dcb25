"""The claims of the curriculum, each with the experiment that reproduces or corrects it, and what came out."""

import json
from pathlib import Path

import pytest
from test_experiments import row_of

import smemkit
from smemkit.lab import claims
from smemkit.lab.shared_memory import bank_accesses

pytestmark = pytest.mark.xdist_group("lab")
TRUTH = Path(__file__).parents[1] / "checker" / "bank_truth.json"


def rows(experiment, **wanted):
    return [row for row in experiment.rows if all(row[key] == value for key, value in wanted.items())]


def recorded(experiment):
    return [row for row in experiment.rows if row["recorded"] is not None]


def ratio(experiment, claim):
    row = experiment.rows[row_of(experiment, claim=claim)]
    return row["recorded"] or row["mixed"]


# the claim → experiment → what came out, as a condition on its rows
CLAIMS = {
    "sizes: 48 KB by default, more with the opt-in": (
        "reverse",
        lambda e: [row["right"] for row in e.rows] == ["yes"] * 7 + ["refused"]
        and e.rows[6]["bytes"] == 227 * 1024,
    ),
    "host memory is slower than global memory by 400…800 / 16…64 GB/s": (
        "hierarchy",
        lambda e: 50 < e.rows[-2]["recorded_gbps"] / e.rows[-1]["recorded_gbps"] < 100,
    ),
    "latencies of the usual table": (
        "hierarchy",
        lambda e: {row["level"]: round(row["recorded_cycles"], -1) for row in e.rows[1:3] + e.rows[5:7]}
        == {"shared memory": 30, "L1": 40, "L2": 290, "global memory": 690},
    ),
    "no barrier, in a branch, in a loop, across blocks: each is wrong": (
        "barriers",
        lambda e: [bool(row["faults"]) for row in e.rows] == [True, False] * 4 + [False, False, False],
    ),
    "global memory persists from one launch to the next, shared memory does not": (
        "persistence",
        lambda e: [row["kept"] for row in e.rows] == ["yes", "yes", None]
        and e.rows[2]["fault"] == "uninitialised read",
    ),
    "log2 n steps": ("tree", lambda e: len(rows(e, way="sequential")) == 8),
    "sequential addressing has neither divergence nor conflicts": (
        "tree",
        lambda e: {row["degree"] for row in rows(e, way="sequential")} == {1}
        and rows(e, way="sequential")[0]["lanes"] == 32,
    ),
    "Harris: each step is faster than the one before": (
        "reduction",
        lambda e: [r["recorded"] for r in e.rows] == sorted((r["recorded"] for r in e.rows), reverse=True),
    ),
    "atomics take 17 times as long as the tree: today 175 times": (
        "speedups",
        lambda e: 150 < ratio(e, "sum of 1 M: atomics / tree") < 200,
    ),
    "tile 32 is 1.27 times as fast as naive: today 1.34 times": (
        "speedups",
        lambda e: 1.3 < ratio(e, "matmul: naive / tile 32") < 1.4,
    ),
    "the CPU's triple loop is 298 times slower: more": (
        "speedups",
        lambda e: ratio(e, "matmul: CPU loops / tile 32") > 298,
    ),
    "global traffic is 2 n / tile": (
        "tiling",
        lambda e: all(abs(row["loads"] - row["predicted"]) < 1e-9 for row in e.rows),
    ),
    "tile 32 beats tile 16, and tile 2 loses to naive": (
        "tiling",
        lambda e: rows(e, how="tile 32", n=64)[0]["recorded"]
        < rows(e, how="tile 16", n=64)[0]["recorded"]
        < rows(e, how="naive", n=64)[0]["recorded"]
        < rows(e, how="tile 2", n=64)[0]["recorded"],
    ),
    "a + for a * is no fault, a missing guard is": (
        "mistakes",
        lambda e: [(row["how"], row["n"]) for row in e.rows if row["faults"]] == [("missing guard", 13)]
        and all(row["wrong"] == row["n"] ** 2 for row in rows(e, how="plus for times")),
    ),
    "odd strides are free of conflicts, stride 32 is 32-way": (
        "banks",
        lambda e: all(not e.rows[stride - 1]["conflicts"] for stride in range(1, 34, 2))
        and e.rows[31]["wavefronts"] == 32,
    ),
    "bytes 6 and 133 share bank 1 of 4-byte banks only": (
        "banks",
        lambda e: [row["predicted"] for row in e.rows[-2:]] == [2, 1],
    ),
    "padding is worth 4 times: today 2.0 times": (
        "padding",
        lambda e: 1.9 < rows(e, tile=32, pad=0)[0]["recorded"] / rows(e, tile=32, pad=1)[0]["recorded"] < 2.1,
    ),
    "tile 16 loses less without padding": (
        "padding",
        lambda e: rows(e, tile=16, pad=0)[0]["load"] == 8 and rows(e, tile=32, pad=0)[0]["load"] == 32,
    ),
    "many blocks do one step per thread": (
        "first_kernels",
        lambda e: [row["steps"] for row in e.rows[:3]] == [100_000, 391, 1],
    ),
    "an array of structures moves 4 times the sectors": (
        "coalescing",
        lambda e: e.rows[10]["sectors"] == 4 * e.rows[9]["sectors"] == 16,
    ),
    "misalignment costs one sector of five": ("coalescing", lambda e: e.rows[6]["sectors"] == 5),
    "registers and shared memory limit resident blocks": (
        "occupancy",
        lambda e: {"registers", "shared memory"} <= {row["limited_by"] for row in e.rows},
    ),
    "independent chains replace warps": (
        "parallelism",
        lambda e: [row["busy"] for row in e.rows[:4]] == [0.25, 0.5, 1, 1],
    ),
    "the carve-out trades L1 for resident blocks": (
        "carveout",
        lambda e: [row["blocks"] for row in rows(e, kib=32)] == sorted(row["blocks"] for row in rows(e, kib=32))
        and rows(e, kib=32)[0]["l1_kib"] > rows(e, kib=32)[-1]["l1_kib"],
    ),
    "branchless code has all lanes at work": (
        "divergence",
        lambda e: e.rows[2]["lanes"] == 32 and e.rows[0]["lanes"] < 20,
    ),
    "FP64 is more exact than FP32 and FP16": (
        "precision",
        lambda e: e.rows[0]["error"] > 0.5 > 1e-3 > e.rows[1]["error"] > 1e-6 > e.rows[2]["error"],
    ),
    "cp.async needs no registers and one barrier per tile": (
        "async_copy",
        lambda e: [(row["stores"], row["barriers"]) for row in e.rows[:3]] == [(8, 2), (0, 1), (0, 1)],
    ),
    "PCIe's share of a call is nearly all of it": (
        "transfers",
        lambda e: e.rows[-1]["recorded"] < 0.02 * e.rows[-2]["recorded"],
    ),
    "matmul's ladder ends at three quarters of the ceiling": (
        "matmul",
        lambda e: 0.7 < (top := recorded(e)[-1])["fraction"] < 0.9 and top["recorded"] > 7 * e.rows[0]["recorded"],
    ),
}


@pytest.mark.parametrize(
    ("experiment", "claim"), [(name, claim) for claim, (name, _) in CLAIMS.items()], indirect=["experiment"]
)
@pytest.mark.covering(1, most=10)
def test_claims(experiment, claim):
    assert CLAIMS[claim][1](experiment), claim


@pytest.mark.parametrize("experiment", ["banks"], indirect=True)
def test_banks_agree_with_the_hardware(experiment):
    """The checker counts what the rule predicts, and the rule agrees with 240 accesses counted by an H200."""
    known = [row for row in experiment.rows if row["wavefronts"] is not None]
    assert len(known) == len(list(bank_accesses())) == 46
    assert all((r["wavefronts"], r["conflicts"]) == (r["predicted"], r["predicted_conflicts"]) for r in known)
    truth = {}
    for entry in json.loads(TRUTH.read_text()):
        found = smemkit.wavefronts(entry["addresses"], entry["size"], store=entry["op"] == "store")
        assert (found.wavefronts, found.conflicts) == (entry["wavefronts"], entry["conflicts"])
        key = entry["op"], entry["size"], tuple(entry["addresses"])
        truth[key] = entry["wavefronts"], entry["conflicts"]
    matched = [row for row in known if ("load", row["size"], tuple(row["addresses"])) in truth]
    assert matched  # strides that the hardware has counted, too
    for row in matched:
        assert truth["load", row["size"], tuple(row["addresses"])] == (row["wavefronts"], row["conflicts"])


def test_the_claim_about_the_naive_transpose_is_what_its_sectors_say():
    """32 sectors per store and 4 per load, against 4 and 4: 4.5 times, of the 5.3 that its source has measured."""
    (claim,) = [candidate for candidate in claims.CLAIMS if candidate.text == "transpose: naive / padded"]
    assert claims._counted_ratio(claim) == 4.5
    assert 1 < claim.claimed / 4.5 < 1.5
