from __future__ import annotations

import pytest
from twisted.internet.endpoints import serverFromString
from twisted.internet.testing import MemoryReactorClock

from broker.config.endpoints import check_endpoint, is_loopback_endpoint


@pytest.mark.parametrize(
    "text",
    [
        "tcp:port=8765:interface=127.0.0.1",
        "tcp:8765:127.1.2.3",
        "tcp:port=8765:interface=localhost",
        "tcp6:port=8765:interface=\\:\\:1",
        "tcp6:8765:50:\\:\\:1",
        "ssl:port=8765:privateKey=key.pem:interface=127.0.0.1",
        "tls:pems:8765:interface=\\:\\:1",
        "unix:/run/xmlbroker.socket",
        "unix:address=run/with\\:colon",
    ],
)
def test_only_this_machine_reaches_a_loopback_interface_or_a_unix_socket(text: str) -> None:
    assert check_endpoint(text) == text
    assert is_loopback_endpoint(text)


@pytest.mark.parametrize(
    "text",
    [
        "tcp:port=8765",
        "tcp:8765",
        "tcp:port=8765:interface=0.0.0.0",
        "tcp:port=8765:interface=192.168.1.7",
        "tcp:port=8765:interface=example.org",
        "tcp:port=8765:interface=127.0.0.1:interface=0.0.0.0",
        "tcp:port=8765:interface=127.0.0.1:inter\\face=0.0.0.0",
        "tcp6:port=8765",
        "tcp6:8765:\\:\\:1",
        "ssl:port=8765:privateKey=key.pem",
        "tls:pems",
        "systemd:domain=INET:index=0",
        "haproxy:tcp:port=8765:interface=127.0.0.1",
    ],
)
def test_an_unknown_endpoint_does_not_count_as_loopback(text: str) -> None:
    assert check_endpoint(text) == text
    assert not is_loopback_endpoint(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "kind ''"),
        ("udp:port=8765", "kind 'udp' is not one of"),
        ("tpc:8765", "not one of .*tcp"),
        ("tcp:", "no port"),
        ("tcp:port=none", "no port"),
        ("tcp:port=65536", "no port"),
        ("tcp:port=-1", "no port"),
        ("ssl:privateKey=key.pem", "no port"),
        ("tcp:8765\\", "backslash"),
    ],
)
def test_an_endpoint_that_twisted_could_not_listen_on_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_endpoint(text)


@pytest.mark.parametrize(
    ("text", "port", "interface"),
    [
        ("tcp:port=1:interface=127.0.0.1:interface=0.0.0.0", 1, "0.0.0.0"),
        ("tcp:1:inter\\face=0.0.0.0", 1, "0.0.0.0"),
        ("tcp:1:127.0.0.1", 1, "127.0.0.1"),
        ("tcp6:1:50:\\:\\:1", 1, "::1"),
    ],
)
def test_twisted_reads_the_doubtful_ones_as_we_do(text: str, port: int, interface: str) -> None:
    endpoint = serverFromString(MemoryReactorClock(), text)
    assert (endpoint._port, endpoint._interface) == (port, interface)
    assert is_loopback_endpoint(text) == (interface in ("127.0.0.1", "::1"))
