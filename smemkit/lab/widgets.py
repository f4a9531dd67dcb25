"""Pictures to step through: the steps of a reduction, a walk of tiles, an access wavefront by wavefront.

With anywidget (``pip install 'smemkit[lab]'``) a notebook shows buttons and a slider; without it, and where a
notebook is shown without being run, all steps below each other. Nothing is loaded from a network.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smemkit.checker.bank_maps import map_rows
from smemkit.checker.banks import BANKS, LaneAddresses
from smemkit.checker.figures import draw_bank_map
from smemkit.lab.pictures import draw_matrix, draw_tree, tree_steps
from smemkit.lab.style import figure
from smemkit.measure.formats import pluralize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Steps", "reduction_steps", "tile_steps", "wavefront_steps"]

SCRIPT = Path(__file__).with_name("stepper.js")


@dataclass(frozen=True, repr=False, eq=False)
class Steps:
    """A picture in steps.

    Attributes
    ----------
    title : str
    frames : tuple of str
        Each step as SVG.
    captions : tuple of str
        What happens in it.
    """

    title: str
    frames: tuple[str, ...]
    captions: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Steps {self.title}: {pluralize(len(self.frames), 'step')}>"

    def _repr_html_(self) -> str:
        """All steps below each other: what is shown without anywidget."""
        pairs = zip(self.captions, self.frames, strict=True)
        parts = (f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>" for caption, svg in pairs)
        return f"<h4>{escape(self.title)}</h4>{''.join(parts)}"

    def widget(self) -> Any:
        """The widget.

        Raises
        ------
        ImportError
            anywidget is not installed.
        """
        return _make_widget(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """The widget if anywidget is installed; the static form beside it, for viewers without a kernel."""
        static = {"text/plain": repr(self), "text/html": self._repr_html_()}
        try:
            bundle = self.widget()._repr_mimebundle_()
        except ImportError:
            return static
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return static | {kind: content for kind, content in data.items() if "widget" in kind}, metadata


def _make_widget(steps: Steps) -> Any:
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise ImportError("a widget needs anywidget: pip install 'smemkit[lab]'") from error

    class Stepper(anywidget.AnyWidget):
        _esm = SCRIPT.read_text(encoding="utf-8")
        frames = traitlets.List(traitlets.Unicode()).tag(sync=True)
        captions = traitlets.List(traitlets.Unicode()).tag(sync=True)
        step = traitlets.Int(0).tag(sync=True)

    return Stepper(frames=list(steps.frames), captions=list(steps.captions))


def _steps(title: str, made: Iterable[tuple[str, Figure]]) -> Steps:
    """The steps from captions and figures."""
    captions, frames = [], []
    for caption, drawn in made:
        svg = io.StringIO()
        drawn.savefig(svg, format="svg", bbox_inches="tight", metadata={"Date": None})
        captions.append(caption)
        drawing = svg.getvalue().partition("<svg")[2]
        frames.append(f'<svg style="max-width: 100%; height: auto"{drawing}')  # no wider than the page
    return Steps(title, tuple(frames), tuple(captions))


def _listed(numbers: Sequence[int]) -> str:
    """ "0, 1" or "0 to 7"."""
    if len(numbers) > 2 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    return ", ".join(map(str, numbers))


def reduction_steps(n: int = 16, way: str = "sequential") -> Steps:
    """The steps of a tree reduction, one by one.

    Parameters
    ----------
    n : int
        Words, and threads: a power of two up to 32.
    way : {"sequential", "divergent", "conflicting"}

    Returns
    -------
    Steps
    """
    if n not in (2, 4, 8, 16, 32):
        raise ValueError(f"n: expected 2, 4, 8, 16 or 32, got {n!r}")
    steps = tree_steps(n, way)

    def made() -> Iterator[tuple[str, Figure]]:
        for shown, step in enumerate(steps, 1):
            at_work = f"{pluralize(len(step), 'thread')} at work: {_listed([thread for thread, _, _ in step])}"
            caption = f"{at_work}; {n - len(step)} idle"
            drawn = figure(f"step {shown}: {pluralize(len(step), 'sum')}", 9, 1.3 + 0.75 * len(steps))
            draw_tree(drawn.subplots(), n, steps, shown)
            yield caption, drawn

    return _steps(f"A tree reduction of {n} words, {way}", made())


def tile_steps(n: int = 8, tile: int = 4, block: tuple[int, int] = (0, 1)) -> Steps:
    """The walk of a block's tiles over A and B, one pair at a time.

    Parameters
    ----------
    n : int
        Rows and columns.
    tile : int
        A divisor of `n`.
    block : (int, int)
        Row and column of the block's tile of C.

    Returns
    -------
    Steps
    """
    if n % tile or not all(0 <= place < n // tile for place in block):
        raise ValueError(f"tile: expected a divisor of n, and a block of the grid; got {tile} for {n}, {block}")

    def made() -> Iterator[tuple[str, Figure]]:
        for step in range(n // tile):
            drawn = figure(f"step {step + 1} of {n // tile}", 9, 3.4)
            a, b, c = drawn.subplots(1, 3)
            draw_matrix(a, n, tile, (block[0], step), "A", "teal")
            draw_matrix(b, n, tile, (step, block[1]), "B", "skyblue")
            draw_matrix(c, n, tile, block, "C", "goldenrod")
            columns = f"{step * tile} to {step * tile + tile - 1}"
            yield (
                f"columns {columns} of A and rows {columns} of B are loaded, and multiplied from shared memory",
                drawn,
            )

    return _steps(f"A matmul of {n} × {n} with tiles of {tile}", made())


def wavefront_steps(addresses: LaneAddresses, size: int = 4, *, store: bool = False) -> Steps:
    """One access of a warp to shared memory, wavefront by wavefront.

    Parameters
    ----------
    addresses : sequence of int or None
        The byte address of each lane.
    size : {4, 1, 2, 8, 16}
        Bytes per lane.
    store : bool

    Returns
    -------
    Steps
    """
    rows = map_rows(addresses, size, store=store)

    def made() -> Iterator[tuple[str, Figure]]:
        for number, (_, banks, _) in enumerate(rows):
            lanes = sorted({lane for served in banks for lane in served})
            empty = (False, [()] * BANKS, [False] * BANKS)
            shown = [row if place <= number else empty for place, row in enumerate(rows)]
            drawn = figure(f"wavefront {number}", 9, 1.5 + 0.19 * len(rows))
            draw_bank_map(drawn.subplots(), shown, "the lane that a bank serves; n×: n lanes with one word")
            used = sum(bool(served) for served in banks)
            yield f"{pluralize(used, 'bank')} at work for lanes {_listed(lanes)}", drawn

    return _steps(f"An access in {pluralize(len(rows), 'wavefront')}", made())
