"""The log of ``nvcc -Xptxas -v``: each kernel's registers and static shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["KernelResources", "find_resources", "read_log"]

_ENTRY = re.compile(r"Compiling entry function '(?P<symbol>[^']+)' for 'sm_(?P<architecture>\d+)[af]?'")
_USED = re.compile(r"Used (?P<registers>\d+) registers\b(?P<rest>[^\n]*)")
_SHARED = re.compile(r"\b(?P<bytes>\d+)(?:\+\d+)? bytes smem\b")


@dataclass(frozen=True)
class KernelResources:
    """What a kernel uses: its symbol, the architecture ("90"), registers per thread, static shared bytes."""

    symbol: str
    architecture: str
    registers: int
    shared_bytes: int


def read_log(text: str) -> list[KernelResources]:
    """The kernels of a log.

    Examples
    --------
    >>> entry = "ptxas info : Compiling entry function '_Z1kPf' for 'sm_90'"
    >>> read_log(f"{entry}\\nptxas info : Used 8 registers, 64 bytes smem")
    [KernelResources(symbol='_Z1kPf', architecture='90', registers=8, shared_bytes=64)]
    """
    found, entry = [], None
    for line in text.split("\n"):
        entry = _ENTRY.search(line) or entry
        used = _USED.search(line)
        if entry and used:
            shared = _SHARED.search(used["rest"])
            size = int(shared["bytes"]) if shared else 0
            found.append(KernelResources(entry["symbol"], entry["architecture"], int(used["registers"]), size))
            entry = None
    return found


def find_resources(log: str | Path, name: str, architecture: str) -> KernelResources:
    """What a kernel uses by a log, which may be a file; of several instantiations the one with most registers.

    Parameters
    ----------
    log : str or path
        The text, or the path of a file with it.
    name : str
        "scale", "outer::scale<float>".
    architecture : str
        "90"; if the log has it not, the others count.

    Raises
    ------
    ValueError
        The log has no such kernel.
    OSError
        The file cannot be read.
    """
    is_path = isinstance(log, Path) or "\n" not in log
    text = Path(log).read_text(encoding="utf-8", errors="replace") if is_path else str(log)
    base = re.sub(r"<.*", "", name, flags=re.DOTALL).rpartition("::")[2].strip()
    kernels = read_log(text)
    own = [
        kernel for kernel in kernels if re.search(rf"(?<!\d){len(base)}{re.escape(base)}(?=[A-Z])", kernel.symbol)
    ]
    own = own or [kernel for kernel in kernels if kernel.symbol == base]  # extern "C"
    if not own:
        known = ", ".join(kernel.symbol for kernel in kernels) or "none"
        raise ValueError(f"log: expected the output of nvcc -Xptxas -v with kernel {base}; its kernels: {known}")
    return max(
        [kernel for kernel in own if kernel.architecture == architecture] or own,
        key=lambda kernel: (kernel.registers, kernel.shared_bytes),
    )
