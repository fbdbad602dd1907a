"""Settings of a node's inputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from broker.config import value_kind
from broker.config.setting import ValueKind, required_setting, setting
from broker.dtd.reference import DtdReference
from broker.errors import BadName
from broker.event.envelope import SecurityLevel
from broker.event.stream import check_client_id, check_stream_name

#: Each input is a process.
MAX_INPUTS: Final = 64
MAX_SOURCES: Final = 64
#: Characters of a value, which becomes a part of a command line.
MAX_TEXT: Final = 4096


def _text(
    allowed: str, check: Callable[[str], object] = str, *, optional: bool = True
) -> ValueKind[str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or "\0" in value or len(value) > MAX_TEXT:
            raise ValueError
        if value or not optional:
            try:
                check(value)
            except BadName as wrong:
                raise ValueError(wrong.text) from None
        return value

    return ValueKind(f'{allowed}, or ""' if optional else allowed, read, json.dumps)


def _check_source(text: str) -> None:
    if not text:
        raise ValueError


def _read_type(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError
    if value:
        if len(value) != 2:
            raise ValueError
        try:
            DtdReference(*value)
        except BadName as wrong:
            raise ValueError(wrong.text) from None
    return tuple(value)


def _read_namespaces(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MAX_SOURCES:
        raise ValueError
    return {prefix: _NAMESPACE.read(uri) for prefix, uri in value.items()}


def _write_namespaces(bindings: dict[str, str]) -> str:
    pairs = (f"{json.dumps(prefix)} = {json.dumps(uri)}" for prefix, uri in bindings.items())
    return "{ " + ", ".join(pairs) + " }" if bindings else "{}"


_NAMESPACE: Final = _text("a namespace", _check_source, optional=False)
_TYPE: Final = ValueKind(
    "a name and a version, or []", _read_type, lambda value: json.dumps(list(value))
)
_NAMESPACES: Final = ValueKind(
    f'a table of at most {MAX_SOURCES} namespaces by their prefixes; "" is that of names without '
    "prefix",
    _read_namespaces,
    _write_namespaces,
)
_LEVELS: Final = tuple(level.value for level in SecurityLevel)


@attrs.frozen
class InputSettings:
    """Inputs of this node, by name. For each of them the node runs a process `xmlbroker pub`, whose
    options these are. There are at most 64."""

    name: str
    sources: tuple[str, ...] = required_setting(
        value_kind.list_of(
            _text("a folder or an address", _check_source, optional=False),
            least=1,
            most=MAX_SOURCES,
        ),
        "Addresses, which are fetched again and again, or with `watch` folders. A relative path "
        "counts from the directory in which the node starts.",
        shown='["https://example.org/siri.xml"]',
    )
    watch: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Whether the sources are folders, whose files are published as they appear.",
    )
    every: float = setting(
        value_kind.duration(1.0, 7 * 86400.0), 60.0, "Interval of the fetches of addresses."
    )
    stream: str = setting(
        _text("a stream", check_stream_name), "", "The stream; else by document or type."
    )
    type: tuple[str, ...] = setting(_TYPE, (), "The event type; else by the root element.")
    security_level: str = setting(
        value_kind.choice("", *_LEVELS), "", "The events' security level; else med."
    )
    split: str = setting(
        _text("a path such as //s:VehicleActivity"),
        "",
        "Cut each document into events, one for each element of this path.",
    )
    copy: tuple[str, ...] = setting(
        value_kind.list_of(_text("FIELD=PATH", optional=False), most=16),
        (),
        "With `split`: values of the collection for each event's envelope, such as "
        "summary=/feed/title.",
    )
    namespaces: dict[str, str] = setting(
        _NAMESPACES, {}, "Namespaces of the prefixes in `split`, `copy`, `id` and `time`."
    )
    id: str = setting(
        _text("an XPath expression"),
        "",
        "Publish each event once: the value of this expression in its payload identifies it.",
    )
    changed: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Whether an event with a known `id` and new content is published again.",
    )
    time: str = setting(
        _text("an XPath expression"),
        "",
        "The event's own time, by this expression in its payload: ISO 8601, or ms since 1970.",
    )
    json_payload: bool = setting(
        value_kind.BOOLEAN, False, "Whether the sources have JSON, published as XML of type json."
    )
    published_max: int = setting(
        value_kind.count(1, 1_000_000_000),
        1_000_000,
        "Entries of the table of what was published, the file inputs/NAME.db in `node.data`.",
    )
    node: str = setting(
        _text('an address such as "tcp:127.0.0.1:8765" or "unix:PATH"'),
        "",
        "The address at which the process connects to this node; else that of the first plain TCP "
        "endpoint on loopback, or unix socket, in `listen.endpoints`.",
    )
    account: str = setting(
        _text("the name of an account", check_client_id),
        "",
        "The account that publishes, if the node has accounts.",
        shown='"NAME"',
    )
    secret_file: Path | None = setting(
        value_kind.OPTIONAL_FILE,
        None,
        "File with the account's secret in its first line.",
        shown='"siri.secret"',
    )
    client_id: str = setting(
        _text("a client id", check_client_id),
        "",
        "The client id; else the account's name, or a random one. Inputs of one account need "
        "different ones.",
    )
