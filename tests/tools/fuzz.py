"""Compares random calls of smemkit with NumPy, as many as there is time for.

    python tests/tools/fuzz.py                                  100 000 calls on the CPU device
    python tests/tools/fuzz.py --device cuda:0 --minutes 20     on a GPU, for at most 20 minutes
    python tests/tools/fuzz.py --family matmul                  products only
    python tests/tools/fuzz.py --alarms 200                     also 200 larger calls, interrupted at random times
    python tests/tools/fuzz.py --seed 12345 --calls 1           one of them again: every failure prints its seed

calls.py generates and verifies the calls. Call i of a run has the seed `--seed` + i. Every other call is made
twice: the first time one of its launches or allocations fails, or it is interrupted. With --alarms, larger calls
are also interrupted at random times. The exit status is 1 if a call failed. Needs numpy, ml_dtypes, rich, and an
importable smemkit.
"""

import argparse
import collections
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the products are small, and smemkit needs the cores
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests/

import calls
import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import smemkit

MAX_PRINTED_FAILURES = 20  # the other failures are only counted


def attempt(seed, rows, device, family):
    """Draws and runs one call; returns the call, or None if drawing it failed, and an error text or None."""
    call = None
    choose = random.Random(seed).choice
    try:
        call = calls.draw(choose, rows, family)
        call.verify(smemkit, device, calls.draw_fault(choose))
    except calls.MismatchError as error:
        return call, str(error)
    except Exception:  # raised by the generator or by a transfer of an operand: also a failure
        return call, f"{traceback.format_exc()}\n{call!r}"
    return call, None


class InterruptedByAlarm(BaseException):
    """Raised by the alarm's signal handler, at any point of a call."""


def alarm(*_):
    raise InterruptedByAlarm


def draw_larger_call(rng, device):
    """A call that takes about a tenth of a second: (function, operands, expected result)."""
    n = rng.randrange(200, 400)
    x = np.ones((n, 4 * n) if device == "cpu" else (10 * n, 40 * n), np.float32)
    function = rng.choice(("matmul", "sum", "transpose", "add_one"))
    if function == "matmul":
        return function, (x, x.T.copy()), np.full((len(x), len(x)), x.shape[1], np.float32)
    return function, (x,), {"sum": lambda: x.sum(0), "transpose": x.T.copy, "add_one": lambda: x + 1}[function]()


def attempt_interrupted(seed, device):
    """Interrupts a larger call at a random time; returns an error text or None, and whether it was interrupted."""
    rng = random.Random(seed)
    function, operands, expected = draw_larger_call(rng, device)
    out = np.full_like(expected, np.nan)
    keywords = {"axis": 0} if function == "sum" else {}
    arrays = rng.random() < 0.5
    target = smemkit.asarray(out, device=device) if arrays else out
    given = [smemkit.asarray(x, device=device) for x in operands] if arrays else operands
    if not arrays:
        keywords["device"] = device
    message, interrupted = "", False
    signal.signal(signal.SIGALRM, alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 10 ** rng.uniform(-4, -0.5))
        getattr(smemkit, function)(*given, out=target, **keywords)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except InterruptedByAlarm as error:
        message, interrupted = " ".join([str(error), *getattr(error, "__notes__", ())]), True
    except Exception:
        return traceback.format_exc(), False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    result = target.numpy() if arrays else out
    complete, untouched = np.array_equal(result, expected), np.isnan(result).all()
    if not (complete or (interrupted and (untouched or calls.IN_PART in message))):
        return (
            f"{function}, {'Arrays' if arrays else 'NumPy'}: the result is incomplete, but no exception says so",
            interrupted,
        )
    if smemkit.matmul(np.ones((3, 4)), np.ones((4, 3)), device=device).sum() != 36:
        return f"{function}: the next call gives a wrong result", interrupted
    return None, interrupted


def summary(title, counts, failures):
    """A table of the number of calls of each kind, and of their failures."""
    table = Table(title, "calls", "failed")
    for name in sorted(counts, key=str):
        table.add_row(name, str(counts[name]), str(failures[name]), style="red" if failures[name] else "")
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--family", choices=calls.FAMILIES, help="draw calls of this family only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after this many minutes")
    parser.add_argument(
        "--alarms", type=int, default=0, help="number of larger calls to interrupt at random times"
    )
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore SIGINT

    console, rows = Console(), calls.launchable(smemkit, arguments.device)
    ops, dtypes, failed_ops, failed_dtypes = (collections.Counter() for _ in range(4))
    begin = time.monotonic()
    end = begin + 60 * arguments.minutes
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]} failed"), TimeRemainingColumn()
    with Progress(*columns, console=console, redirect_stdout=False) as progress:
        task = progress.add_task("", total=arguments.calls, failed=0)
        for seed in range(arguments.seed, arguments.seed + arguments.calls):
            call, wrong = attempt(seed, rows, arguments.device, arguments.family)
            op, dtype = (call.problem.op, call.problem.operands[0].dtype) if call else ("not drawn", "not drawn")
            ops[op] += 1
            dtypes[dtype] += 1
            if wrong:
                failed_ops[op] += 1
                failed_dtypes[dtype] += 1
                if failed_ops.total() <= MAX_PRINTED_FAILURES:
                    console.print(f"seed {seed}: {wrong}\n", markup=False, highlight=False, soft_wrap=True)
            if ops.total() % 100 == 0 or wrong:
                progress.update(task, completed=ops.total(), failed=failed_ops.total())
                if time.monotonic() > end:
                    break
        progress.update(task, completed=ops.total(), failed=failed_ops.total())
    interrupted, wrong_alarms = 0, []
    for seed in range(arguments.seed, arguments.seed + arguments.alarms):
        wrong, was_interrupted = attempt_interrupted(seed, arguments.device)
        interrupted += was_interrupted
        if wrong:
            wrong_alarms.append(f"alarm, seed {seed}: {wrong}")
            console.print(wrong_alarms[-1], markup=False, highlight=False, soft_wrap=True)
    if arguments.alarms:
        console.print(f"{interrupted} of {arguments.alarms} larger calls interrupted, {len(wrong_alarms)} failed")
    seconds, number, failed = time.monotonic() - begin, ops.total(), failed_ops.total()
    tables = summary("op", ops, failed_ops), summary("dtype of the first operand", dtypes, failed_dtypes)
    console.print(Columns(tables))
    rate = f"{number / max(seconds, 1e-9):.0f} per second"
    console.print(f"{number} calls on {arguments.device} in {seconds:.0f} s ({rate}), {failed} failed")
    return 1 if failed or wrong_alarms or not number + arguments.alarms else 0


if __name__ == "__main__":
    sys.exit(main())
