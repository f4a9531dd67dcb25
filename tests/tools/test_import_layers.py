"""The layers of smemkit/ import each other in one direction: import_layers.py reads the import statements."""

import import_layers
import pytest
from cases import ROOT

TREE = {  # each file may import the previous ones
    "__init__.py": "from smemkit.checker.check import check\n",
    "ops.py": "from smemkit import _core\n",
    "table/__init__.py": "",
    "table/planning.py": "from smemkit import _core, ops\n",
    "checker/__init__.py": "",
    "checker/report.py": "import html\nfrom smemkit.table import planning\n",
    "checker/check.py": "from smemkit.checker.report import Report\nfrom . import report\n",
}


def check(tmp_path, capsys, file, text=""):
    """Checks TREE with text appended to one file: the exit status and the messages."""
    for name, content in {**TREE, file: TREE.get(file, "") + text}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    status = import_layers.main(tmp_path)
    return status, capsys.readouterr().err.splitlines()


def test_imports_of_this_repository():
    assert import_layers.broken(ROOT / "smemkit") == []


def test_a_clean_tree_passes(tmp_path, capsys):
    assert check(tmp_path, capsys, "ops.py") == (0, [])


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("ops.py", "import smemkit.table.planning\n", "ops.py:2: imports table.planning"),
        ("ops.py", "from smemkit.table.planning import plan\n", "ops.py:2: imports table.planning"),
        ("ops.py", "from smemkit import table\n", "ops.py:2: imports table.__init__"),
        ("ops.py", "def f():\n    from smemkit import checker\n", "ops.py:3: imports checker.__init__"),
        ("ops.py", "if TYPE_CHECKING:\n    import smemkit\n", "ops.py:3: imports __init__"),
        ("ops.py", "importlib.import_module('smemkit.checker.check')\n", "ops.py:2: imports checker.check"),
        ("table/planning.py", "from ..checker import report\n", "table/planning.py:2: imports checker.report"),
        ("checker/report.py", "from smemkit import sum\n", "checker/report.py:3: imports __init__"),
    ],
    ids=["import", "from", "folder", "late", "typing", "import_module", "relative", "package"],
)
def test_upward_imports_are_found(tmp_path, capsys, file, text, message):
    status, messages = check(tmp_path, capsys, file, text)
    assert (status, messages[0]) == (1, message)


def test_a_circle_in_a_folder_is_found(tmp_path, capsys):
    text = "def f():\n    from smemkit.checker.check import check\n"
    status, (message,) = check(tmp_path, capsys, "checker/report.py", text)
    assert status == 1
    assert message.startswith("a circle: checker.") and message.count("checker.report") >= 1


def test_files_of_one_level_do_not_know_each_other(tmp_path, capsys):
    assert check(tmp_path, capsys, "arrays.py", "from smemkit import ops\n") == (1, ["arrays.py:1: imports ops"])


def test_a_new_folder_needs_a_level(tmp_path, capsys):
    assert check(tmp_path, capsys, "helpers/all.py") == (1, ["helpers/all.py: helpers is no layer"])
