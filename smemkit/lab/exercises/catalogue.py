"""All exercises by name, in the order of the lessons."""

from __future__ import annotations

import difflib
from functools import cache

from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.topics import TOPICS

__all__ = ["exercise", "exercises"]


@cache
def _catalogue() -> dict[str, Exercise]:
    return {exercise.name: exercise for module in TOPICS for exercise in module.EXERCISES}


def exercise(name: str) -> Exercise:
    """An exercise by its name.

    Raises
    ------
    ValueError
        There is none of that name; the message lists names like it, or all.

    Examples
    --------
    >>> import smemkit.lab
    >>> smemkit.lab.exercise("missing-barrier").topic
    'barriers'
    """
    if name in _catalogue():
        return _catalogue()[name]
    close = difflib.get_close_matches(str(name), _catalogue(), 3) or _catalogue()
    raise ValueError(f"name: expected an exercise such as {', '.join(close)}; got {name!r}")


def exercises(topic: str | None = None) -> tuple[Exercise, ...]:
    """The exercises of a topic, or all, in the order of the lessons.

    Raises
    ------
    ValueError
        There is no such topic; the message lists them.

    Examples
    --------
    >>> import smemkit.lab
    >>> [exercise.name for exercise in smemkit.lab.exercises("scan")]
    ['scan-in-place', 'exclusive-scan']
    """
    found = tuple(_catalogue().values())
    if topic is None:
        return found
    topics = list(dict.fromkeys(exercise.topic for exercise in found))
    if topic not in topics:
        raise ValueError(f"topic: expected one of {', '.join(topics)}; got {topic!r}")
    return tuple(exercise for exercise in found if exercise.topic == topic)
