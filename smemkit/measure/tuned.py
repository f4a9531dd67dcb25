"""The cache of transposes' thresholds found by `smemkit tune`, and their use by a device."""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Mapping
from pathlib import Path

from smemkit import _core
from smemkit.devices import Device
from smemkit.user_kernel.cache import cache_folder
from smemkit.version import version

__all__ = ["forget", "in_use", "load", "store"]


def key_of(device: Device) -> str:
    """The key of tuned thresholds: the GPU, its driver, this machine, and the built-in thresholds."""
    build = _core.build_info()
    own = [row[:2] for row in _core.thresholds("transpose", 0, 1)]
    parts = [device.description, device.memory_bytes, platform.node(), version(), build["cuda"], own]
    if device.is_cuda:
        parts += [device.capability, device.multiprocessors, device.driver_version]
    return ", ".join(map(str, parts))


def path_of(key: str) -> Path:
    """The file in the user's cache."""
    return cache_folder() / f"tuned-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"


def load(name: str) -> None:
    """Makes a device use the thresholds in the cache, if there are any; called before its first transpose. A file
    that cannot be used is ignored, because tuning is optional."""
    try:
        key = key_of(Device(name))
        content = json.loads(path_of(key).read_text(encoding="utf-8"))
        if content["key"] == key:
            names = [row[0] for row in _core.thresholds("transpose", 0, 1)]
            if set(names) == set(content["transpose"]):
                _core.set_tuned_thresholds(name, [content["transpose"][name] for name in names])
    except (OSError, ValueError, KeyError, TypeError, _core.Error):
        return


def store(device: Device, values: Mapping[str, int]) -> Path:
    """Writes thresholds, by name, to the cache, and makes the device use them. Returns the file."""
    key = key_of(device)
    path = path_of(key)
    text = json.dumps({"key": key, "transpose": dict(values)}, indent=1) + "\n"
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
        new = Path(folder, path.name)
        new.write_text(text, encoding="utf-8")
        new.replace(path)  # atomic: readers see a complete file or none
    _core.set_tuned_thresholds(device.name, list(values.values()))
    return path


def forget(device: Device) -> bool:
    """Removes a device's thresholds from the cache, and makes it use the build's own. Returns whether there were
    any."""
    path = path_of(key_of(device))
    found = path.exists()
    path.unlink(missing_ok=True)
    _core.set_tuned_thresholds(device.name, None)
    return found


def in_use(device: str) -> bool:
    """Whether transposes on a device use tuned thresholds."""
    return _core.tuned_thresholds(device) is not None
