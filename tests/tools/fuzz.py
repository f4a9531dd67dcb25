"""Random calls of smemkit against NumPy, as many as there is time for.

    python tests/tools/fuzz.py                                  100 000 calls on the CPU device
    python tests/tools/fuzz.py --device cuda:0 --minutes 20     on a GPU, until the time is over
    python tests/tools/fuzz.py --alarms 200                     and 200 larger ones, interrupted at any time
    python tests/tools/fuzz.py --seed 12345 --calls 1           one of them again: every failure tells its seed

The calls, and what is demanded of them, are calls.py's. Call i of a run has the seed `--seed` + i. Every other
call is made twice: first one of its launches or allocations fails, or it is interrupted. With --alarms, larger
calls are interrupted at random times as well. Exit status 1 where a call failed. It needs numpy, ml_dtypes and
rich, and the smemkit that Python finds.
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

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the products are small, and the cores are smemkit's
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # tests/

import calls
import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import smemkit

SHOWN = 20  # failures; the others are counted


def attempt(seed, rows, device):
    """Draws and runs one call: the call, where it was drawn, and what is wrong with it, or None."""
    call = None
    choose = random.Random(seed).choice
    try:
        call = calls.draw(choose, rows)
        call.verify(smemkit, device, calls.draw_fault(choose))
    except calls.MismatchError as error:
        return call, str(error)
    except Exception:  # of the generator, or of an operand on its way: a failure like any other
        return call, f"{traceback.format_exc()}\n{call!r}"
    return call, None


class InterruptedByAlarm(BaseException):
    """What the handler of the alarm raises, in the middle of anything."""


def alarm(*_):
    raise InterruptedByAlarm


def larger(rng, device):
    """A call that takes a tenth of a second or so, and what it makes: (function, operands, result)."""
    n = rng.randrange(200, 400)
    x = np.ones((n, 4 * n) if device == "cpu" else (10 * n, 40 * n), np.float32)
    function = rng.choice(("matmul", "sum", "transpose", "add_one"))
    if function == "matmul":
        return function, (x, x.T.copy()), np.full((len(x), len(x)), x.shape[1], np.float32)
    return function, (x,), {"sum": lambda: x.sum(0), "transpose": x.T.copy, "add_one": lambda: x + 1}[function]()


def attempt_interrupted(seed, device):
    """Interrupts a larger call at a random time: what is wrong, or None, and whether it was interrupted."""
    rng = random.Random(seed)
    function, operands, expected = larger(rng, device)
    out = np.full_like(expected, np.nan)
    keywords = {"axis": 0} if function == "sum" else {}
    arrays = rng.random() < 0.5
    target = smemkit.asarray(out, device=device) if arrays else out
    given = [smemkit.asarray(x, device=device) for x in operands] if arrays else operands
    if not arrays:
        keywords["device"] = device
    told, interrupted = "", False
    signal.signal(signal.SIGALRM, alarm)
    try:
        signal.setitimer(signal.ITIMER_REAL, 10 ** rng.uniform(-4, -0.5))
        getattr(smemkit, function)(*given, out=target, **keywords)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except InterruptedByAlarm as error:
        told, interrupted = " ".join([str(error), *getattr(error, "__notes__", ())]), True
    except Exception:
        return traceback.format_exc(), False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    result = target.numpy() if arrays else out
    complete, untouched = np.array_equal(result, expected), np.isnan(result).all()
    if not (complete or (interrupted and (untouched or calls.IN_PART in told))):
        return (
            f"{function}, {'Arrays' if arrays else 'NumPy'}: a result that is neither whole nor told of",
            interrupted,
        )
    if smemkit.matmul(np.ones((3, 4)), np.ones((4, 3)), device=device).sum() != 36:
        return f"{function}: the next call is wrong", interrupted
    return None, interrupted


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
    parser.add_argument("--alarms", type=int, default=0, help="larger calls that are interrupted at random times")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the background job of a shell ignores it

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
    interrupted, wrong_alarms = 0, []
    for seed in range(arguments.seed, arguments.seed + arguments.alarms):
        wrong, struck = attempt_interrupted(seed, arguments.device)
        interrupted += struck
        if wrong:
            wrong_alarms.append(f"alarm, seed {seed}: {wrong}")
            console.print(wrong_alarms[-1], markup=False, highlight=False, soft_wrap=True)
    if arguments.alarms:
        console.print(f"{interrupted} of {arguments.alarms} larger calls interrupted, {len(wrong_alarms)} failed")
    seconds, number, failed = time.monotonic() - begin, ops.total(), failed_ops.total()
    tables = summary("op", ops, failed_ops), summary("dtype of the first operand", dtypes, failed_dtypes)
    console.print(Columns(tables))
    rate = f"{number / max(seconds, 1e-9):.0f} a second"
    console.print(f"{number} calls on {arguments.device} in {seconds:.0f} s ({rate}), {failed} failed")
    return 1 if failed or wrong_alarms or not number + arguments.alarms else 0


if __name__ == "__main__":
    sys.exit(main())
