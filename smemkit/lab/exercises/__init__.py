"""Exercises in CUDA: a task, a template to complete, and a grade from hidden inputs, the checker and limits."""

from smemkit.lab.exercises.catalogue import exercise, exercises
from smemkit.lab.exercises.exercise import Exercise
from smemkit.lab.exercises.grade import Grade

__all__ = ["Exercise", "Grade", "exercise", "exercises"]
