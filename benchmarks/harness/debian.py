"""Installation of peers from Debian packages."""

from __future__ import annotations

import os
import shutil
import subprocess


class Unavailable(Exception):
    """A peer can not be measured here; the text gives the reason."""


def install(package: str) -> None:
    """Try to install a package; the caller checks the result. Raises `Unavailable`."""
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{package} is not installed, and this is not a Debian system")
    if os.geteuid() != 0:
        raise Unavailable(f"{package} is not installed: sudo apt-get install {package}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", package]):
        subprocess.run(
            ["apt-get", "-qq", *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )


def package_version(package: str) -> str:
    output = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return output.stdout or "unknown"
