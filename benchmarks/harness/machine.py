"""Description of the benchmark's machine."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lxml import etree

import twisted


def describe_machine(folder: Path) -> dict[str, Any]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "twisted": twisted.__version__,
        "libxml2": ".".join(map(str, etree.LIBXML_VERSION)),
        "file_system": file_system(folder),
        "load": os.getloadavg()[0],
    }


def file_system(folder: Path) -> str:
    """Return the type of file system; on `tmpfs` nothing is durable."""
    resolved = folder.resolve()
    found, kind = Path("/"), "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, type_name, *_ = line.split()
        mounted = Path(place.replace("\\040", " "))
        if resolved.is_relative_to(mounted) and len(mounted.parts) >= len(found.parts):
            found, kind = mounted, type_name
    return kind


def _field(file: str, name: str) -> str:
    for line in Path(file).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"
