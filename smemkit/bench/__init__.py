"""The project's one benchmark, ``python -m smemkit bench``."""
