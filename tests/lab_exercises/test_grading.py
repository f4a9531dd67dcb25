"""The grading machine: what a submission may do wrong before its numbers matter, and how a grade looks."""

import numpy as np
import pytest

from smemkit import lab
from smemkit.lab.exercises.cases import Case, Launch, first_difference, fresh
from smemkit.lab.exercises.grade import Grade
from smemkit.lab.exercises.grading import grade

RIGHT = "__global__ void k(const int *x, int *y)\n{\n    y[threadIdx.x] = x[threadIdx.x] + 1;\n}\n"


def case(**changes):
    x = np.arange(32, dtype=np.int32)
    defaults = {"arrays": {"x": x, "y": fresh(32, np.int32)}, "launches": (Launch("k", 1, 32, ("x", "y")),)}
    return Case(**{"label": "n = 32", "expected": {"y": x + 1}, **defaults, **changes})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("  \n", "The submission is empty."),
        ("int twice(int x) { return 2 * x; }", "This does not compile: source: expected a __global__ function"),
        (
            RIGHT.replace("+ 1", "+ one"),
            "This does not compile. Line 3, `y[threadIdx.x] = x[threadIdx.x] + one;`:",
        ),
        (RIGHT.replace("+ 1;", "+ 1"), "This does not compile. Line 3"),
        (RIGHT.replace("void k", "void other"), "With n = 32 the kernel could not run: name: expected one of"),
        (
            RIGHT.replace("int *y", "int *y, int n"),
            "With n = 32 the kernel could not run: k: expected 3 arguments",
        ),
        (
            RIGHT.replace("int *y", "float *y"),
            "With n = 32 the kernel could not run: y: expected an array of float32",
        ),
        (RIGHT.replace("[threadIdx.x] =", "[threadIdx.x + 1] ="), "With n = 32, line 3, "),
        (RIGHT.replace("y[", "if (threadIdx.x < 31) y["), "y[31] was never written, expected 32; 1 of 32"),
        (RIGHT.replace("+ 1", "- 1"), "y[0] is -1, expected 1; 32 of 32 elements are wrong."),
    ],
)
@pytest.mark.covering(1)
def test_first_fault_decides(source, message):
    passed, paragraph, _ = grade(source, [case()], [])
    assert not passed
    assert message in paragraph


def test_a_fault_comes_before_wrong_numbers_and_numbers_before_limits():
    never = [lambda case, report, source: pytest.fail("asked for a limit")]
    for source in (RIGHT.replace("+ 1", "+ 2"), RIGHT.replace("x[threadIdx.x] + 1", "x[threadIdx.x + 1] + 2")):
        assert not grade(source, [case()], never)[0]
    passed, paragraph, report = grade(RIGHT, [case()], [lambda case, report, source: "Line 3: too slow"])
    assert not passed
    assert paragraph == "The results are right, but a limit of the task is not kept (n = 32). Line 3: too slow."
    assert report.lines
    assert grade(RIGHT, [case()], [])[:2] == (
        True,
        "Right results for 1 hidden input, no fault found by the checker.",
    )


def test_differences_are_described():
    y = np.array([[1, 2], [3, 5]], np.float32)
    expected = {"y": np.array([[1, 2], [3, 4]], np.float64)}
    one = case(arrays={"y": fresh((2, 2))}, expected=expected)
    assert first_difference(one, {"y": y}) == "y[1][1] is 5, expected 4; 1 of 4 elements are wrong"
    assert first_difference(case(expected=expected, arrays={"y": y}, tolerance=1.0), {"y": y}) == ""
    y[0, 0] = np.nan
    assert "y[0][0] was never written, expected 1; 2 of 4" in first_difference(one, {"y": y})
    assert "y[0][0] is nan, expected 1" in first_difference(
        case(expected=expected, arrays={"y": np.ones((2, 2), np.float32)}), {"y": y}
    )


def test_a_check_still_changes_nothing():
    import smemkit

    y = np.zeros(32, np.int32)
    smemkit.check(smemkit.Kernel(RIGHT)[1, 32], np.arange(32, dtype=np.int32), y)
    assert not y.any()


def test_hints_and_solution_come_step_by_step():
    exercise = lab.exercise("pad-the-rows")
    exercise._progress.submitted = exercise._progress.hints = 0
    with pytest.raises(RuntimeError, match="pad-the-rows: submit an attempt first"):
        exercise.solution()
    failed = exercise.submit("no kernel")
    assert failed.next_step == 'lab.exercise("pad-the-rows").hint() gives hint 1 of 3.'
    hints = [exercise.hint() for _ in range(4)]
    assert [hint[:12] for hint in hints] == ["Hint 1 of 3:", "Hint 2 of 3:", "Hint 3 of 3:", "Hint 3 of 3:"]
    assert "solution()" in exercise.submit("no kernel").next_step
    assert "[33]" in exercise.solution()
    assert "[33]" not in str(exercise)


def test_grades_as_text_and_html():
    failed = Grade(False, "Line 3, `a < b`: " + "word " * 40, None, "some-name", "What to do now.")
    lines = str(failed).splitlines()
    assert lines[0] == "✗ some-name: not yet"
    assert lines[-1] == "  What to do now."
    assert max(map(len, lines)) <= 80
    assert not failed
    assert "a &lt; b" in failed._repr_html_()
    passed = Grade(True, "Right.", None, "some-name")
    assert passed
    assert str(passed) == "✓ some-name: passed\n  Right."
    _, paragraph, report = grade(RIGHT.replace("+ 1", "+ 2"), [case()], [])
    assert "The checker's report" in Grade(False, paragraph, report, "some-name")._repr_html_()


def test_unknown_names_list_similar_ones():
    with pytest.raises(
        ValueError, match=r"name: expected an exercise such as missing-barrier.*; got 'missing-barier'"
    ):
        lab.exercise("missing-barier")
    with pytest.raises(ValueError, match=r"topic: expected one of first kernels, memory hierarchy, .*; got 'x'"):
        lab.exercises("x")
    with pytest.raises(TypeError, match=r"source: expected CUDA C\+\+ as str, got int"):
        lab.exercise("add-one").submit(3)


def test_exercises_show_their_task_and_template():
    exercise = lab.exercise("reverse-static")
    assert str(exercise).startswith("Exercise reverse-static (shared arrays)\n\nReverse the n")
    assert exercise.template in str(exercise)
    assert "&lt;" not in exercise.task
    assert "<pre>" in exercise._repr_html_()
    assert repr(exercise).startswith("Exercise(name='reverse-static'")
