"""Checks of Twisted endpoint strings without opening them.

A wrong kind or port, or a public address, is found while the line in the file is known.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from functools import cache
from typing import Final

import attrs
from twisted.internet.interfaces import IStreamServerEndpointStringParser
from twisted.plugin import getPlugins

from broker.transport.socket.loopback import is_loopback_host

_BUILT_IN: Final = frozenset({"tcp", "unix", "ssl"})
#: Positions of port and interface.
_ARGUMENT_INDEXES: Final = {"tcp": (0, 1), "tcp6": (0, 2), "ssl": (0, 4), "tls": (1, 3)}


def check_endpoint(text: str) -> str:
    """Return the text; `ValueError` gives the reason if Twisted could not listen on it."""
    endpoint = _Endpoint.parse(text)
    if endpoint.kind not in endpoint_kinds():
        kinds = ", ".join(sorted(endpoint_kinds()))
        raise ValueError(f"its kind {endpoint.kind[:40]!r} is not one of {kinds}")
    if endpoint.kind in _ARGUMENT_INDEXES:
        port = endpoint.value("port", _ARGUMENT_INDEXES[endpoint.kind][0])
        if port is None and endpoint.kind == "tls":
            return text
        if not (port and port.isascii() and port.isdigit() and int(port) <= 65535):
            raise ValueError("it has no port from 0 to 65535")
    return text


def tcp_address(text: str) -> tuple[str, int]:
    """Return host and port of an endpoint such as `tcp:host=a.example:port=8770`.

    Raises `ValueError` with the reason.
    """
    endpoint = _Endpoint.parse(text)
    host, port = endpoint.value("host", 0), endpoint.value("port", 1)
    if endpoint.kind != "tcp" or not host:
        raise ValueError('it is not "tcp:host=HOST:port=PORT"')
    if not (port and port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise ValueError("it has no port from 1 to 65535")
    return host, int(port)


def is_loopback_endpoint(text: str) -> bool:
    """Return True if only this machine can reach the endpoint; false for an unknown kind."""
    endpoint = _Endpoint.parse(text)
    if endpoint.kind == "unix":
        return True
    if endpoint.kind not in _ARGUMENT_INDEXES:
        return False
    return is_loopback_host(endpoint.value("interface", _ARGUMENT_INDEXES[endpoint.kind][1]) or "")


def local_address(text: str) -> str | None:
    """Return the address, as clients name it, of a unix socket or of plain TCP on loopback.

    None for other endpoints, and for a port that the system chooses.
    """
    endpoint = _Endpoint.parse(text)
    if endpoint.kind == "unix":
        path = endpoint.value("address", 0)
        return f"unix:{path}" if path else None
    if endpoint.kind not in ("tcp", "tcp6") or not is_loopback_endpoint(text):
        return None
    port_index, interface_index = _ARGUMENT_INDEXES[endpoint.kind]
    port = int(endpoint.value("port", port_index) or 0)
    return f"tcp:{endpoint.value('interface', interface_index)}:{port}" if port else None


def is_encrypted_endpoint(text: str) -> bool:
    """Return True if the endpoint itself encrypts."""
    return _Endpoint.parse(text).kind in ("ssl", "tls")


def is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_multicast_address(place: str) -> bool:
    """Return True if ADDRESS:PORT has a multicast group."""
    try:
        return ipaddress.ip_address(place.rpartition(":")[0].strip("[]")).is_multicast
    except ValueError:
        return False


@cache
def endpoint_kinds() -> frozenset[str]:
    plugins = getPlugins(IStreamServerEndpointStringParser)
    return _BUILT_IN | {plugin.prefix for plugin in plugins}


@attrs.frozen
class _Endpoint:
    kind: str
    positional: tuple[str, ...]
    named: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> _Endpoint:
        positional, named = [], {}
        for name, value in _split_arguments(text):
            if name is None:
                positional.append(value)
            else:
                named[name] = value
        return cls(positional[0] if positional else "", tuple(positional[1:]), named)

    def value(self, name: str, place: int) -> str | None:
        if name in self.named:
            return self.named[name]
        return self.positional[place] if place < len(self.positional) else None


def _split_arguments(text: str) -> Iterator[tuple[str | None, str]]:
    # As in twisted.internet.endpoints, a backslash quotes the next character.
    name: str | None = None
    current = ""
    characters = iter(text)
    for character in characters:
        if character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError("it ends in a backslash")
            current += escaped
        elif character == ":":
            yield name, current
            name, current = None, ""
        elif character == "=" and name is None:
            name, current = current, ""
        else:
            current += character
    yield name, current
