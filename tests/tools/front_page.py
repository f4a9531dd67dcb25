"""Draws the pictures of README.md into docs/pictures/, with `smemkit.lab` and the recorded reference files.

    python tests/tools/front_page.py

A test draws them again and compares their texts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import smemkit
from smemkit.lab.pictures import bank_map, ladder_chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
COLUMN = range(0, 4096, 128)  # the addresses of tile[0..31][0] in `float tile[32][32]`
PICTURES: dict[str, Callable[[], Figure]] = {
    "bank_map.svg": lambda: bank_map(COLUMN),
    "transpose.svg": lambda: ladder_chart("transpose", (8192, 8192)),
    "reduce.svg": lambda: ladder_chart("reduce", (1 << 24,)),
    "roofline.svg": lambda: smemkit.lab.matmul("cpu").plot(),
}


def draw(name: str, target: Path) -> None:
    """Writes a picture; the text stays text, and the same picture has the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "smemkit"}):
        PICTURES[name]().savefig(target, facecolor="white", metadata={"Date": None})


def main() -> None:
    """Draws all."""
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        draw(name, FOLDER / name)


if __name__ == "__main__":
    main()
