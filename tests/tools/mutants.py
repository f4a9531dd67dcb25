"""Breaks the code on purpose, and requires that tests fail.

    python tests/tools/mutants.py                    every mutant
    python tests/tools/mutants.py max-drops-nan …    some mutants
    python tests/tools/mutants.py --list             their names

A copy of the repository is built for the CPU device, without being installed: the Python that runs this needs
numpy, setuptools and what the tests need. Each mutant in turn replaces a text, the affected files are rebuilt, and
the mutant's tests must fail: those of the default tier, or all if `--full` is given with them. Without a mutant
they must pass. The exit status is 1 if a text does not occur as often as expected, a mutant does not compile, or a
mutant survives.
"""

import argparse
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAILED = 1  # pytest's exit status if tests fail; it is negative if a signal ended the process


@dataclass(frozen=True)
class Mutant:
    """`old` becomes `new` in `file`, where it occurs `times` times."""

    name: str
    file: str
    old: str
    new: str
    tests: str  # pytest's arguments
    times: int = 1


MUTANTS = [
    Mutant(
        "failed-launch-counts-as-success",
        "kernels/common/launch.cuh",
        "kernel, parameters...);\n    return cudaGetLastError();",
        "kernel, parameters...);\n    (void)cudaGetLastError();\n    return cudaSuccess;",
        "tests/call/test_launch_failures.py -k reported",
    ),
    Mutant(
        "several-launches-continue-after-a-failure",
        "kernels/common/grid.cuh",
        "if (cudaError_t error = launch(current_grid(grids), grids.z, first))\n            return error;",
        "(void)launch(current_grid(grids), grids.z, first);",
        "tests/call/test_launch_failures.py -k reported",
    ),
    Mutant(
        "the-next-row-of-grids-begins-beyond-the-last-column",
        "kernels/common/grid.cuh",
        "    grids->x = 0;\n",
        "",
        "tests/ops/test_transpose.py -k more_tile_rows",
    ),
    Mutant(
        "the-next-matrices-grids-begin-below-the-last-row",
        "kernels/common/grid.cuh",
        "    grids->y = 0;\n",
        "",
        "tests/ops/test_matmul.py -k more_matrices",
    ),
    Mutant(
        "tree-continues-after-a-failed-launch",
        "kernels/reduce/ladder/passes.cuh",
        "cudaError_t error = launch_pass<Operation>(args, launch, x, args->n, partials, left);",
        "cudaError_t error = cudaSuccess;\n"
        "        (void)launch_pass<Operation>(args, launch, x, args->n, partials, left);",
        "tests/call/test_launch_failures.py -k reported",
    ),
    Mutant(
        "partly-written-out-is-not-reported",
        "csrc/call/prepare.c",
        "(part->ran && part->call->out.device && memory == part->out)",
        "false",
        "tests/call/test_launch_failures.py",
    ),
    Mutant(
        "cached-launch-does-not-report-partly-written-out",
        "csrc/call/launch_cache.c",
        "failure.ran && given[count - 1]",
        "false",
        "tests/call/test_launch_failures.py --full",
    ),
    Mutant(
        "watchdog-ends-package-kernels",
        "csrc/executor/include/smemkit/host.h",
        "constexpr int watched = 0;",
        "constexpr int watched = 1;",
        "tests/call/test_launch_failures.py -k watchdog",
    ),
    Mutant(
        "slices-drop-the-last-one",
        "kernels/matmul/production/product.cuh",
        "inside && slice < slices;",
        "inside && slice + 1 < slices;",
        "tests/ops/test_matmul.py -k long",
    ),
    Mutant(
        "slices-lack-a-barrier",
        "kernels/matmul/production/product.cuh",
        "    __syncthreads(); // all rows have stored",
        "    // all rows have stored",
        "tests/ops/test_matmul.py -k slices",
    ),
    Mutant(
        "copies-look-at-records-without-their-lock",
        "csrc/checker/races.c",
        "        lock_stripe(stripe); /* its cells are replaced when another worker refines it */\n"
        "    if (region->global && t->trace->earlier)\n"
        "        early_check(t, now);\n"
        "    for (size_t at = offset",
        "        ;\n    for (size_t at = offset",
        "tests/user_kernel/test_bulk.py --full -k another_block",
    ),
    Mutant(
        "mma-of-float64-exchanges-rows-and-k",
        "kernels/common/ptx/mma.cuh",
        'asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}',
        'asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %6, %5, %7}',
        "tests/user_kernel/test_ptx_kernels.py -k float64",
    ),
    Mutant(
        "matmul-ignores-the-strides-of-an-operand",
        "csrc/ops/matmul/matmul.c",
        "strides[0] = shape[0] == 1 ? shape[1] : bytes[0] / element;",
        "strides[0] = shape[1];",
        "tests/ops/test_matmul.py -k layout",
    ),
    Mutant(
        "matmul-drops-the-tail-of-k",
        "kernels/matmul/ladder/20_tiled.cu",
        "row < m && t + tx < k ?",
        "row < m && t + TILE <= k ?",
        "tests/ops/test_matmul.py",
    ),
    Mutant(
        "thread-row-lacks-a-barrier",
        "kernels/matmul/ladder/30_thread_row.cu",
        "        __syncthreads(); // all threads have read the tiles",
        "        // all threads have read the tiles",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "thread-tile-drops-the-tail-of-k",
        "kernels/matmul/ladder/40_thread_tile.cu",
        "t + j < k ?",
        "t + BK <= k ?",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "vectorized-stores-beyond-a-row",
        "kernels/matmul/ladder/50_vectorized.cu",
        "y < m ? n - x : 0",
        "y < m ? BN : 0",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "warp-tile-has-bank-conflicts",
        "kernels/matmul/ladder/60_warp_tile.cu",
        "constexpr int PAD = 4; ",
        "constexpr int PAD = 0; ",
        "tests/ops/test_matmul.py -k bank_conflicts",
    ),
    Mutant(
        "pipelined-reads-a-stage-too-early",
        "kernels/matmul/ladder/70_pipelined.cu",
        "__pipeline_wait_prior(0);",
        "__pipeline_wait_prior(1);",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "stream-k-leaves-out-a-piece",
        "kernels/matmul/ladder/75_stream_k.cu",
        "share <= last_share",
        "share < last_share",
        "tests/ops/test_matmul.py -k shares --full",
    ),
    Mutant(
        "stream-k-begins-every-piece-at-the-first-pair",
        "kernels/matmul/ladder/75_stream_k.cu",
        "first ? (int64_t)(first - 1) * BK + first_depth : 0",
        "0",
        "tests/ops/test_matmul.py -k shares --full",
    ),
    Mutant(
        "stream-k-stores-two-pieces-in-one-place",
        "kernels/matmul/ladder/75_stream_k.cu",
        ": scratch[block].begun[0];",
        ": scratch[block].continued[0];",
        "tests/ops/test_matmul.py -k shares --full",
    ),
    Mutant(
        "stream-k-fills-a-stage-that-is-still-read",
        "kernels/matmul/ladder/75_stream_k.cu",
        "        __syncthreads(); // the stages have been read\n",
        "",
        "tests/ops/test_matmul.py -k shares --full",
    ),
    Mutant(
        "stream-k-has-too-little-scratch-memory",
        "kernels/kernels.h",
        "return 2 * (uint64_t)(shares",
        "return 1 * (uint64_t)(shares",
        "tests/ops/test_matmul.py -k shares --full",
    ),
    Mutant(
        "stream-k-rounds-shares-down",
        "kernels/kernels.h",
        "share = (pairs + at_once - 1) / at_once;",
        "share = pairs / at_once;",
        "tests/ops/test_matmul.py -k shares --full",
    ),
    Mutant(
        "pipelined-production-reads-a-stage-too-early",
        "kernels/matmul/production/pipelined.cuh",
        "__pipeline_wait_prior(STAGES - 2);",
        "__pipeline_wait_prior(STAGES - 1);",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "pipelined-production-drops-the-cut-off-pair",
        "kernels/matmul/production/pipelined.cuh",
        "WHOLE || k + q * K_LANES < depth",
        "WHOLE",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "pipelined-production-overwrites-the-partial-sums",
        "kernels/matmul/production/pipelined.cuh",
        "partial_sum == 0);",
        "true);",
        "tests/ops/test_matmul.py -k partial_sums",
        2,
    ),
    Mutant(
        "pipelined-batch-reads-a-pair-too-early",
        "kernels/matmul/production/pipelined_batch.cu",
        "__pipeline_wait_prior(0);",
        "__pipeline_wait_prior(1);",
        "tests/ops/test_matmul.py -k small_matrix",
    ),
    Mutant(
        "pipelined-batch-lacks-the-barrier",
        "kernels/matmul/production/pipelined_batch.cu",
        "        __syncthreads(); ",
        "        ",
        "tests/ops/test_matmul.py -k small_matrix",
    ),
    Mutant(
        "pipelined-batch-keeps-the-sums",
        "kernels/matmul/production/pipelined_batch.cu",
        "one = 0;",
        "(void)one;",
        "tests/ops/test_matmul.py -k small_matrix",
    ),
    Mutant(
        "pipelined-batch-stores-past-the-last-row",
        "kernels/matmul/production/pipelined_batch.cu",
        "rows > (Tile::TM - 1) * LANES_DOWN",
        "rows > 0",
        "tests/ops/test_matmul.py -k small_matrix",
    ),
    Mutant(
        "pipelined-parts-lack-a-barrier",
        "kernels/matmul/production/pipelined.cuh",
        "    __syncthreads(); // all sums are stored before",
        "    // all sums are stored before",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "pipelined-forgets-a-part",
        "kernels/matmul/production/pipelined.cuh",
        "for (int of = 1; of < Tile::K_PARTS; of++)",
        "for (int of = 1; of < Tile::K_PARTS - 1; of++)",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "mma-fills-the-stage-that-is-read",
        "kernels/matmul/ladder/80_mma.cu",
        "load(stages[1 - now], p + BK);",
        "load(stages[now], p + BK);",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "wgmma-copies-the-first-columns-twice",
        "kernels/matmul/ladder/90_wgmma.cu",
        "(int)from.at.column + panel * BK<T>,",
        "(int)from.at.column,",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "wgmma-lacks-the-proxy-fence",
        "kernels/matmul/ladder/90_wgmma.cu",
        "            ptx::fence_proxy_async(); // wgmma sees",
        "            // wgmma sees",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "wgmma-specialized-frees-a-stage-too-early",
        "kernels/matmul/ladder/100_wgmma_specialized.cu",
        "ptx::mbarrier_arrive(&shared.empty[done]);",
        "ptx::mbarrier_arrive(&shared.empty[s]);",
        "tests/ops/test_matmul.py -k 'no_fault and wgmma_specialized' --full",
    ),
    Mutant(
        "wgmma-specialized-forgets-the-sum-so-far",
        "kernels/matmul/ladder/100_wgmma_specialized.cu",
        "turn > 0);",
        "false);",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "persistent-stores-a-tile-over-the-one-before",
        "kernels/matmul/ladder/110_persistent.cu",
        "        ptx::cp_async_bulk_wait_group_read<0>();\n",
        "        ptx::cp_async_bulk_wait_group_read<1>();\n",
        "tests/ops/test_matmul.py -k 'after_a_blocks_first and persistent' --full",
    ),
    Mutant(
        "persistent-keeps-the-last-stage",
        "kernels/matmul/ladder/110_persistent.cu",
        "    if (Part::PENDING > 0 && k > 0)\n",
        "    if (Part::PENDING > 0 && k > 0 && turn < STAGES)\n",
        "tests/ops/test_matmul.py -k 'after_another and persistent' --full",
    ),
    Mutant(
        "dmma-lacks-the-barrier",
        "kernels/matmul/ladder/85_dmma.cu",
        "        __syncthreads();          // and so are all threads'",
        "        // and so are all threads'",
        "tests/ops/test_matmul.py -k 'no_fault and dmma-' --full",
    ),
    Mutant(
        "turned-products-lack-the-fence",
        "kernels/matmul/warpgroup.cuh",
        "        ptx::wgmma_fence();\n#pragma unroll\n        for (int i = 0; i < BK<T> / MK; i++)",
        "#pragma unroll\n        for (int i = 0; i < BK<T> / MK; i++)",
        "tests/ops/test_matmul.py -k 'no_fault and wgmma-float32'",
    ),
    Mutant(
        "tf32-releases-a-pair-under-way",
        "kernels/matmul/production/wgmma_tf32.cuh",
        "        ptx::wgmma_wait_group<0>(); // the warp's products with this stage are complete,\n",
        "",
        "tests/ops/test_matmul.py -k 'no_fault and wgmma_tf32' --full",
    ),
    Mutant(
        "tf32-takes-one-matrix-for-all",
        "kernels/matmul/production/wgmma_tf32.cuh",
        "(int)from.b_matrix, &shared.full[s]);",
        "0, &shared.full[s]);",
        "tests/ops/test_matmul.py -k 'turned_products and wgmma_tf32'",
    ),
    Mutant(
        "tf32-lanes-may-not-have-loaded",
        "kernels/matmul/production/wgmma_tf32.cuh",
        "        __syncwarp();               // and its lanes",
        "        // and its lanes",
        "tests/ops/test_matmul.py -k 'no_fault and wgmma_tf32' --full",
    ),
    Mutant(
        "turned-products-are-not-waited-for",
        "kernels/matmul/warpgroup.cuh",
        "static constexpr int PENDING = 0;",
        "static constexpr int PENDING = 1;",
        "tests/ops/test_matmul.py -k 'no_fault and wgmma_specialized-float32' --full",
    ),
    Mutant(
        "turned-products-take-the-other-neighbour",
        "kernels/matmul/warpgroup.cuh",
        "__float_as_uint(i ^ odd ? pair[half][1].y : pair[half][0].y);",
        "__float_as_uint(i ^ odd ? pair[half][1].y : pair[half][0].x);",
        "tests/ops/test_matmul.py -k 'every_block_tile and wgmma-float32'",
    ),
    Mutant(
        "turned-products-read-rows-in-one-bank",
        "kernels/matmul/warpgroup.cuh",
        "q + lane() % 4 + (i ^ odd) * 4",
        "q + lane() % 4 + i * 4",
        "tests/ops/test_matmul.py -k 'conflicts and float32-wgmma-C or conflicts and wgmma-float32' --full",
    ),
    Mutant(
        "turned-products-exchange-rows-of-bytes",
        "kernels/matmul/warpgroup.cuh",
        "turn ? rows[0] : rows[2]",
        "turn ? rows[2] : rows[2]",
        "tests/ops/test_matmul.py -k 'every_block_tile and wgmma-int8'",
    ),
    Mutant(
        "turned-products-take-unsigned-bytes-for-signed",
        "kernels/common/ptx/wgmma.cuh",
        'WGMMA_REGISTERS_64("m64n128k32", "s32.u8.u8", "+r", "");',
        'WGMMA_REGISTERS_64("m64n128k32", "s32.s8.s8", "+r", "");',
        "tests/ops/test_tensor_cores.py -k 'bytes_of_every_value and wgmma'",
    ),
    Mutant(
        "specialised-warps-release-a-stage-that-lanes-read",
        "kernels/matmul/ladder/100_wgmma_specialized.cu",
        "        __syncwarp();                           // and its lanes",
        "        // and its lanes",
        "tests/ops/test_matmul.py -k 'no_fault and wgmma_specialized-float32' --full",
    ),
    Mutant(
        "persistent-warps-release-a-stage-that-lanes-read",
        "kernels/matmul/ladder/110_persistent.cu",
        "        __syncwarp(); // the warp's lanes",
        "        // the warp's lanes",
        "tests/ops/test_matmul.py -k 'no_fault and persistent-float32' --full",
    ),
    Mutant(
        "changed-tensor-maps-need-no-acquire",
        "csrc/checker/proxies.c",
        "(released && has_acquired(t, now, last))",
        "released",
        "tests/user_kernel/test_tensor_map_changes.py -k missing_fence --full",
    ),
    Mutant(
        "changed-tensor-maps-need-no-release",
        "csrc/checker/proxies.c",
        "last->block != now->block || is_fenced(t, &t->threads[last->thread].map_releases, now, last);",
        "true;",
        "tests/user_kernel/test_tensor_map_changes.py -k missing_fence --full",
    ),
    Mutant(
        "an-acquire-before-the-change-counts",
        "csrc/checker/proxies.c",
        "after->epoch == last->epoch && after->thread == last->thread &&\n"
        "            after->block == last->block && ",
        "",
        "tests/user_kernel/test_tensor_map_changes.py -k missing_fence --full",
    ),
    Mutant(
        "tensor-maps-have-any-rank",
        "csrc/executor/tensor_map.c",
        "tensor->rank = (uint8_t)(value + 1);",
        "tensor->rank = (uint8_t)value;",
        "tests/user_kernel/test_tensor_map_changes.py -k breaks_a_rule --full",
    ),
    Mutant(
        "bulk-reductions-lose-updates",
        "csrc/executor/include/smemkit/ptx/bulk.h",
        "(!__atomic_compare_exchange_n(&old[i], &before, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))",
        "(old[i] = after, false)",
        "tests/user_kernel/test_bulk.py -k many_blocks",
    ),
    Mutant(
        "waits-of-a-block-acquire-from-the-cluster",
        "csrc/executor/include/smemkit/ptx/mbarrier.h",
        "own_block ? ACQUIRE_OF_BLOCK : ACQUIRE",
        "ACQUIRE",
        "tests/checker/test_faulty.py -k 'mbarrier_acquire_of_block' --full",
    ),
    Mutant(
        "tensor-maps-cut-floats-to-tf32",
        "csrc/executor/tensor_map.c",
        "(x + (1u << (CUT - 1)) - 1 + (x >> CUT & 1)) >> CUT << CUT",
        "x >> CUT << CUT",
        "tests/user_kernel/test_tensor_map.py -k tf32",
    ),
    Mutant(
        "imma-lacks-the-barrier",
        "kernels/matmul/ladder/87_imma.cu",
        "        __syncthreads();          // and so are all threads'",
        "        // and so are all threads'",
        "tests/ops/test_matmul.py -k 'no_fault and imma-' --full",
    ),
    Mutant(
        "imma-exchanges-rows-of-b",
        "kernels/matmul/bytes.cuh",
        "    to[1] = __byte_perm(low[0], low[1], 0x7632);",
        "    to[1] = __byte_perm(low[1], low[0], 0x7632);",
        "tests/ops/test_tensor_cores.py -k bytes_of_every_value",
    ),
    Mutant(
        "imma-multiplies-unsigned-bytes",
        "kernels/matmul/ladder/87_imma.cu",
        "        ptx::mma_m16n8k32_s32_s8(sum, a, b, sum);",
        "        ptx::mma_m16n8k32_s32_u8(sum, a, b, sum);",
        "tests/ops/test_tensor_cores.py -k bytes_of_every_value",
    ),
    Mutant(
        "imma-swizzles-b-as-a",
        "kernels/matmul/ladder/87_imma.cu",
        "(chunk ^ row / 4 % 4 * 2);",
        "(chunk ^ row % 8);",
        "tests/ops/test_matmul.py -k 'conflicts and imma' --full",
    ),
    Mutant(
        "mma-truncates-to-tf32",
        "kernels/matmul/ladder/80_mma.cu",
        "            word = ptx::cvt_rna_tf32_f32(__uint_as_float(word));",
        "            word = word;",
        "tests/ops/test_matmul.py -k 'within_their_bound and cpu-mma-float32'",
    ),
    Mutant(
        "dmma-releases-a-stage-too-early",
        "kernels/matmul/production/dmma.cuh",
        "            __syncwarp(); // all lanes have loaded before the stage is released\n",
        "",
        "tests/ops/test_matmul.py -k 'no_fault and dmma' --full",
    ),
    Mutant(
        "dmma-loads-a-stage-before-it-is-full",
        "kernels/matmul/production/dmma.cuh",
        "                            if (!ready)\n                                wait(&ring.full[s], phase);\n",
        "",
        "tests/ops/test_matmul.py -k 'no_fault and dmma' --full",
    ),
    Mutant(
        "dmma-computes-a-quarter-twice",
        "kernels/matmul/production/dmma.cuh",
        "quarter % 2 * R::SECOND_SIDES",
        "quarter % 1 * R::SECOND_SIDES",
        "tests/ops/test_tensor_cores.py -k every_pair_of_layouts",
    ),
    Mutant(
        "dmma-takes-other-elements-of-b",
        "kernels/matmul/production/dmma.cuh",
        "return BOTH_ALONG_K ? i % 4 * 2 + i / 4",
        "return BOTH_ALONG_K ? i % 4 * 2 + i / 8",
        "tests/ops/test_tensor_cores.py -k every_pair_of_layouts --full",
    ),
    Mutant(
        "mma-production-lacks-the-barrier",
        "kernels/matmul/production/mma.cuh",
        "        __syncthreads();                   // and so are all threads'",
        "        // and so are all threads'",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "mma-production-reads-a-stage-too-early",
        "kernels/matmul/production/mma.cuh",
        "__pipeline_wait_prior(STAGES - 2);",
        "__pipeline_wait_prior(STAGES - 1);",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "mma-production-copies-beyond-the-end-of-a-slice",
        "kernels/matmul/production/mma.cuh",
        "const int depth = min(length - loaded, BK);",
        "const int depth = BK;",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "mma-production-swizzles-single-elements-as-chunks",
        "kernels/matmul/production/mma.cuh",
        "((ALONG_K && V > 2) || V == 8 ? row : 2 * row) % 8",
        "row % 8",
        "tests/ops/test_matmul.py -k bank_conflicts",
    ),
    Mutant(
        "mma-production-repeats-half-of-k-in-float64",
        "kernels/matmul/production/mma.cuh",
        "BTile::element(b, column + j * 8 + side, depth + 4)",
        "BTile::element(b, column + j * 8 + side, depth)",
        "tests/ops/test_matmul.py -k edges",
    ),
    Mutant(
        "mma-production-truncates-to-tf32",
        "kernels/matmul/production/mma.cuh",
        "ptx::cvt_rna_tf32_f32(__uint_as_float(words[w]))",
        "words[w]",
        "tests/ops/test_matmul.py -k within_their_bound",
    ),
    Mutant(
        "mma-split-forgets-a-product",
        "kernels/matmul/production/mma_split.cu",
        "for (int part = 0; part <= order; part++)",
        "for (int part = order > 1; part <= order; part++)",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "mma-split-keeps-one-sum",
        "kernels/matmul/production/mma_split.cu",
        "FLUSH = 2048;",
        "FLUSH = 0;",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "mma-split-multiplies-special-numbers-by-parts",
        "kernels/matmul/production/mma_split.cu",
        "return special;",
        "return false;",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "mma-split-overwrites-the-partial-sums",
        "kernels/matmul/production/mma.cuh",
        "store(done > Products::FLUSH);",
        "store(false);",
        "tests/ops/test_matmul.py -k partial_sums",
    ),
    Mutant(
        "wgmma-split-drops-the-smallest-products",
        "kernels/matmul/production/wgmma.cuh",
        "sum_step<Step::PARTS - 1, 1>(part",
        "sum_step<Step::PARTS - 2, 1>(part",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "wgmma-split-forgets-a-product",
        "kernels/matmul/production/wgmma.cuh",
        "for (int part = 0; part <= order; part++)",
        "for (int part = order > 0; part <= order; part++)",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "wgmma-split-trusts-float16-with-sparse-rows",
        "kernels/matmul/production/split.cuh",
        "return flags != (LONG | SPARSE);",
        "return true;",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "wgmma-split-multiplies-special-numbers-by-parts",
        "kernels/matmul/production/wgmma_split.cuh",
        "if (__any_sync(~0u, special))",
        "if (false)",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "wgmma-single-decides-for-each-strip",
        "kernels/matmul/production/split.cuh",
        "i < min(strip + STRIPS, of.strips())",
        "i < min(strip + 1, of.strips())",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "wgmma-digits-forgets-the-base",
        "kernels/matmul/production/wgmma_digits.cuh",
        "            if (place > 0)\n",
        "            if (place > 1)\n",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "wgmma-digits-reads-the-digit-before",
        "kernels/matmul/production/wgmma_digits.cuh",
        "        __syncthreads(); // all threads have stored theirs\n",
        "",
        "tests/ops/test_matmul.py -k digits",
    ),
    Mutant(
        "wgmma-digits-takes-signed-bytes-for-unsigned",
        "kernels/matmul/production/wgmma_digits.cuh",
        "std::conditional_t<D == 1, In, uint8_t>",
        "uint8_t",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "wgmma-residues-of-51-bits",
        "kernels/matmul/production/wgmma_residues.cu",
        "MOST_BITS = 53;",
        "MOST_BITS = 51;",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-reduces-no-sum-on-the-way",
        "kernels/matmul/production/wgmma_residues.cu",
        "LARGEST_SUM = 1 << 30;",
        "LARGEST_SUM = 1ll << 33;",
        "tests/ops/test_residues.py --full -k long_k",
    ),
    Mutant(
        "wgmma-residues-are-not-reduced-by-all-moduli",
        "kernels/matmul/production/wgmma_residues.cu",
        "fma(-times, of.all[i], sum[i]);",
        "fma(-0.0 * times, of.all[i], sum[i]);",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-forgets-the-carry",
        "kernels/matmul/production/wgmma_residues.cu",
        "sum[i + 1] += carry;",
        "sum[i + 1] += 0 * carry;",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-takes-zero-for-a-number",
        "kernels/matmul/production/wgmma_residues.cu",
        "return in_bits ? in_bits + 1 : x != 0;",
        "return in_bits + 1;",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-finds-no-wide-range",
        "kernels/matmul/production/wgmma_residues.cu",
        "exponent > 0 && depth > most_depth",
        "exponent > 0 && depth > 1000 * most_depth",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-finds-wide-ranges-only",
        "kernels/matmul/production/wgmma_residues.cu",
        "exponent > 0 && depth > most_depth",
        "exponent > 0",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-forgets-the-bits-of-elements",
        "kernels/matmul/production/wgmma_residues.cu",
        "- 2 - (53 - bits)) / 2",
        "- 2) / 2",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-allows-twice-the-range",
        "kernels/matmul/production/wgmma_residues.cu",
        "- 2 - (53 - bits)) / 2",
        "- 2 - (53 - bits))",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-takes-the-logarithms-of-subnormal-numbers",
        "kernels/matmul/production/wgmma_residues.cu",
        "> SUBNORMAL ? log_of",
        "> 0 ? log_of",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-forgets-zeros",
        "kernels/matmul/production/wgmma_residues.cu",
        "zeros * ZERO_BITS * LOG_STEPS",
        "0 * ZERO_BITS * LOG_STEPS",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-leaves-the-second-strip-of-a-tile-out",
        "kernels/matmul/production/wgmma_residues.cu",
        "(2 * column + 1 < wide.b_strips && !wide(matrix, row, 2 * column + 1))",
        "false",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-copies-no-operand",
        "kernels/matmul/production/wgmma_residues.cu",
        "return *list > 0;",
        "return *list > 100;",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-takes-the-strips-of-the-first-matrix",
        "kernels/matmul/production/wgmma_residues.cu",
        "b_wide[(b_matrices > 1 ? matrix : 0) * b_strips + strip]",
        "b_wide[strip]",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-rounds-quotients-to-halves",
        "kernels/matmul/production/wgmma_residues.cu",
        "ROUND = 3ll << 51;",
        "ROUND = 3ll << 50;",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "matmul-divides-strips-among-parts",
        "csrc/ops/matmul/matmul.c",
        "in_parts ? MANY_ROWS : ROWS); /*",
        "ROWS); /*",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-residues-multiplies-infinities",
        "kernels/matmul/production/wgmma_residues.cu",
        "wide = exponent == INFINITE || (",
        "wide = (",
        "tests/ops/test_residues.py",
    ),
    Mutant(
        "wgmma-split-counts-broadcast-matrices-once",
        "csrc/ops/matmul/matmul.c",
        "if (view->strides[d] || converted)",
        "if (view->strides[d])",
        "tests/ops/test_tensor_cores.py",
    ),
    Mutant(
        "wgmma-waits-for-the-wrong-phase",
        "kernels/matmul/production/wgmma.cuh",
        "wait(&ring.full[s], turn / STAGES);\n        ptx::wgmma_fence();",
        "wait(&ring.full[s], turn / STAGES + 1);\n        ptx::wgmma_fence();",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "wgmma-releases-a-stage-before-it-is-multiplied",
        "kernels/matmul/production/wgmma.cuh",
        "ptx::wgmma_wait_group<1>(); // the step before is complete",
        "ptx::wgmma_wait_group<2>();",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "wgmma-drops-the-tail-of-k",
        "kernels/matmul/production/tma.cuh",
        "return {args->m,         args->n,         args->k,",
        "return {args->m,         args->n,         args->k / 64 * 64,",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "policy-takes-wgmma-on-later-gpus",
        "csrc/call/choice.c",
        "row->needs == SM_90A ? device->capability == SM_90A : ",
        "",
        "tests/ops/test_matmul.py -k tensor_cores_that",
    ),
    Mutant(
        "mma-production-has-no-swizzle",
        "kernels/matmul/production/mma.cuh",
        "(chunk ^ ((ALONG_K && V > 2) || V == 8 ? row : 2 * row) % 8)",
        "chunk",
        "tests/ops/test_matmul.py -k bank_conflicts",
    ),
    Mutant(
        "simt-drops-the-tail-of-k",
        "kernels/matmul/production/simt.cuh",
        "WHOLE || in_k > (along_k ? e : 0)",
        "WHOLE || in_k >= BK",
        "tests/ops/test_matmul.py -k every_block_tile",
    ),
    Mutant(
        "simt-reads-beyond-the-last-row",
        "kernels/matmul/production/simt.cuh",
        "min(first + side + l * (BLOCK / K_LANES), sides - 1)",
        "(first + side + l * (BLOCK / K_LANES))",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "simt-lacks-a-barrier",
        "kernels/matmul/production/simt.cuh",
        "            __syncthreads(); // this pair",
        "            // this pair",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "simt-overwrites-the-partial-sums",
        "kernels/matmul/production/simt.cuh",
        "done == begin);",
        "true);",
        "tests/ops/test_matmul.py -k partial_sums",
        2,
    ),
    Mutant(
        "simt-lanes-read-in-four-wavefronts",
        "kernels/matmul/lanes.cuh",
        "return (lane >> 1 & 1) | (lane >> 4 & 1) << 1;\n}\n\n"
        "static __device__ inline int lane_column(int lane)\n{\n"
        "    return (lane & 1) | (lane >> 2 & 3) << 1;",
        "return lane >> 3;\n}\n\nstatic __device__ inline int lane_column(int lane)\n{\n    return lane & 7;",
        "tests/ops/test_matmul.py -k wavefronts",
    ),
    Mutant(
        "matvec-drops-the-last-packs",
        "kernels/matmul/production/matvec.cu",
        "for (; i < end; i += step)",
        "for (; i + step < end; i += step)",
        "tests/ops/test_matmul.py",
    ),
    Mutant(
        "matvec-lacks-its-barriers",
        "kernels/matmul/production/matvec.cu",
        "__syncthreads(); // all warps have stored their sums",
        "// all warps have stored their sums",
        "tests/ops/test_matmul.py -k no_fault",
        3,
    ),
    Mutant(
        "matvec-by-columns-lacks-a-barrier",
        "kernels/matmul/production/matvec.cu",
        "__syncthreads();                 // all warps have stored their sums",
        "// all warps have stored their sums",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "matvec-reads-a-stage-that-is-not-filled",
        "kernels/matmul/production/matvec.cu",
        "        __syncthreads();                   // and so are all threads'",
        "        // and so are all threads'",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "matvec-by-columns-reads-a-stage-that-is-not-filled",
        "kernels/matmul/production/matvec.cu",
        "        __syncthreads();                   // so are all threads'",
        "        // so are all threads'",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "matvec-reads-a-stage-that-is-being-copied",
        "kernels/matmul/production/matvec.cu",
        "        __pipeline_wait_prior(STAGES - 2);",
        "        __pipeline_wait_prior(STAGES - 1);",
        "tests/ops/test_matmul.py -k no_fault",
        2,
    ),
    Mutant(
        "matvec-by-columns-reads-a-part-that-is-not-filled",
        "kernels/matmul/production/matvec.cu",
        "        __syncthreads(); // this part is filled",
        "        // this part is filled",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "matvec-multiplies-beyond-its-slice",
        "kernels/matmul/production/matvec.cu",
        "row + r >= v.rows || i >= end",
        "row + r >= v.rows || i >= p.k",
        "tests/ops/test_matmul.py -k beyond",
    ),
    Mutant(
        "matvec-adds-sums-twice",
        "kernels/matmul/production/matvec.cu",
        "            sum[i / VECTORS][i % VECTORS] = Sum(0);\n",
        "",
        "tests/ops/test_matmul.py -k long",
    ),
    Mutant(
        "matvec-of-a-part-is-by-the-part",
        "csrc/ops/matmul/matmul.c",
        ".along_k = method->along_k,",
        ".along_k = a->shape[a->ndim - 2] > 32,",
        "tests/ops/test_matmul.py -k parts",
    ),
    Mutant(
        "matvec-adds-in-another-order-where-unaligned",
        "kernels/matmul/production/matvec.cu",
        "sum += Sum(values.element[e]) * Sum(others.element[e]);",
        "sum += Sum(values.element[PACKS ? e : V - 1 - e]) * Sum(others.element[PACKS ? e : V - 1 - e]);",
        "tests/ops/test_matmul.py -k aligned",
    ),
    Mutant(
        "tiny-lacks-a-warp-barrier",
        "kernels/matmul/production/tiny.cu",
        "        __syncwarp(); // all lanes have read",
        "        // all lanes have read",
        "tests/ops/test_matmul.py -k no_fault",
    ),
    Mutant(
        "matmul-ignores-the-batch-stride",
        "kernels/matmul/ladder/20_tiled.cu",
        "a += blockIdx.z * a_batch_stride;",
        "a += blockIdx.z * m * k;",
        "tests/ops/test_matmul.py tests/ops/test_numpy.py",
    ),
    Mutant(
        "matmul-accumulates-16-bit-floats-in-16-bits",
        "kernels/matmul/ladder/20_tiled.cu",
        "using Sum = accumulator_type<T>;",
        "using Sum = T;",
        "tests/ops/test_matmul.py -k added_up_in_32_bits",
    ),
    Mutant(
        "complex-product-has-a-wrong-sign",
        "kernels/common/types.cuh",
        "return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};",
        "return {a.re * b.re + a.im * b.im, a.re * b.im + a.im * b.re};",
        "tests/ops/test_numpy.py -k 'random_calls or dtype'",
    ),
    Mutant(
        "cast-rounds-twice",
        "kernels/common/types.cuh",
        "__float2half_rn(round_to_odd(x))",
        "__float2half_rn((float)x)",
        "tests/ops/test_numpy.py -k casts",
    ),
    Mutant(
        "argmin-keeps-the-last-of-equal-elements",
        "kernels/common/reduce_ops.cuh",
        "!b_first && a.index < b.index",
        "!b_first && a.index > b.index",
        "tests/ops/test_reduce.py tests/ops/test_numpy.py",
    ),
    Mutant(
        "argmax-ignores-nan",
        "kernels/common/reduce_ops.cuh",
        "(is_nan(a.value) && !is_nan(b.value))",
        "false",
        "tests/ops/test_reduce.py tests/ops/test_numpy.py",
    ),
    Mutant(
        "max-drops-nan",
        "kernels/common/reduce_ops.cuh",
        "return Order::before(a, b) || is_nan(a) ? a : b;",
        "return Order::before(a, b) || is_nan(b) ? a : b;",
        "tests/ops/test_reduce.py tests/ops/test_numpy.py",
    ),
    Mutant(
        "sums-do-not-widen-small-integers",
        "csrc/ops/reduce/types.c",
        "in & (BOOL | SIGNED) ? INT64 : in & UNSIGNED ? UINT64 : in",
        "in",
        "tests/ops/test_reduce.py tests/ops/test_numpy.py",
    ),
    Mutant(
        "variance-ignores-ddof",
        "kernels/common/reduce_finish.cuh",
        "state.count - args.ddof",
        "state.count",
        "tests/ops/test_reduce.py tests/ops/test_numpy.py",
    ),
    Mutant(
        "vectorized-sum-drops-the-tail",
        "kernels/reduce/ladder/70_vectorized.cu",
        "if (first < n - vectors * WIDTH)",
        "if (first + 1 < n - vectors * WIDTH)",
        "tests/ops/test_textbook.py",
    ),
    Mutant(
        "whole-columns-drop-the-remaining-rows",
        "kernels/reduce/production/columns.cu",
        "    each_row<ROWS>(rows, add);\n",
        "",
        "tests/ops/test_planned.py",
    ),
    Mutant(
        "whole-columns-treat-partial-vectors-as-whole",
        "kernels/reduce/production/columns.cu",
        "return args.inner % vector == 0 && args.work.step",
        "return args.work.step",
        "tests/ops/test_planned.py",
    ),
    Mutant(
        "few-rows-all-use-the-first-row",
        "kernels/reduce/production/columns.cu",
        "running[c].add_element(loaded[u], c, args.first + u)",
        "running[c].add_element(loaded[0], c, args.first + u)",
        "tests/ops/test_planned.py",
    ),
    Mutant(
        "smaller-block-uses-column-offset-of-a-full-one",
        "kernels/reduce/production/columns.cu",
        "at = (int64_t)blockIdx.x * blockDim.x + t;",
        "at = (int64_t)blockIdx.x * WHOLE_COLUMNS_BLOCK + t;",
        "tests/ops/test_planned.py",
    ),
    Mutant(
        "results-are-stored-with-the-dtype-of-x",
        "kernels/common/reduce_finish.cuh",
        "return args.result == args.dtype && ",
        "return ",
        "tests/ops/test_planned.py",
    ),
    Mutant(
        "short-rows-are-treated-as-contiguous",
        "kernels/reduce/production/rows.cu",
        "args.work.outer_stride == args.n && (uintptr_t)args.x",
        "(uintptr_t)args.x",
        "tests/ops/test_planned.py",
    ),
    Mutant(
        "tree-reads-the-first-row-for-every-row",
        "kernels/reduce/ladder/40_tree.cu",
        "const In *row = x + blockIdx.x / results.blocks * n;",
        "const In *row = x;",
        "tests/ops/test_textbook.py",
    ),
    Mutant(
        "copies-collide-only-where-they-write",
        "csrc/checker/banks.c",
        "(copy->from[a] && copy->from[b] && copy->from[a] % banks == copy->from[b] % banks)",
        "false",
        "tests/checker/test_wavefronts.py -k copies",
    ),
    Mutant(
        "sectors-past-the-l1-cache-cannot-be-reversed",
        "csrc/checker/banks.c",
        "rotations < reflections ? rotations : reflections",
        "rotations",
        "tests/checker/test_wavefronts.py -k copies",
    ),
    Mutant(
        "copies-of-zeros-cost-what-the-last-ones-did",
        "csrc/checker/requests.c",
        " | (from[lane] != 0)",
        "",
        "tests/checker/test_wavefronts.py -k copies",
    ),
    Mutant(
        "matmul-drops-the-last-rows-of-a-tall-matrix",
        "csrc/ops/matmul/matmul.c",
        "for (int64_t row = 0; row < args->m; row += rows)",
        "for (int64_t row = 0; row + rows <= args->m; row += rows)",
        "tests/ops/test_matmul.py -k few_rows",
    ),
    Mutant(
        "active-lanes-are-counted-across-barriers",
        "csrc/checker/requests.c",
        "if (site->round != t->round) {",
        "if (false) {",
        "tests/ops/test_textbook.py",
    ),
    Mutant(
        "undefined-shuffle-is-not-reported",
        "csrc/executor/warp.c",
        "if (first->collective == SMEMKIT_SHUFFLE)",
        "if (false)",
        "tests/user_kernel/test_kernel.py -k exited_lane",
    ),
    Mutant(
        "writes-outside-shared-arrays-are-not-reported",
        "csrc/executor/explain.c",
        "if (w->tracer || shared_intact(w, where, sizeof where))",
        "if (true)",
        "tests/user_kernel/test_kernel.py -k outside_shared",
    ),
    Mutant(
        "lambda-copies-shared-memory",
        "smemkit/cuda_source/shared_variables.py",
        "elif not by_reference and hidden",
        "elif False and hidden",
        "tests/executor/test_shared.py -k lambda",
    ),
    Mutant(
        "constant-memory-is-writable",
        "csrc/checker/access.c",
        "if (constant && is_load(kind))",
        "if (constant)",
        "tests/checker/test_faulty.py -k writes_constant",
    ),
    Mutant(
        "non-coherent-loads-may-be-ordered",
        "csrc/checker/races.c",
        "if (use->read_only || !ordered(t, now, &earlier))",
        "if (!ordered(t, now, &earlier))",
        "tests/checker/test_races.py -k non_coherent",
    ),
    Mutant(
        "full-logs-starve",
        "csrc/checker/log.c",
        "        merge_warp(t, warp, 0);\n        drained = lanes;",
        "        drained |= 0;",
        "tests/executor/test_hangs.py -k log_is_full",
    ),
    Mutant(
        "waits-for-the-phase-before-are-not-seen",
        "csrc/executor/mbarrier.c",
        "parity && !late && arrived",
        "parity && !late && false",
        "tests/checker/test_mbarriers.py -k phase_before",
    ),
    Mutant(
        "complete-copies-stand-at-the-wait",
        "csrc/checker/races.c",
        "        now.position = origins->copy.position;\n",
        "",
        "tests/checker/test_fixes.py -k read_too_early",
    ),
    Mutant(
        "atomics-and-loads-do-not-race",
        "csrc/checker/races.c",
        "(now->kind == ACCESS_LOAD && !cell->atomics) ||\n        (now->kind == ACCESS_ATOMIC && !cell->loads))",
        "now->kind != ACCESS_STORE)",
        "tests/checker/test_races.py --full",
    ),
    Mutant(
        "what-was-unordered-stays-unordered",
        "csrc/checker/clocks.c",
        "(!slot->unordered || slot->unordered == t->acquired)",
        "true",
        "tests/user_kernel/test_wgmma.py -k pipeline",
    ),
    Mutant(
        "a-wait-that-goes-on-is-never-checked-again",
        "csrc/checker/observer.c",
        "const bool same_epoch = last->tried_epoch == epoch;",
        "const bool same_epoch = true;",
        "tests/checker/test_mbarriers.py -k began_anew",
    ),
    Mutant(
        "a-wait-that-goes-on-fills-no-log",
        "csrc/checker/access.c",
        "    log_item(t, item_of(t, code, ITEM_BLOCK));",
        "",
        "tests/checker/test_mbarriers.py -k 'works_for_long or wait_for_ever or after_a_fault'",
    ),
    Mutant(
        "a-failed-wait-and-a-fence-acquire",
        "csrc/checker/clocks.c",
        "if (object->count && !(order & 16)) {",
        "if (object->count) {",
        "tests/checker/test_mbarriers.py -k failed_wait",
    ),
    Mutant(
        "a-lane-that-has-run-counts-as-waiting",
        "csrc/executor/schedule.h",
        "    w->repetition.hashed[thread] = false;\n",
        "",
        "tests/executor/test_hangs.py -k only_one_lane",
    ),
    Mutant(
        "view-is-passed-without-its-base-array",
        "smemkit/user_kernel/parameters.py",
        "if whole and inside and usable and first % alignment == 0:",
        "if False:",
        "tests/user_kernel/test_views.py",
    ),
    Mutant(
        "keepdims-is-ignored",
        "csrc/ops/reduce/reduce.c",
        "if (!reduced[i] || reduction->keepdims)\n            reduction->shape",
        "if (!reduced[i])\n            reduction->shape",
        "tests/ops/test_reduce.py tests/ops/test_numpy.py",
    ),
    Mutant(
        "transpose-swaps-the-row-and-column-guards",
        "kernels/transpose/ladder/40_padded.cu",
        "out_row + j < columns && out_column < rows",
        "out_row + j < rows && out_column < columns",
        "tests/ops/test_transpose.py",
    ),
    Mutant(
        "window-begins-one-row-late",
        "kernels/transpose/production/narrow.cu",
        "(V > 1 && q + past < V)",
        "(V > 1 && q + past <= V)",
        "tests/ops/test_transpose.py",
    ),
    Mutant(
        "tile-is-stored-before-it-is-complete",
        "kernels/transpose/production/tiles.cu",
        "    __syncthreads(); // the tile is complete before anyone reads a column of it\n",
        "",
        "tests/ops/test_transpose.py",
        times=5,
    ),
    Mutant(
        "window-ends-one-group-early",
        "kernels/transpose/production/sectors.cuh",
        "lane + up < LANES ? 0 : 1",
        "lane + up < LANES - 1 ? 0 : 1",
        "tests/ops/test_transpose.py -k odd",
    ),
    Mutant(
        "segment-is-shifted-by-the-wrong-bytes",
        "kernels/transpose/production/vectors.cuh",
        "if (SIZE <= 4 && bytes & 4)\n#pragma unroll",
        "if (SIZE < 4 && bytes & 4)\n#pragma unroll",
        "tests/ops/test_transpose.py",
    ),
    Mutant(
        "chunk-ignores-the-gap-between-groups",
        "kernels/transpose/production/narrow.cu",
        "layout.gap ? t + (int)divide_small(t, chunk.inverse) : t",
        "t",
        "tests/ops/test_transpose.py",
    ),
    Mutant(
        "box-reuses-the-tables-of-another-box",
        "kernels/transpose/production/boxes.cu",
        "tables_built = tables_built && (whole || !box.own_tables);",
        "tables_built = tables_built && true;",
        "tests/ops/test_transpose.py",
    ),
    Mutant(
        "in-place-transpose-accepts-non-square-matrices",
        "csrc/ops/transpose/axes.c",
        "bool alike = args->rows == args->columns && args->x_row_stride == args->out_row_stride;",
        "bool alike = args->rows <= args->columns;",
        "tests/ops/test_transpose.py",
    ),
    Mutant(
        "launches-chosen-by-former-thresholds-stay-cached",
        "csrc/ops/transpose/tuned.c",
        "launch_cache_clear();",
        "",
        "tests/ops/test_policy.py",
    ),
    Mutant(
        "thresholds-do-not-grow-with-the-gpu",
        "csrc/ops/thresholds.c",
        "values[i] * device->multiprocessors / fitted",
        "values[i]",
        "tests/ops/test_policy.py",
    ),
    Mutant(
        "a-part-of-one-row-is-a-vector",
        "csrc/ops/matmul/matmul.c",
        "while (length > 1 && (step == 1 || length % step == 1))",
        "while (step == 0)",
        "tests/ops/test_matmul.py -k parts_of_one",
    ),
    Mutant(
        "odd-rows-cost-nothing",
        "csrc/ops/matmul/prediction.c",
        "? 0 : (double)speeds[ODD_A];",
        "? 0 : 0;",
        "tests/ops/test_policy.py -k predicted_times",
    ),
    Mutant(
        "odd-columns-cost-nothing",
        "csrc/ops/matmul/prediction.c",
        "? 0 : (double)speeds[ODD_B];",
        "? 0 : 0;",
        "tests/ops/test_policy.py -k predicted_times",
    ),
    Mutant(
        "odd-rows-of-both-operands-cost-both",
        "csrc/ops/matmul/prediction.c",
        "odd_b / 2 : odd_b + odd_a / 2)",
        "odd_b : odd_b + odd_a)",
        "tests/ops/test_policy.py -k predicted_times",
    ),
    Mutant(
        "odd-rows-of-c-cost-nothing",
        "csrc/ops/matmul/prediction.c",
        "odd_c ? waves * filled * candidate->rows * columns : 0",
        "odd_c ? 0 : 0",
        "tests/ops/test_policy.py -k predicted_times",
    ),
    Mutant(
        "latency-is-not-hidden",
        "csrc/ops/matmul/prediction.c",
        "return sqrt(blocks * many * blocks * many + one * one - many * many);",
        "return blocks * many + one - many;",
        "tests/ops/test_policy.py -k few_and_of_many",
    ),
    Mutant(
        "thin-tiles-take-as-long-as-full-ones",
        "csrc/ops/matmul/prediction.c",
        "if (candidate->rule == THIN_TILES)",
        "if (false)",
        "tests/ops/test_policy.py -k thin",
    ),
    Mutant(
        "thin-tiles-are-stored-with-what-is-beside-them",
        "kernels/matmul/production/wgmma.cuh",
        "(int)min(n - x, (int64_t)2 * N)",
        "(int)(n - x)",
        "tests/ops/test_tensor_cores.py -k beside",
    ),
    Mutant(
        "thin-tiles-begin-where-full-ones-would",
        "kernels/matmul/production/tma.cuh",
        "at.column * COLUMNS, turn",
        "at.column * Step::BN, turn",
        "tests/ops/test_tensor_cores.py -k every_width",
    ),
    Mutant(
        "blocks-of-a-cluster-copy-the-same-rows",
        "kernels/matmul/production/tma.cuh",
        "x, y + first_row, matrix",
        "x, y, matrix",
        "tests/ops/test_tensor_cores.py -k share",
    ),
    Mutant(
        "blocks-of-a-cluster-have-tiles-of-different-widths",
        "kernels/kernels.h",
        "full_waves * blocks / right / cluster * cluster;",
        "full_waves * blocks / right;",
        "tests/ops/test_tensor_cores.py -k share",
    ),
    Mutant(
        "blocks-of-a-cluster-release-only-their-own-stages",
        "kernels/matmul/production/tma.cuh",
        "ptx::mbarrier_arrive_at_rank(empty, lane);",
        "ptx::mbarrier_arrive_at_rank(empty, ptx::cluster_ctarank());",
        "tests/ops/test_tensor_cores.py -k 'shared_tiles_have_no_fault'",
    ),
    Mutant(
        "blocks-of-a-cluster-exit-before-others-have-released-their-stages",
        "kernels/matmul/production/tma.cuh",
        "    if (Step::CLUSTER > 1) // this block's mbarriers are there until the others have arrived\n",
        "    if (false)\n",
        "tests/ops/test_tensor_cores.py -k 'shared_tiles_have_no_fault'",
    ),
    Mutant(
        "copies-to-another-block-are-forgotten",
        "csrc/checker/cluster.c",
        "i < all->count + all->copies",
        "i < all->count",
        "tests/user_kernel/test_clusters.py -k waited_for_a_copy",
    ),
    Mutant(
        "tiles-outside-c-cost-as-much",
        "csrc/ops/matmul/prediction.c",
        "const double saved = (1 - filled) *",
        "const double saved = (1 - 1) *",
        "tests/ops/test_policy.py -k outside_c",
    ),
    Mutant(
        "vectors-span-short-columns",
        "csrc/ops/reduce/policy.c",
        "extent->inner < problem->vector && extent->n",
        "extent->inner < 0 && extent->n",
        "tests/ops/test_policy.py -k grade_of_random_problems",
    ),
    Mutant(
        "one-tile-counts-as-several",
        "csrc/ops/matmul/prediction.c",
        "size.n <= candidate->columns ? SEVERAL_TILES : ONE_TILE)",
        "size.n <= candidate->columns ? ONE_TILE : SEVERAL_TILES)",
        "tests/ops/test_policy.py",
    ),
    Mutant(
        "rungs-take-transposed-operands",
        "csrc/ops/matmul/policy.c",
        "row->traits & ANY_STRIDES || size.c_order) &&",
        "row->traits & ANY_STRIDES || true) &&",
        "tests/ops/test_policy.py -k transposed",
    ),
    Mutant(
        "policy-takes-a-kernel-that-does-not-support-the-problem",
        "csrc/ops/reduce/policy.c",
        "(!rule->supports(problem) || !rule->wants(problem) ||",
        "(!rule->wants(problem) ||",
        "tests/ops/test_planned.py",
    ),
    Mutant(
        "kernels-are-taken-in-dtypes-without-a-record",
        "csrc/base/table.c",
        "return right ? !known : (row->traits & SOLE) != 0;",
        "return right || row->traits & SOLE;",
        "tests/table/test_table.py -k taken",
    ),
    Mutant(
        "ladder-counts-lanes-instead-of-bytes",
        "smemkit/ladder.py",
        "line.lanes * line.size * times",
        "line.lanes * times",
        "tests/test_ladder.py -k products",
    ),
    Mutant(
        "prediction-scales-the-stores-of-results-with-k",
        "smemkit/ladder.py",
        'stored = (line.space, line.access) == ("global", "store")',
        "stored = False",
        "tests/test_ladder.py -k products",
    ),
    Mutant(
        "convert-ignores-the-byte-order",
        "kernels/convert/ladder/10_strided.cu",
        "to[swapped ? j ^ (UNIT - 1) : j] = from[j]",
        "to[j] = from[j]",
        "tests/arrays/test_arrays.py tests/ops/test_numpy.py",
    ),
    Mutant(
        "convert-ignores-negative-strides",
        "kernels/convert/ladder/10_strided.cu",
        "*in += at * args.x.strides[d];",
        "*in += at * (args.x.strides[d] < 0 ? -args.x.strides[d] : args.x.strides[d]);",
        "tests/arrays/test_arrays.py tests/ops/test_numpy.py",
    ),
    Mutant(
        "convert-uses-32-bit-offsets",
        "kernels/convert/ladder/10_strided.cu",
        "*in += at * args.x.strides[d];",
        "*in += (int)(at * args.x.strides[d]);",
        "tests/ops/test_numpy.py --full -k offsets",
    ),
    Mutant(
        "add-one-uses-32-bit-indices",
        "kernels/add_one/ladder/10_elementwise.cu",
        "const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;",
        "const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);",
        "tests/ops/test_numpy.py --full -k elements",
    ),
    Mutant(
        "out-that-is-an-operand-is-not-detected",
        "csrc/call/call.c",
        "call->overlapping = out_overlaps_operand(call);",
        "call->overlapping = false;",
        "tests/ops/test_matmul.py tests/ops/test_transpose.py",
    ),
    Mutant(
        "product-that-lacks-memory-fails",
        "csrc/ops/matmul/matmul.c",
        "call.take_less_memory = take_less_memory;",
        "",
        "tests/call/test_parts.py",
    ),
    Mutant(
        "product-that-lacks-memory-takes-as-much-again",
        "csrc/ops/matmul/matmul.c",
        "choose_part_step(step / 2, 1, COLUMNS)",
        "choose_part_step(step, 1, COLUMNS)",
        "tests/call/test_parts.py",
    ),
    Mutant(
        "part-uses-too-small-staging-buffers",
        "csrc/call/run.c",
        "for (; pipeline->next != 0; pipeline->next",
        "for (; pipeline->next < 0; pipeline->next",
        "tests/call/test_parts.py",
    ),
    Mutant(
        "sum-loses-the-sign-of-zero",
        "kernels/common/reduce_ops.cuh",
        "return -T(0);",
        "return T(0);",
        "tests/ops/test_numpy.py -k zero",
    ),
    Mutant(
        "longlong-becomes-int64",
        "csrc/python/dtypes.c",
        "return PyArray_DescrFromType(type_num);\n    return dtype_descr(dtype);",
        "return dtype_descr(dtype);\n    return dtype_descr(dtype);",
        "tests/ops/test_numpy.py -k longlong",
    ),
    Mutant(
        "product-multiplies-by-initial-last",
        "kernels/common/reduce_finish.cuh",
        "return args.begins_with_initial ? scalar_as<T>(args.initial) : T(1);",
        "return T(1);",
        "tests/ops/test_numpy.py -k type_dtype",
    ),
    Mutant(
        "nan-ddof-counts-as-0",
        "kernels/common/reduce_finish.cuh",
        "(freedom <= 0 ? 0 : freedom)",
        "(freedom > 0 ? freedom : 0)",
        "tests/ops/test_numpy.py -k type_dtype",
    ),
    Mutant(
        "large-copy-ignores-signals",
        "csrc/device/cpu.c",
        "smemkit_interrupted && smemkit_interrupted()",
        "false",
        "tests/devices/test_devices.py --full -k ends_a_copy",
    ),
    Mutant(
        "out-accepts-any-dtype",
        "csrc/array/out.c",
        "!dtype_casts(dtype_of(descr), out->dtype)",
        "0",
        "tests/ops/test_arguments.py",
    ),
]


