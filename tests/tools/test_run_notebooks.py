"""What the tool that runs notebooks writes as their outputs."""

from run_notebooks import run_cell


def texts(source):
    return [output["text"] for output in run_cell(source, {}, 1, "cell")]


def test_printed_lines_are_stored_as_they_are():
    assert texts("print('a\\n\\nb\\x0cc')\nprint('d', end='')") == [["a\n", "\n", "b\x0cc\n", "d"]]
    assert texts("x = 1") == []


def test_a_progress_bar_is_stored_in_its_last_state():
    source = "print('\\r[#  ]', end=''); print('\\r[###]', end=''); print('\\x1b[2K\\r'); print('done')"
    assert texts(source) == [["[###]\n", "done\n"]]
