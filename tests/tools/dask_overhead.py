"""Measures what Dask adds to smemkit's own time, on one worker process of the CPU device.

    python tests/tools/dask_overhead.py

Prints the CPU time of a product in chunks of 1024 x 1024, of the worker and of the scheduler together, beside that
of the same calls in a loop, and the time per task of a sum of many small chunks. CPU time, because another job on
the machine would change the time on a clock by more than Dask does.
"""

import gc
import time

import dask
import dask.array as da
import distributed
import numpy as np

import smemkit
import smemkit.dask

CHUNK, BLOCKS, REPEAT = 1024, 2, 3  # the product is (BLOCKS * CHUNK, BLOCKS * CHUNK)
SMALL_CHUNKS = 2000


def least(clock, call, forget=lambda: None):
    """The least time of a few calls on a clock; `forget` ends what one of them leaves behind."""
    times = []
    for _ in range(REPEAT):
        start = clock()
        call()
        times.append(clock() - start)
        forget()
    return min(times)


def by_hand(x, y):
    """The product of the chunks, without Dask."""
    parts = [slice(i * CHUNK, (i + 1) * CHUNK) for i in range(BLOCKS)]
    for i in parts:
        for j in parts:
            total = smemkit.matmul(x[i, parts[0]], y[parts[0], j], device="cpu")
            for k in parts[1:]:
                total += smemkit.matmul(x[i, k], y[k, j], device="cpu")


def forget(client, lazy):
    """Waits until no result of a computation is held: else the next one would find it."""
    gc.collect()
    while any(map(client.who_has().get, map(str, lazy.__dask_keys__()))):
        time.sleep(0.1)
    time.sleep(0.5)


def of_dask(client, x, y):
    """CPU seconds of the product, and seconds per task of the sum with its number of tasks."""

    def cpu_seconds():
        return time.process_time() + sum(client.run(time.process_time).values())

    def compute(lazy):
        distributed.wait(lazy.persist())

    a, b = (client.persist(da.from_array(v, chunks=CHUNK)) for v in (x, y))
    distributed.wait([a, b])
    product = smemkit.dask.matmul(a, b, device="cpu")
    multiply = least(cpu_seconds, lambda: compute(product), lambda: forget(client, product))
    (total,) = dask.optimize(smemkit.dask.sum(da.zeros(SMALL_CHUNKS, chunks=1), device="cpu"))
    tasks = len(dict(total.__dask_graph__()))
    add = least(time.perf_counter, lambda: compute(total), lambda: forget(client, total))
    return multiply, add / tasks, tasks


def main():
    """Measures both, and prints them."""
    n = BLOCKS * CHUNK
    x, y = (np.random.default_rng(seed).random((n, n), dtype=np.float32) for seed in (0, 1))
    alone = least(time.process_time, lambda: by_hand(x, y))
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        multiply, per_task, tasks = of_dask(client, x, y)
    print(f"matmul: {alone:.2f} CPU-s by hand, {multiply:.2f} CPU-s by Dask: {multiply / alone - 1:+.1%}")
    print(f"sum: {per_task * 1e6:.0f} us per task, of {tasks}")


if __name__ == "__main__":
    main()
