"""Capabilities of a machine that some tests need, each with a probe.

Tests are skipped through this module only, so `tests.skip_rule` detects skips that hide a test.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import attrs
import pytest

from broker.errors import EngineUnavailable
from broker.replay.engine.spark_session import check_java

ROOT: Final = Path(__file__).resolve().parents[1]
#: Real events of others, outside the checkout.
SHARED_DATA: Final = ROOT.parent / "shared" / "data"
#: The release before this one.
PREVIOUS: Final = "a50ae8f"
#: The last commit with only version 1 of the protocol between nodes, and logs of format 3.
VERSION_1: Final = "55c726e"
_OLDEST_SETUPTOOLS: Final = 75
_DEFAULT_PORT: Final = 8765
_MANY_FILES: Final = 2_200
_PEERS: Final = ("/usr/share/activemq", "/usr/sbin/mosquitto")


@attrs.frozen
class Capability:
    probe: Callable[[], str]
    """Returns the reason why the machine lacks it, or an empty text."""
    remedy: str
    """A command that installs it, or the reason why there is none."""


def _root() -> str:
    return "" if os.geteuid() == 0 else "this user is not root"


def _no_root() -> str:
    return "" if os.geteuid() != 0 else "this user is root"


def _runs(*command: str) -> str:
    """Return the reason why a command does not run here, or an empty text."""
    if shutil.which(command[0]) is None:
        return f"there is no command {command[0]}"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()[:200] or "it fails"


def _namespaces() -> str:
    return _root() or _runs("ip", "-V") or _runs("unshare", "--net", "true")


def _packet_filter() -> str:
    if nft := _runs("unshare", "--net", "nft", "list", "tables"):
        return _runs("unshare", "--net", "iptables", "-L") and nft
    return ""


def _traffic_shaping() -> str:
    tap = ("ip", "tuntap", "add", "mode", "tap", "name", "probe")
    bucket = ("root", "tbf", "rate", "8mbit", "burst", "32kb", "latency", "100ms")
    return (
        _namespaces()
        or _runs("unshare", "--net", *tap)
        or _runs("unshare", "--net", "tc", "qdisc", "add", "dev", "lo", *bucket)
    )


def _mounts() -> str:
    return _root() or _runs("unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt")


def _module(name: str) -> str:
    return "" if importlib.util.find_spec(name) else f"{name} is not installed"


def _java() -> str:
    try:
        check_java()
    except EngineUnavailable as error:
        return str(error)
    return ""


def _setuptools() -> str:
    version = importlib.metadata.version("setuptools")
    return "" if int(version.split(".")[0]) >= _OLDEST_SETUPTOOLS else f"setuptools is {version}"


def _many_files() -> str:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= _MANY_FILES:
        return ""
    return f"this user may open {hard} files only"


def _loopback_multicast() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        member = socket.inet_aton("239.255.77.1") + socket.inet_aton("127.0.0.1")
        try:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        except OSError as error:
            return str(error)
    return ""


def _default_port() -> str:
    with socket.socket() as sock:
        taken = sock.connect_ex(("127.0.0.1", _DEFAULT_PORT)) == 0
    return f"something listens on port {_DEFAULT_PORT}" if taken else ""


def _missing(*paths: str | Path) -> str:
    absent = [str(path) for path in paths if not Path(path).exists()]
    return f"there is no {' and no '.join(absent)}" if absent else ""


CAPABILITIES: Final = {
    "namespaces": Capability(_namespaces, "run as root, with Debian's iproute2"),
    "packet-filter": Capability(_packet_filter, "./dev packages installs nftables"),
    "traffic-shaping": Capability(
        _traffic_shaping, "run as root, on a kernel with /dev/net/tun and sch_tbf"
    ),
    "mounts": Capability(_mounts, "run as root"),
    "no-root": Capability(_no_root, "run as another user than root"),
    "xmllint": Capability(
        lambda: _runs("xmllint", "--version"), "./dev packages installs libxml2-utils"
    ),
    "openssl": Capability(lambda: _runs("openssl", "version"), "install Debian's openssl"),
    "java": Capability(_java, "./dev packages installs openjdk-17-jre-headless"),
    "pyspark": Capability(lambda: _module("pyspark"), "./dev test installs it"),
    "s3-server": Capability(lambda: _module("moto") or _module("flask"), "./dev test installs it"),
    "matplotlib": Capability(lambda: _module("matplotlib"), "./dev test installs it"),
    "setuptools": Capability(_setuptools, "./dev test installs it"),
    "shared-data": Capability(lambda: _missing(SHARED_DATA), "put the real data there"),
    "peers": Capability(lambda: _missing(*_PEERS), "./dev bench peers installs them"),
    "many-files": Capability(_many_files, "ulimit -Hn 4096"),
    "loopback-multicast": Capability(_loopback_multicast, "let the interface lo take groups"),
    "previous-version": Capability(
        lambda: _runs("git", "-C", str(ROOT), "cat-file", "-e", f"{VERSION_1}^{{commit}}"),
        "make a clone with the whole history",
    ),
    "default-port": Capability(_default_port, f"end the program on port {_DEFAULT_PORT}"),
}


@functools.cache
def lacking(name: str) -> str:
    """Return the reason why this machine lacks a capability, or an empty text."""
    return CAPABILITIES[name].probe()


def need(*names: str) -> None:
    """Skip the running test unless the machine has all of these."""
    for name in names:
        if reason := lacking(name):
            skip(name, reason)


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip a test or module unless the machine has all of these."""
    reason = next((skipped(name, why) for name in names if (why := lacking(name))), "")
    return pytest.mark.skipif(bool(reason), reason=reason)


def skip(name: str, reason: str) -> NoReturn:
    """Skip the running test because a capability turned out to be absent."""
    pytest.skip(skipped(name, reason))


def skipped(name: str, reason: str) -> str:
    """Return the text of a skip, from which `tests.skip_rule` reads the capability."""
    return f"needs {name}: {reason}"
