"""The layers of csrc/ depend on each other in one direction: layers.py checks #include lines and symbols."""

import layers
import pytest
from cases import ROOT

TREE = {  # each layer may call the previous one
    "base/number.h": "int base_number(void);\n",
    "base/number.c": '#include "number.h"\nint base_number(void) { return 1; }\n',
    "executor/run.h": "int executor_run(void);\n",
    "executor/run.c": '#include "base/number.h"\nint executor_run(void) { return base_number(); }\n',
    "python/state.c": "#include <Python.h>\nPyObject *state(void) { return PyLong_FromLong(1); }\n",
}


def check(tmp_path, capsys, **changes):
    """Checks TREE with text appended to some files: the exit status and the messages."""
    for file, text in TREE.items():
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + changes.get(file.replace("/", "_").replace(".", "_"), ""))
    status = layers.main(tmp_path)
    return status, capsys.readouterr().err.splitlines()


def test_includes_and_lengths_of_this_repository():
    assert layers.broken_includes(ROOT / "csrc") + layers.too_long(ROOT / "csrc") == []


def test_a_clean_tree_passes(tmp_path, capsys):
    assert check(tmp_path, capsys) == (0, [])


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("base_number_c", '#include "executor/run.h"\n', "base/number.c: includes executor/run.h"),
        (
            "base_number_c",
            "int executor_run(void);\nint again(void) { return executor_run(); }\n",
            "base/number.c: uses executor_run of executor/run.c",
        ),
        ("executor_run_c", "#include <Python.h>\n", "executor/run.c: includes Python.h below python/"),
        (
            "executor_run_c",
            "int PyErr_CheckSignals(void);\nint ask(void) { return PyErr_CheckSignals(); }\n",
            "executor/run.c: calls PyErr_CheckSignals below python/",
        ),
    ],
    ids=["include", "symbol", "Python.h", "Python's symbol"],
)
def test_wrong_dependencies_are_found(tmp_path, capsys, file, text, message):
    assert check(tmp_path, capsys, **{file: text}) == (1, [message])


def test_long_files_and_functions_are_found(tmp_path, capsys):
    function = "int f(void)\n{\n" + 59 * "\n" + "}\n"
    assert check(tmp_path, capsys, base_number_c=function) == (1, ["base/number.c:4: a function of 61 lines"])
    assert check(tmp_path, capsys, base_number_c=function.replace("\n\n", "\n", 1)) == (0, [])
    assert check(tmp_path, capsys, base_number_c=600 * "\n")[1] == [
        "base/number.c: 602 lines, and 600 are allowed"
    ]


def test_a_new_folder_needs_a_layer(tmp_path, capsys):
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "all.c").write_text("")
    assert check(tmp_path, capsys) == (1, ["helpers/all.c: helpers is no layer"])
