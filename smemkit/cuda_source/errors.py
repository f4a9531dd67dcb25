"""Errors about the source that the compiler reports, with the line."""

__all__ = ["ERROR_PREFIX", "error_pragma"]

ERROR_PREFIX = "smemkit: "


def error_pragma(message: str) -> str:
    """A pragma that makes the compiler report an error at any position; compiler.py knows the prefix."""
    return f' _Pragma("GCC error \\"{ERROR_PREFIX}{message}\\"") '
