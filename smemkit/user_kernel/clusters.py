"""The cluster of a launch: that of ``kernel[grid, block, …, cluster]``, or of ``__cluster_dims__``."""

from __future__ import annotations

import math
import re

from smemkit.cuda_source.overloads import template_name
from smemkit.cuda_source.scanner import DeviceCode

__all__ = ["MAX_CLUSTER", "cluster_expressions", "cluster_of_launch"]

MAX_CLUSTER = 16  # blocks
_DIMS = re.compile(r"\b__cluster_dims__\s*(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))")
Dimensions = tuple[int, int, int]


def cluster_expressions(code: DeviceCode, kernel: str) -> str | None:
    """What a kernel's ``__cluster_dims__`` has between its parentheses; None if it has none.

    Raises
    ------
    ValueError
        Its numbers are parameters of its template.
    """
    name = template_name(kernel)
    for outline in code.outlines:
        found = _DIMS.search(code.text, outline.start, outline.end) if outline.kernel == name else None
        if not found:
            continue
        text = found[1][1:-1].strip()
        template = next((function.template for function in code.functions if function.name == name), None)
        if template and set(re.findall(r"[A-Za-z_]\w*", text)) & set(re.findall(r"[A-Za-z_]\w*", template)):
            raise ValueError(
                f"{kernel}: expected no parameters of its template in __cluster_dims__({text}) on the CPU device; "
                "leave it out, and give the launch a cluster"
            )
        return text
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
