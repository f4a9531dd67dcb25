"""Every exercise's solution passes; its template and its wrong submissions fail, each for its own reason."""

import re

import pytest
from lab_exercises.wrong import WRONG

from smemkit import lab
from smemkit.lab.exercises.exercise import _read

NAMES = [exercise.name for exercise in lab.exercises()]
MISTAKES = [(name, number) for name in NAMES for number in range(len(WRONG[name]))]


def solution(name):
    return _read("solutions", name)


def mistake(name, number):
    """The solution with a plausible mistake, and what the grade says of it."""
    old, new, says = WRONG[name][number]
    assert solution(name).count(old) == 1
    return solution(name).replace(old, new), says


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.covering(1, most=3)
def test_solutions_pass_and_templates_fail(name):
    exercise = lab.exercise(name)
    grade = exercise.submit(solution(name))
    assert grade.passed, grade
    assert grade.report.ok
    assert not exercise.submit(exercise.template).passed


@pytest.mark.parametrize(("name", "number"), MISTAKES)
@pytest.mark.covering(1, most=6)
def test_mistakes_are_named(name, number):
    source, says = mistake(name, number)
    grade = lab.exercise(name).submit(source)
    assert not grade.passed
    assert says in re.sub(", `.*`: ", ": ", grade.message), grade.message
    assert "\n" not in grade.message


def test_every_exercise_has_three_mistakes_with_different_messages():
    assert set(WRONG) == set(NAMES)
    for name in NAMES:
        says = [says for _, _, says in WRONG[name]]
        assert len(set(says)) == len(says) >= 3, name


def test_exercises_are_complete():
    for name in NAMES:
        exercise = lab.exercise(name)
        assert len(exercise.hints) >= 2
        assert exercise.task.rstrip(")").endswith(".")
        assert exercise.template != solution(name)
    assert len(NAMES) >= 40
    assert len({exercise.topic for exercise in lab.exercises()}) >= 15