class SetupError(Exception):
    """The list of mutants, the build or the unchanged code is faulty."""


def run(command, folder, **options):
    """Runs a command in the copy, with the copy's smemkit; returns its exit status and output."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SMEMKIT_")}
    environment = {"CXXFLAGS": "-O1"} | inherited | {"SMEMKIT_CUDA": "0", "PYTHONPATH": str(folder)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    return done.returncode, done.stdout


def copy_to(folder):
    """Copies the files of the working tree that git tracks or does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def build(folder):
    """Builds what has changed, in place; smemkit reads its version from the metadata."""
    status, text = run([sys.executable, "setup.py", "-q", "egg_info", "build_ext", "--inplace"], folder)
    if status:
        raise SetupError(f"the build failed:\n{text}")


def test(folder, arguments):
    """Runs the copy's tests until one fails; returns pytest's exit status and output."""
    return run([sys.executable, "-m", "pytest", "-n0", "-x", "-q", "-p", "no:cacheprovider", *arguments], folder)


@contextlib.contextmanager
def applied(mutant, folder):
    """Applies the mutant to its file for the duration of a with block."""
    path = folder / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != mutant.times:
        wanted = f"expected {mutant.old!r} {mutant.times} times in {mutant.file}"
        raise SetupError(f"{mutant.name}: {wanted}, found it {text.count(mutant.old)} times")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")  # newer than its object file, so that the next build recompiles it


