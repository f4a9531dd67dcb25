"""The laboratory: exercises in CUDA that grade themselves."""

from smemkit.lab.exercises import exercise, exercises

__all__ = ["exercise", "exercises"]
