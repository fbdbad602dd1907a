"""Ports for nodes that start and restart."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from examples import free_ports as module
from examples.free_ports import _RESERVED, CANDIDATES, free_port, free_ports

ROOT = Path(__file__).resolve().parents[1]


def test_ports_are_different_and_free() -> None:
    ports = free_ports(40)
    assert len(set(ports)) == 40
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_no_connection_gets_such_a_port_by_chance() -> None:
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    first, last = map(int, text.split())
    assert not set(CANDIDATES) & set(range(first, last + 1))


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_in_use_is_passed_over(
    kind: socket.SocketKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, first, second = free_ports(3, kind)
    _RESERVED.release([used, first, second])
    monkeypatch.setattr(module, "CANDIDATES", (used, first, second))
    with socket.socket(type=kind) as busy:
        busy.bind(("127.0.0.1", used))
        with pytest.raises(OSError, match="only 2 of 3 ports are free") as raised:
            free_ports(3, kind)
        assert raised.value.errno == errno.EADDRINUSE
        # The refused request has reserved nothing.
        assert set(free_ports(2, kind)) == {first, second}


_OTHER_PROCESS = """
import sys
from examples import free_ports as module
module.CANDIDATES = (int(sys.argv[1]),)
print(module.free_port(), flush=True)
sys.stdin.read()
"""


def test_a_port_is_reserved_until_its_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with pytest.raises(OSError, match="only 0 of 1"), monkeypatch.context() as patch:
        patch.setattr(module, "CANDIDATES", (port,))
        free_port()
    _RESERVED.release([port])
    monkeypatch.setattr(module, "CANDIDATES", (port,))
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER_PROCESS, str(port)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) == port
        with pytest.raises(OSError, match="only 0 of 1"):
            free_port()
        other.kill()
    assert free_port() == port
