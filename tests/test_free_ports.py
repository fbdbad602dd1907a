"""Ports for nodes that start and restart."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from examples import free_ports as module
from examples.free_ports import CANDIDATES, free_port, free_ports


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
    used, other = free_ports(2, kind)
    monkeypatch.setattr(module, "CANDIDATES", (used, other))
    with socket.socket(type=kind) as busy:
        busy.bind(("127.0.0.1", used))
        assert {free_port(kind) for _ in range(10)} == {other}
        with pytest.raises(OSError, match="only 1 of 2 ports are free") as raised:
            free_ports(2, kind)
        assert raised.value.errno == errno.EADDRINUSE
