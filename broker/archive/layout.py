"""Paths of the archive's objects, relative to its URI and with `/` between their parts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

from broker.errors import ArchiveCorrupt, BadName
from broker.event.place import Mark
from broker.event.stream import StreamPattern

FORMAT: Final = "xmlbroker-archive-1"
MARKER: Final = "archive.json"
EVENTS: Final = "events"
DTDS: Final = "dtds"
MANIFESTS: Final = "manifests"
DURABLES: Final = "durables"
READERS: Final = "readers"

MAINTENANCE_PREFIX: Final = "carer-"
#: Ends a shared partition; no stream has it.
SHARED_TOKEN: Final = "+"
#: Partitions per hour and flush: each is a file to sync, list and open.
MAX_PARTITIONS: Final = 16
#: File systems allow names of 255 bytes.
_MAX_PARTITION_CHARS: Final = 200
_HOUR_MS: Final = 3_600_000
_WRITER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,99}", re.ASCII)
_ORIGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@]{0,63}", re.ASCII)
#: Spark would expand other characters of a path, such as `*`.
_PART: Final = re.compile(r"(?!\.{1,2}(?:/|$))[A-Za-z0-9_.@+-]{1,255}", re.ASCII)
_MAX_PARTS: Final = 8
_SHOWN_CHARS: Final = 120


def check_object_path(path: str, *folders: str) -> str:
    """Return the path of an object below the archive, in one of `folders` if there are some.

    Manifests may be forged. Raises `ArchiveCorrupt` for an absolute path, and for one with `..`.
    """
    folder, separator, _ = path.partition("/")
    if not is_object_path(path) or (folders and not (separator and folder in folders)):
        raise ArchiveCorrupt(f"{path[:_SHOWN_CHARS]!r} is not the path of an object")
    return path


def is_object_path(path: str) -> bool:
    """Return False for absolute paths, for `..`, and for characters that no object's path has."""
    parts = path.split("/", _MAX_PARTS)
    return len(parts) <= _MAX_PARTS and all(map(_PART.fullmatch, parts))


def check_writer_name(name: str) -> str:
    """Raise `BadName` if the name cannot be a folder."""
    if _WRITER.fullmatch(name) is None:
        raise BadName(
            f"{name[:80]!r} is not a valid writer name: use 1 to 100 of A-Z a-z 0-9 _ . @ -"
        )
    return name


def hour_of(arrival: int) -> str:
    """Return the hour (UTC) of ms since 1970, such as `2026-11-20T07`."""
    return f"{datetime.fromtimestamp(arrival // _HOUR_MS * 3600, UTC):%Y-%m-%dT%H}"


def hour_start(hour: str) -> int:
    return int(datetime.strptime(hour, "%Y-%m-%dT%H").replace(tzinfo=UTC).timestamp()) * 1000


def hour_end(hour: str) -> int:
    return hour_start(hour) + _HOUR_MS


def events_path(
    partition: str, hour: str, origin: str, first: Mark, last_offset: int, token: str
) -> str:
    """Return the path of a file of events; only its manifest counts.

    `origin` and the marks are those of the first row's origin.
    """
    epoch, offset = first
    shown = origin if _ORIGIN.fullmatch(origin) else hashlib.sha256(origin.encode()).hexdigest()
    return f"{EVENTS}/{partition}/{hour}/{shown}-{epoch}-{offset}-{last_offset}-{token}.parquet"


def dtd_path(kind: str, version: str, sha256: str) -> str:
    return f"{DTDS}/{kind}/{version}-{sha256}.dtd"


def assign_partitions(streams: Collection[str], most: int = MAX_PARTITIONS) -> dict[str, str]:
    """Assign each stream to its own partition, up to `most`.

    Otherwise the deepest names lose their last tokens (`asdi.zbw.+`, `asdi.+`, `+`).
    """
    partitions = {stream: _limit_length(stream) for stream in streams}
    depth = max((name.count(".") + 1 for name in partitions.values()), default=0)
    while len(set(partitions.values())) > most and depth > 0:
        depth -= 1
        partitions = {s: _shared_partition(name, depth) for s, name in partitions.items()}
    return partitions


def partition_contains(partition: str, stream: str) -> bool:
    if partition == SHARED_TOKEN:
        return True
    if partition.endswith(f".{SHARED_TOKEN}"):
        return stream.startswith(partition[: -len(SHARED_TOKEN)])
    return stream == partition


def partition_may_match(partition: str, pattern: StreamPattern) -> bool:
    if not partition.endswith(SHARED_TOKEN):
        return pattern.matches(partition)
    known = partition.split(".")[:-1]
    pattern_tokens = pattern.tokens
    for index, token in enumerate(known):
        if index >= len(pattern_tokens):
            return False
        if pattern_tokens[index] == ">":
            return True
        if pattern_tokens[index] not in ("*", token):
            return False
    # A stream in a shared partition has at least one more token.
    return len(pattern_tokens) > len(known)


def _shared_partition(name: str, depth: int) -> str:
    tokens = name.split(".")
    if len(tokens) <= depth:
        return name
    return ".".join((*tokens[:depth], SHARED_TOKEN))


def _limit_length(stream: str) -> str:
    name = stream
    while len(name) > _MAX_PARTITION_CHARS:
        name = _shared_partition(name, name.count(".") - name.endswith(f".{SHARED_TOKEN}"))
    return name
