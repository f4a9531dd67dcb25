"""The documentation site: `sphinx-build -W docs build/docs`, with `pip install '.[docs]'`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from smemkit import __version__ as release
from smemkit.table.kernel_table import reading_order

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

project, author, version = "smemkit", "the authors of smemkit", release
extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
templates_path = ["_templates"]
html_theme = "furo"
html_title = f"smemkit {release}"
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "off"  # the notebooks' committed outputs are shown
autosummary_generate = True
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]  # cells of CUDA, below the magic %%smemkit, are no Python
# A link to a file or folder of the repository, which is no page: `[naive](matmul/ladder/10_naive.cu)`
_REPOSITORY_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./[^)#]*|[^):#]+\.cu?)\)")


def generated(app) -> None:
    """Copies the notebooks, and writes the kernels' and the support table, from what they document."""
    folder = HERE / "generated"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    for page in folder.glob("notebooks/*.*"):
        page.write_text(_without_repository_links(page.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "kernels.md").write_text(_without_repository_links(reading_order()), encoding="utf-8")
    command = [sys.executable, "-m", "smemkit", "support"]
    # from here: in the repository's root, Python would find smemkit/ instead of the installed package
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=HERE).stdout
    (folder / "support.md").write_text(f"# What kernels may use\n\n```text\n{listed}```\n", encoding="utf-8")


def _without_repository_links(text: str) -> str:
    """A page whose links to what is not on the site are plain text."""
    return _REPOSITORY_LINK.sub(r"\1", text)


def setup(app) -> None:
    """Sphinx's hook."""
    app.connect("builder-inited", generated, priority=100)
