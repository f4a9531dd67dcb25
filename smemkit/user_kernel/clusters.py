"""The cluster of a launch: that of ``kernel[grid, block, …, cluster]``, or of ``__cluster_dims__``."""

from __future__ import annotations

import math
import re

from smemkit.cuda_source.overloads import template_name
from smemkit.cuda_source.scanner import DeviceCode

__all__ = ["MAX_CLUSTER", "cluster_of_launch", "declared_cluster"]

MAX_CLUSTER = 16  # blocks
_DIMS = re.compile(r"\b__cluster_dims__\s*\(([^()]*)\)")
Dimensions = tuple[int, int, int]


def declared_cluster(code: DeviceCode, kernel: str) -> Dimensions | None:
    """The cluster of a kernel's ``__cluster_dims__``; None if it has none.

    Raises
    ------
    ValueError
        Its numbers are not literals.
    """
    name = template_name(kernel)
    for outline in code.outlines:
        found = _DIMS.search(code.text, outline.start, outline.end) if outline.kernel == name else None
        if not found:
            continue
        words = [word.strip() for word in found[1].split(",")]
        if not all(re.fullmatch(r"[1-9]\d*[uU]?", word) for word in words):
            raise ValueError(
                f"{kernel}: expected numbers in __cluster_dims__({found[1]}) for a launch on the CPU device; "
                "or leave it out and give the launch a cluster"
            )
        numbers = [int(word.rstrip("uU")) for word in words]
        return tuple([*numbers, 1, 1][:3])
    return None


def cluster_of_launch(
    given: Dimensions | None, declared: Dimensions | None, grid: Dimensions
) -> Dimensions | None:
    """The cluster of a launch, None without one.

    Raises
    ------
    ValueError
        The launch and the kernel differ, it is too large, or it does not divide the grid.
    """
    if given and declared and given != declared:
        raise ValueError(f"cluster: expected {declared}, the kernel's __cluster_dims__, got {given}")
    cluster = given or declared
    if cluster is None:
        return None
    if math.prod(cluster) > MAX_CLUSTER:
        raise ValueError(f"cluster: expected at most {MAX_CLUSTER} blocks, got {cluster}")
    if any(blocks % size for blocks, size in zip(grid, cluster, strict=True)):
        raise ValueError(f"cluster: expected a divisor of the grid {grid} in each dimension, got {cluster}")
    return cluster
