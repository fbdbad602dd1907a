"""Peers are installed from their Debian packages, where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess


class Unavailable(Exception):
    """A peer can not be measured here, and why."""


def install(package: str) -> None:
    """Install a package, or raise `Unavailable`. Whether it is there then the caller looks."""
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{package} is not installed, and this is no Debian")
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
    """As Debian names it, `unknown` where it did not install it."""
    said = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout or "unknown"