def check_texts(mutants):
    """Raises SetupError if a mutant's text is missing, before anything is built."""
    for mutant in mutants:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / mutant.file).parent.mkdir(parents=True)
            shutil.copy2(ROOT / mutant.file, Path(folder) / mutant.file)
            with applied(mutant, Path(folder)):
                pass


def check_copy_is_imported(folder):
    """Raises SetupError if the tests would import another smemkit."""
    status, text = run([sys.executable, "-c", "import smemkit; print(smemkit.__file__)"], folder)
    if status or not Path(text.strip()).is_relative_to(folder.resolve()):
        raise SetupError(f"smemkit is not imported from the copy: {text}")


def check_tests_pass(mutant, folder):
    """Raises SetupError unless the mutant's tests pass in the unchanged copy."""
    status, text = test(folder, shlex.split(mutant.tests))
    if status:
        raise SetupError(f"without a mutant pytest {mutant.tests} has exit status {status}:\n{text[-5000:]}")
    print(f"unchanged, pytest {mutant.tests}: {text.strip().splitlines()[-1]}", flush=True)


def survives(mutant, folder):
    """Whether all tests pass in spite of the mutant; prints the first failure."""
    begin = time.monotonic()
    with applied(mutant, folder):
        build(folder)
        status, text = test(folder, shlex.split(mutant.tests))
    lines = text.strip().splitlines()
    if status >= 0 and status not in (0, FAILED):
        raise SetupError(f"{mutant.name}: pytest has exit status {status}:\n{text[-5000:]}")
    what = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1] if lines else "")
    if status < 0:
        what = f"signal {-status}"
    seconds = time.monotonic() - begin
    print(f"{'SURVIVED' if status == 0 else 'found'} {mutant.name} ({seconds:.0f} s): {what[:150]}", flush=True)
    return status == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="mutants to run; default: all")
    parser.add_argument("--list", action="store_true", help="only list them")
    arguments = parser.parse_args()
    known = {mutant.name: mutant for mutant in MUTANTS}
    if unknown := set(arguments.names) - set(known):
        parser.error(f"expected some of {', '.join(known)}; got {', '.join(sorted(unknown))}")
    mutants = [known[name] for name in arguments.names] or MUTANTS
    if arguments.list:
        for mutant in mutants:
            print(f"{mutant.name}: {mutant.file}: {mutant.old!r} -> {mutant.new!r}")
        return 0
    try:
        check_texts(mutants)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            copy_to(folder)
            build(folder)
            check_copy_is_imported(folder)
            passed, alive = set(), []
            for mutant in mutants:
                if mutant.tests not in passed:
                    build(folder)  # without the mutation before
                    check_tests_pass(mutant, folder)
                passed.add(mutant.tests)
                alive += [mutant.name] if survives(mutant, folder) else []
            build(folder)
            check_tests_pass(mutants[0], folder)  # no mutation is left in the copy
    except SetupError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(mutants)} mutants, {len(alive)} survived{': ' if alive else ''}{', '.join(alive)}")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
