"""Kinds of setting values: reading, bounds, description and writing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from broker.canonical_base64 import decode_base64
from broker.config.endpoints import check_endpoint, tcp_address
from broker.config.setting import BadElement, ValueKind
from broker.config.units import format_duration, format_size, parse_duration, parse_size
from broker.errors import BadName
from broker.event.envelope import SecurityLevel
from broker.event.place import Place
from broker.event.stream import StreamPattern

T = TypeVar("T")


def count(least: int, most: int) -> ValueKind[int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError
        return value

    return ValueKind(f"a whole number from {least} to {most}", read, str)


def fraction(least: float, most: float) -> ValueKind[float]:
    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        if not least <= value <= most:
            raise ValueError
        return float(value)

    return ValueKind(f"a number from {least:g} to {most:g}", read, repr)


def size(least: int, most: int) -> ValueKind[int]:
    """Size in bytes."""

    def read(value: object) -> int:
        found = parse_size(value)
        if not least <= found <= most:
            raise ValueError
        return found

    bounds = f"from {format_size(least)} to {format_size(most)}"
    return ValueKind(
        f'a size {bounds}, in bytes or as "64MiB"', read, lambda v: _quoted(format_size(v))
    )


def duration(least: float, most: float) -> ValueKind[float]:
    """Duration in seconds."""

    def read(value: object) -> float:
        found = parse_duration(value)
        if not least <= found <= most:
            raise ValueError
        return found

    bounds = f"from {format_duration(least)} to {format_duration(most)}"
    return ValueKind(
        f'a duration {bounds}, in seconds or as "12h"', read, lambda v: _quoted(format_duration(v))
    )


def choice(*choices: str, refused: dict[str, str] | None = None) -> ValueKind[str]:
    """`refused` has reasons for other known words."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in choices:
            return value
        raise ValueError((refused or {}).get(str(value), ""))

    return ValueKind(" or ".join(_quoted(word) for word in choices), read, _quoted)


def _read_boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


BOOLEAN: Final = ValueKind("true or false", _read_boolean, lambda value: str(value).lower())


def _text(check: Callable[[str], T]) -> Callable[[object], T]:
    def read(value: object) -> T:
        if not isinstance(value, str):
            raise ValueError
        try:
            return check(value)
        except BadName as wrong:
            raise ValueError(wrong.text) from None

    return read


def _quoted(text: object) -> str:
    # TOML requires an escape for DEL too.
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


PLACE: Final = ValueKind('a place such as "ORIGIN:EPOCH:OFFSET"', _text(Place.parse), _quoted)
_NODE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
#: Of nodes, or addresses.
_LINK_NAMES = re.compile(r"[A-Za-z0-9_*.:%\[\]-]{1,255}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_.:%-]{1,255}", re.ASCII)
_INTERFACE = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)
_DNS_NAME = re.compile(r"[A-Za-z0-9_.-]{1,255}", re.ASCII)
#: Depth of nested units.
_MAX_UNIT_DEPTH = 8
_MASTER = re.compile(r"local(\[[0-9*,]+\])?|yarn|(spark|k8s)://\S{1,255}", re.ASCII)
_MAX_LOCATION = 4096
#: Of an Ed25519 public key.
_KEY_BYTES = 32
_CLIENT_IDS = re.compile(r"[A-Za-z0-9_.@*-]{1,64}", re.ASCII)


def _check_node_name(text: str) -> str:
    if not _NODE_NAME.fullmatch(text):
        raise ValueError
    return text


def _check_link_names(text: str) -> str:
    if not _LINK_NAMES.fullmatch(text):
        raise ValueError
    return text


