"""Runs the notebooks from top to bottom; any error in any cell fails.

    python tests/tools/run_notebooks.py                  in a Jupyter kernel, in memory; needs nbclient, ipykernel
    python tests/tools/run_notebooks.py --write FOLDER   without Jupyter; writes the notebooks with outputs

SMEMKIT_DEVICE selects the device: CI runs them on "cpu"; the first cell of the committed ones names theirs.
--write works without Jupyter, for GPU machines that lack it. It supports what our notebooks need: plain Python,
printed output, the value of a cell's last expression, matplotlib's figures, and the magic %%smemkit.
"""

from __future__ import annotations

import argparse
import ast
import base64
import contextlib
import functools
import io
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
CELL_SECONDS = 120  # time limit of a cell in a Jupyter kernel
MAGIC, LOAD_MAGIC = "%%smemkit", "%load_ext smemkit"


def check(path: Path) -> None:
    """Runs a notebook in its own Jupyter kernel."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    NotebookClient(notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": str(path.parent)}}).execute()


def execute(path: Path) -> dict[str, Any]:
    """Runs a notebook in this process; returns its content with outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    namespace = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for count, cell in enumerate(code, 1):
        cell["execution_count"] = count
        cell["outputs"] = run_cell("".join(cell["source"]), namespace, count, f"<{path.name}, cell {cell['id']}>")
    return notebook


def run_cell(source: str, namespace: dict[str, Any], count: int, filename: str) -> list[dict[str, Any]]:
    """Runs a cell in `namespace`; returns its outputs: printed text, figures, last value."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        value = (
            run_magic(source, namespace) if source.startswith(MAGIC) else run_python(source, namespace, filename)
        )
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": as_displayed(printed.getvalue())})
    for data in figures():
        outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    if value is not None:
        text = str(value) if hasattr(value, "_repr_pretty_") else repr(value)
        data = {"text/plain": lines(text)}
        html = value._repr_html_() if hasattr(value, "_repr_html_") else None
        if html is not None:
            data["text/html"] = lines(html)
        if hasattr(value, "_repr_png_"):
            data["image/png"] = base64.b64encode(value._repr_png_()).decode() + "\n"
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def run_python(source: str, namespace: dict[str, Any], filename: str) -> Any:
    """Runs a cell of Python; returns the value of its last expression."""
    tree = ast.parse(source.replace(LOAD_MAGIC, "pass"), filename)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, filename, "exec"), namespace)
    return eval(compile(last, filename, "eval"), namespace) if last else None


def run_magic(source: str, namespace: dict[str, Any]) -> Any:
    """Runs a cell of CUDA as the magic does, with the line numbers of the cell."""
    from smemkit.notebook.magic import run_cell

    line, _, cell = source.removeprefix(MAGIC).partition("\n")
    return run_cell(line, "\n" + cell, namespace)


def figures() -> list[dict[str, Any]]:
    """matplotlib's open figures as PNG; closes them."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    plt, found = sys.modules["matplotlib.pyplot"], []
    for number in plt.get_fignums():
        figure, png = plt.figure(number), io.BytesIO()
        figure.savefig(png, format="png", bbox_inches="tight", metadata={"Software": None})
        image = base64.b64encode(png.getvalue()).decode() + "\n"
        found.append({"image/png": image, "text/plain": [repr(figure)]})
    plt.close("all")
    return found


def as_displayed(text: str) -> list[str]:
    """The printed lines without what a carriage return has overwritten: of a progress bar, its last state."""
    text = text.replace("\x1b[2K", "").replace("\r\n", "\n")
    return [line.rpartition("\r")[2] for line in lines(text)]


def lines(text: str) -> list[str]:
    """Text as a notebook stores it: a list of lines."""
    return list(io.StringIO(text))


def write(folder: Path, path: Path) -> None:
    """Runs a notebook in this process and writes it with its outputs to a folder."""
    text = json.dumps(execute(path), indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    (folder / path.name).write_text(text, encoding="utf-8")


def report(run: Callable[[Path], None], path: Path) -> bool:
    """Runs a notebook; prints its name with the seconds that it took, or its error. Whether it passed."""
    start = time.perf_counter()
    try:
        run(path)
    except Exception:
        print(f"{traceback.format_exc()}✗ {path.name}", file=sys.stderr, flush=True)
        return False
    print(f"✓ {path.name}, {time.perf_counter() - start:.1f} s", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--write", metavar="FOLDER", type=Path, help="write the notebooks with their outputs to FOLDER"
    )
    parser.add_argument("notebook", nargs="*", type=Path, help="all of notebooks/ if none is given")
    arguments = parser.parse_args()
    # from the last on: zarr.ipynb takes longest, and no core should wait for it
    paths = arguments.notebook or sorted(NOTEBOOKS.glob("*.ipynb"), reverse=True)
    if not paths:
        parser.error(f"there is no notebook in {NOTEBOOKS}")
    if arguments.write:
        os.environ["MPLBACKEND"] = "agg"
        warnings.filterwarnings(
            "ignore", "FigureCanvasAgg is non-interactive"
        )  # from plt.show(), if DISPLAY is set
        arguments.write.mkdir(parents=True, exist_ok=True)
    run = functools.partial(write, arguments.write) if arguments.write else check
    # `write` runs the cells in this process, one notebook after the other
    with ThreadPoolExecutor(1 if arguments.write else os.cpu_count()) as pool:
        passed = list(pool.map(functools.partial(report, run), paths))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
