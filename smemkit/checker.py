"""The checker: what a kernel asks of memory, explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smemkit import _core

__all__ = ["Access", "wavefronts"]


@dataclass(frozen=True)
class Access:
    """What shared memory does for one request of a warp.

    Attributes
    ----------
    wavefronts : int
        Passes of shared memory that the request takes.
    conflicts : int
        How many of them it would not take without bank conflicts.
    degree : int
        The most words that one bank has to deliver at once: the n of an "n-way bank conflict", 1 without one.
    groups : int
        Groups of lanes, with an active lane in them, that are served one after the other: more than one where the
        lanes of a warp ask for more bytes than the banks have.
    banks : tuple of int
        The words that each bank delivers.
    """

    wavefronts: int
    conflicts: int
    degree: int
    groups: int
    banks: tuple[int, ...]


def wavefronts(
    addresses: Sequence[int | None], size: int = 4, *, store: bool = False, banks: int = 32, bank_width: int = 4
) -> Access:
    """What one request of a warp costs in shared memory.

    Parameters
    ----------
    addresses : sequence of int or None, up to 32
        The byte address that each lane asks for, a multiple of `size`; None for a lane that is not active, as are
        those beyond the sequence's end.
    size : {4, 1, 2, 8, 16}
        Bytes a lane.
    store : bool
        Whether it writes.
    banks : {32, 16, 8, 4, 2}
        How many banks there are; 16 on GPUs of compute capability 1.
    bank_width : {4, 8}
        Bytes a word of a bank; 8 on some of capability 3.

    Returns
    -------
    Access

    Raises
    ------
    TypeError, ValueError
        An argument is not what is required; the message names it.

    Notes
    -----
    For 32 banks of 4 bytes this is what the hardware counts (Nsight Compute on an H200: every one of 240 random
    requests that the tests hold it against). A request is cut into groups of consecutive lanes: of 32 lanes for up
    to 4 bytes, of 16 for 8 bytes, of 8 for 16; of twice as many for a load in which every lane t has the address
    of lane t^1, or every one that of t^2. A group takes as many wavefronts as the busiest bank has distinct words
    to deliver to it. Other banks and widths are predictions by the same rule: today's GPUs have 32 of 4 bytes.

    Examples
    --------
    >>> import smemkit
    >>> column = [128 * lane for lane in range(32)]  # of float tile[32][32]
    >>> smemkit.wavefronts(column).degree
    32
    >>> padded = [132 * lane for lane in range(32)]  # of float tile[32][33]
    >>> smemkit.wavefronts(padded).conflicts
    0
    """
    return Access(*_core.wavefronts(addresses, size, store, banks, bank_width))