def _check_folder(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError
    return Path(text)


def _check_type_prefix(text: str) -> str:
    if re.fullmatch(r"([A-Za-z][A-Za-z0-9_.-]{0,63})?", text) is None:
        raise BadName("it has characters that type names do not have")
    return text


def _check_client_ids(text: str) -> str:
    if not _CLIENT_IDS.fullmatch(text):
        raise ValueError
    return text


def _check_pointer(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError
    # "https://example.org" would also allow https://example.org.elsewhere.net/.
    if not parts.path.startswith("/"):
        raise ValueError("a prefix must contain the whole host: end it in '/'")
    if "@" in parts.netloc or parts.query or parts.fragment or ".." in parts.path:
        raise ValueError("it must not have a user, query, fragment or '..'")
    return text


def _check_optional_endpoint(text: str) -> str:
    return check_endpoint(text) if text else text


def _check_clearance(text: str) -> SecurityLevel:
    for level in SecurityLevel:
        if level.value == text:
            return level
    raise ValueError


def _check_unit(text: str) -> str:
    names = text.split(".") if text else []
    if len(names) > _MAX_UNIT_DEPTH or not all(map(_NODE_NAME.fullmatch, names)):
        raise ValueError
    return text


def _check_host_port(text: str) -> str:
    host, port = split_host_port(text)
    if not _HOST.fullmatch(host) or not 0 < port < 1 << 16:
        raise ValueError
    return text


def split_host_port(text: str) -> tuple[str, int]:
    """Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise ValueError
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check_ip_network(text: str) -> str:
    ip_network(text)
    return text


def _check_client_endpoint(text: str) -> str:
    kind, colon, rest = text.partition(":")
    if not colon or not rest or not kind.isalnum():
        raise ValueError
    return text


def _check_site_address(text: str) -> str:
    tcp_address(text)
    return text


def _check_public_key(text: str) -> str:
    if len(decode_base64(text)) != _KEY_BYTES:
        raise ValueError
    return text


def _check_location(text: str) -> str:
    if "\0" in text or "\n" in text or len(text) > _MAX_LOCATION:
        raise ValueError
    return text


def _check_master(text: str) -> str:
    if not _MASTER.fullmatch(text):
        raise ValueError
    return text


def _check_interface(text: str) -> str:
    if text and not _INTERFACE.fullmatch(text):
        raise ValueError
    return text


def _check_discovery(text: str) -> str:
    if text.startswith("_"):
        if not _DNS_NAME.fullmatch(text):
            raise ValueError
    elif text:
        _check_host_port(text)
    return text


def _check_dns_name(text: str) -> str:
    if text and not _DNS_NAME.fullmatch(text):
        raise ValueError
    return text


def _read_optional_file(value: object) -> Path | None:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    return Path(value) if value else None


NODE_NAME: Final = ValueKind("1 to 64 of A-Z a-z 0-9 _ -", _text(_check_node_name), _quoted)
OPTIONAL_NAME: Final = ValueKind(
    '1 to 64 of A-Z a-z 0-9 _ -, or ""',
    _text(lambda text: _check_node_name(text) if text else text),
    _quoted,
)
LINK_NAMES: Final = ValueKind(
    'the name or address of a node, in which "*" stands for any characters',
    _text(_check_link_names),
    _quoted,
)
FOLDER: Final = ValueKind("the path of a folder", _text(_check_folder), _quoted)
ENDPOINT: Final = ValueKind(
    'an endpoint string of Twisted, such as "tcp:port=8765:interface=127.0.0.1"',
    _text(check_endpoint),
    _quoted,
)
OPTIONAL_ENDPOINT: Final = ValueKind(
    'an endpoint string of Twisted, or "" for none', _text(_check_optional_endpoint), _quoted
)
OPTIONAL_UNIT: Final = ValueKind(
    'the path of a cluster such as "europe.alps", or ""', _text(_check_unit), _quoted
)
HOST_PORT: Final = ValueKind(
    'a host and a port such as "10.0.0.7:8766" or "[fd00::7]:8766"',
    _text(_check_host_port),
    _quoted,
)
OPTIONAL_HOST_PORT: Final = ValueKind(
    'a host and a port such as "10.0.0.7:8766", or ""',
    _text(lambda text: _check_host_port(text) if text else text),
    _quoted,
)
INTERFACE: Final = ValueKind(
    'a network interface such as "eth0", or ""', _text(_check_interface), _quoted
)
OPTIONAL_DISCOVERY: Final = ValueKind(
    '"_xmlbroker._tcp.example.org", "nodes.example.org:8766", "239.192.7.7:8767" or ""',
    _text(_check_discovery),
    _quoted,
)
OPTIONAL_DNS_NAME: Final = ValueKind(
    'a DNS name such as "mesh.example.org", or ""', _text(_check_dns_name), _quoted
)
OPTIONAL_FILE: Final[ValueKind[Path | None]] = ValueKind(
    'the path of a file, or ""', _read_optional_file, lambda path: _quoted(path or "")
)
SITE_ADDRESS: Final = ValueKind(
    'an address such as "tcp:host=a.example:port=8770"', _text(_check_site_address), _quoted
)
PUBLIC_KEY: Final = ValueKind(
    "a public key of Ed25519 in base64", _text(_check_public_key), _quoted
)
OPTIONAL_LOCATION: Final = ValueKind(
    'the path of a folder, a URI such as "s3://bucket/events", or ""',
    _text(_check_location),
    _quoted,
)
SPARK_MASTER: Final = ValueKind(
    'a master such as "local[*]", "spark://host:7077", "yarn" or "k8s://https://host:6443"',
    _text(_check_master),
    _quoted,
)
CLIENT_ENDPOINT: Final = ValueKind(
    'an endpoint string of Twisted to connect to, such as "tcp:host=10.0.0.7:port=8766"',
    _text(_check_client_endpoint),
    _quoted,
)
IP_NETWORK: Final = ValueKind(
    'an IP address or network such as "10.1.0.0/16"', _text(_check_ip_network), _quoted
)
STREAMS: Final = ValueKind(
    'a stream pattern such as "asdi.*.kzbw" or "asdi.>"',
    _text(StreamPattern.parse),
    lambda pattern: _quoted(pattern.text),
)
CLIENT_IDS: Final = ValueKind(
    'a client id, in which "*" stands for any characters', _text(_check_client_ids), _quoted
)
TYPE_PREFIX: Final = ValueKind(
    "the name of an event type, or a prefix", _text(_check_type_prefix), _quoted
)
POINTER: Final = ValueKind(
    'an http or https address prefix, such as "https://example.org/dtd/"',
    _text(_check_pointer),
    _quoted,
)
CLEARANCE: Final = ValueKind(
    " or ".join(_quoted(level.value) for level in SecurityLevel),
    _text(_check_clearance),
    lambda level: _quoted(level.value),
)


def list_of(kind: ValueKind[T], *, least: int = 0, most: int = 1000) -> ValueKind[tuple[T, ...]]:
    def read(value: object) -> tuple[T, ...]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise ValueError
        elements = []
        for index, element in enumerate(value):
            try:
                elements.append(kind.read(element))
            except ValueError as wrong:
                raise BadElement(index, str(wrong)) from None
        return tuple(elements)

    def write(values: tuple[T, ...]) -> str:
        return "[" + ", ".join(kind.write(value) for value in values) + "]"

    return ValueKind(f"a list of {least} to {most}, each {kind.allowed}", read, write)


def table_of(kind: ValueKind[T], *, least: int = 0, most: int = 1000) -> ValueKind[dict[str, T]]:
    """Table with names of nodes as keys."""

    def read(value: object) -> dict[str, T]:
        if not isinstance(value, dict) or not least <= len(value) <= most:
            raise ValueError
        found = {}
        for name, element in value.items():
            try:
                found[NODE_NAME.read(name)] = kind.read(element)
            except ValueError as wrong:
                raise ValueError(f"the value of {name!r} is not {kind.allowed}: {wrong}") from None
        return found

    def write(values: dict[str, T]) -> str:
        pairs = (f"{name} = {kind.write(value)}" for name, value in values.items())
        return "{ " + ", ".join(pairs) + " }"

    return ValueKind(f"a table of {least} to {most} nodes, each {kind.allowed}", read, write)
