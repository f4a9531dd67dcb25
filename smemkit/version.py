"""The version of smemkit."""

from __future__ import annotations

__all__ = ["version"]


def version() -> str:
    """The installed version, "1.0"; "uninstalled" in a source tree that was built in place and never installed."""
    from importlib import metadata  # only here, because importing it takes long

    try:
        return metadata.version("smemkit")
    except metadata.PackageNotFoundError:
        return "uninstalled"
