"""Random calls of smemkit against NumPy, as many as there is time for.

    python tests/fuzz.py                                  100 000 calls on the CPU device
    python tests/fuzz.py --device cuda:0 --minutes 20     on a GPU, until the time is over
    python tests/fuzz.py --seed 12345 --calls 1           one of them again: every failure tells its seed

The calls, and what is demanded of them, are calls.py's. Call i of a run has the seed `--seed` + i. Exit status 1
where one of them failed. It needs numpy, ml_dtypes and rich, and the smemkit that Python finds.
"""

import argparse
import collections
import os
import random
import sys
import time
import traceback

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the products are small, and the cores are smemkit's

import calls
from rich.columns import Columns
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import smemkit

SHOWN = 20  # failures; the others are counted


def attempt(seed, rows, device):
    """Draws and runs one call: the call, where it was drawn, and what is wrong with it, or None."""
    call = None
    try:
        call = calls.draw(random.Random(seed).choice, rows)
        call.verify(smemkit, device)
    except calls.MismatchError as error:
        return call, str(error)
    except Exception:  # of the generator, or of an operand on its way: a failure like any other
        return call, f"{traceback.format_exc()}\n{call!r}"
    return call, None


def summary(title, counts, failures):
    """How many calls there were of each kind, and how many of them failed."""
    table = Table(title, "calls", "failed")
    for name in sorted(counts, key=str):
        table.add_row(name, str(counts[name]), str(failures[name]), style="red" if failures[name] else "")
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop earlier, when they are over")
    arguments = parser.parse_args()

    console, rows = Console(), calls.launchable(smemkit, arguments.device)
    ops, dtypes, failed_ops, failed_dtypes = (collections.Counter() for _ in range(4))
    begin = time.monotonic()
    end = begin + 60 * arguments.minutes
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]} failed"), TimeRemainingColumn()
    with Progress(*columns, console=console, redirect_stdout=False) as progress:
        task = progress.add_task("", total=arguments.calls, failed=0)
        for seed in range(arguments.seed, arguments.seed + arguments.calls):
            call, wrong = attempt(seed, rows, arguments.device)
            op, dtype = (call.problem.op, call.problem.operands[0].dtype) if call else ("not drawn", "not drawn")
            ops[op] += 1
            dtypes[dtype] += 1
            if wrong:
                failed_ops[op] += 1
                failed_dtypes[dtype] += 1
                if failed_ops.total() <= SHOWN:
                    console.print(f"seed {seed}: {wrong}\n", markup=False, highlight=False, soft_wrap=True)
            if ops.total() % 100 == 0 or wrong:
                progress.update(task, completed=ops.total(), failed=failed_ops.total())
                if time.monotonic() > end:
                    break
        progress.update(task, completed=ops.total(), failed=failed_ops.total())
    seconds, number, failed = time.monotonic() - begin, ops.total(), failed_ops.total()
    tables = summary("op", ops, failed_ops), summary("dtype of the first operand", dtypes, failed_dtypes)
    console.print(Columns(tables))
    rate = f"{number / max(seconds, 1e-9):.0f} a second"
    console.print(f"{number} calls on {arguments.device} in {seconds:.0f} s ({rate}), {failed} failed")
    return 1 if failed or not number else 0


if __name__ == "__main__":
    sys.exit(main())
