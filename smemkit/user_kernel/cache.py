"""The cache folder: compiled kernels, line tables, compilers' flags, ceilings.

The cache belongs to the user. Its files are loaded as code, so a folder or file that another user owns or can
write to is refused. An entry is written under a temporary name and then renamed: other processes see it complete
or not at all.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from pathlib import Path

from smemkit._core import Error

__all__ = ["cache_folder", "check_ownership", "evict", "file_fingerprint"]

_CACHE_BYTES = 256 << 20  # size of the cache
_STALE_SECONDS = 3600  # age at which files of an interrupted compilation are removed


def cache_folder() -> Path:
    """The folder of the cache: $SMEMKIT_CACHE, $XDG_CACHE_HOME/smemkit or ~/.cache/smemkit. Created if missing.

    Raises
    ------
    Error
        It cannot be created, or another user could write to it.
    """
    try:
        if os.environ.get("SMEMKIT_CACHE"):
            folder = Path(os.environ["SMEMKIT_CACHE"]).absolute()
        elif os.environ.get("XDG_CACHE_HOME"):
            folder = Path(os.environ["XDG_CACHE_HOME"], "smemkit").absolute()
        else:
            folder = Path.home() / ".cache" / "smemkit"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        check_ownership(folder)
    except (OSError, RuntimeError) as error:
        if isinstance(error, Error):
            raise
        raise Error(f"the cache of compiled kernels: {error}; set SMEMKIT_CACHE to another folder") from None
    return folder


def check_ownership(path: Path) -> None:
    """Raises unless the path belongs to this user and no other user can write to it."""
    status = path.stat() if path.is_dir() else path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        reason = f"it belongs to user {status.st_uid}, not to user {os.geteuid()} who runs this"
    elif mode & 0o022:
        reason = f"others may write to it (mode {mode:04o}); `chmod go-w` fixes that"
    elif not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        reason = "it is neither a folder nor a file"
    else:
        return
    raise Error(f"{path} would be loaded as code, and {reason}. Set SMEMKIT_CACHE to another folder")


def evict(folder: Path) -> None:
    """Removes the least recently used entries above the limit, and files of interrupted compilations."""
    entries = []
    with os.scandir(folder) as found:
        for entry in found:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # another process removed it
            if stat.S_ISREG(status.st_mode) and entry.name.endswith((".so", ".gch", ".npz", ".json")):
                entries.append((status.st_mtime, status.st_size, entry.path))
            elif entry.name.startswith(".new-") and status.st_mtime < time.time() - _STALE_SECONDS:
                shutil.rmtree(entry.path, ignore_errors=True)
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= _CACHE_BYTES:
            break
        Path(path).unlink(missing_ok=True)
        total -= size


def file_fingerprint(path: str | Path) -> str:
    """A file's path, size and modification time, which change when the file does."""
    real = Path(path).resolve()
    status = real.stat()
    return f"{real} {status.st_size} {status.st_mtime_ns}"
