"""Settings of a node, whose defaults run a node without any file.

Each class is a table of the TOML file, each field a key. Durations are float seconds, sizes bytes.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Final

import attrs

from broker.config import value_kind
from broker.config.audit import AuditSettings
from broker.config.faults import FaultSettings
from broker.config.identity import AccountSettings, IdentitySettings
from broker.config.inputs import InputSettings
from broker.config.limits import LimitSettings
from broker.config.logging import LoggingSettings
from broker.config.network import NetworkSettings
from broker.config.recovery import ArchiveSettings, RecoverySettings
from broker.config.setting import derived_setting, setting
from broker.config.stacks import DEFAULT_STACK, StackInstance
from broker.event.flow import precedence
from broker.event.stream import StreamPattern
from broker.streams.contract import Guarantee

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40
MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86400.0


def default_node_name() -> str:
    """Return `node-` and the host name, with valid characters."""
    host = re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname().split(".")[0]).strip("-")
    return f"node-{host}"[:64].rstrip("-")


@attrs.frozen
class NodeSettings:
    """Name and data folder of this node."""

    name: str = derived_setting(
        value_kind.NODE_NAME,
        lambda _: default_node_name(),
        "The node's name in logs and answers.",
        shown='"node-HOST"',
    )
    data: Path = setting(
        value_kind.FOLDER,
        Path("xmlbroker-data"),
        "Folder of the event log and all other state that outlives the process; a relative "
        "path counts from the directory in which the node starts.",
    )


@attrs.frozen
class ListenSettings:
    """Listeners for clients. Without accounts only loopback endpoints are accepted."""

    endpoints: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.ENDPOINT, least=1, most=64),
        ("tcp:port=8765:interface=127.0.0.1",),
        "Endpoints for clients; the kinds tls and ssl encrypt, unix is a socket file.",
    )
    proxies: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.IP_NETWORK),
        (),
        "Addresses of proxies before the endpoints. Their connections begin with a header of the "
        "PROXY protocol, version 2, also before TLS; its address counts in limits and logs.",
    )
    allow_cleartext: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Whether clients may log in from other machines without encryption. Events of the level "
        "high never cross such a connection.",
    )


@attrs.frozen
class LogSettings:
    """The event log. It removes its oldest events first, by age and by size."""

    max_bytes: int = setting(value_kind.size(MIB, 1024 * TIB), GIB, "Size of the log on disk.")
    max_age: float = setting(
        value_kind.duration(1.0, 36500 * DAY), 7 * DAY, "Age at which events are removed."
    )
    sync: bool = setting(
        value_kind.BOOLEAN,
        True,
        "Whether a commit waits for the disk; with false, commits survive a crash of the node "
        "but not a loss of power.",
    )
    deduplication_window: int = setting(
        value_kind.count(1, 1_000_000),
        1024,
        "Number of the newest sequence numbers of a client's incarnation within which "
        "duplicates are detected.",
    )
    deduplication_age: float = setting(
        value_kind.duration(MINUTE, 36500 * DAY),
        30 * DAY,
        "Time for which the sequence numbers of a silent client are stored.",
    )
    durable_expiry: float = setting(
        value_kind.duration(MINUTE, 36500 * DAY),
        30 * DAY,
        "Time after which an unused durable subscription is removed.",
    )


@attrs.frozen
class QueueSettings:
    """Queues of one slow client, or of all slow nodes, with equal parts. A queue policy applies to
    a full one."""

    events: int = setting(value_kind.count(1, 10_000_000), 10_000, "Events in the queue.")
    bytes: int = setting(
        value_kind.size(64 * KIB, 16 * GIB), 64 * MIB, "Total length of the events in the queue."
    )
    total_bytes: int = setting(
        value_kind.size(MIB, TIB),
        GIB,
        "Memory of the queues and send buffers of all clients, links and meshes. Beyond half of "
        "it, those with more than an equal part of the half are full.",
    )


@attrs.frozen
class QuerySettings:
    """Limits of queries. A query beyond a limit is rejected, or suspended if it passes one
    later."""

    max_length: int = setting(value_kind.count(1, 1_000_000), 4096, "Characters of a query.")
    max_cost: int = setting(
        value_kind.count(1, 10**12), 5_000_000, "Estimated cost on one event, in nodes visited."
    )
    max_run_time: float = setting(
        value_kind.duration(0.001, MINUTE), 0.05, "Longest measured run on one event."
    )
    max_share: float = setting(
        value_kind.fraction(0.001, 1.0),
        0.1,
        "Long-term share of the node's time for the queries of one account; without accounts, of "
        "one client.",
    )


@attrs.frozen
class TypeSettings:
    """Event types and the sources of their DTDs."""

    undescribed: str = setting(
        value_kind.choice("refuse", "accept"),
        "refuse",
        "Whether clients may publish events whose type has no DTD. Tables [event_types.NAME] and "
        "[streams.PATTERN] may differ.",
    )
    folders: tuple[Path, ...] = setting(
        value_kind.list_of(value_kind.FOLDER),
        (),
        "Folders with DTD catalogues of their own, searched after the catalogue that is part "
        "of xmlbroker.",
    )
    pointers: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.POINTER),
        (),
        "Address prefixes from which a DTD named by an event may be fetched.",
    )
    max_versions: int = setting(
        value_kind.count(1, 100_000),
        1000,
        "DTDs stored on disk for each account, and for each node that announces or sends DTDs.",
    )
    max_bytes: int = setting(
        value_kind.size(64 * KIB, GIB),
        16 * MIB,
        "Bytes of the DTDs stored on disk for each account or node.",
    )


@attrs.frozen
class ValidationSettings:
    """Validation and matching of events."""

    engine: str = setting(
        value_kind.choice("switch", "reference"),
        "switch",
        'The matching engine: "switch", or "reference", which evaluates each query on each event.',
    )


@attrs.frozen
class MetricsSettings:
    """Metrics for Prometheus, with health and readiness."""

    endpoint: str = setting(
        value_kind.OPTIONAL_ENDPOINT,
        "",
        "HTTP endpoint of the metrics, open to anyone who can reach it; off when empty.",
    )


@attrs.frozen
class StreamSettings:
    """Settings of streams, by pattern. Of the tables that match, the longest pattern counts."""

    pattern: StreamPattern
    stack: str = setting(
        value_kind.NODE_NAME,
        DEFAULT_STACK,
        "The stack that carries the streams between nodes: the default, or the name of a table "
        "[stacks.NAME]. All nodes have the same.",
    )
    promises: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.choice(*(each.value for each in Guarantee))),
        (),
        "Guarantees that the stack must give; the node does not start if it does not.",
    )
    acknowledge: str = setting(
        value_kind.choice("node", "neighbour"),
        "node",
        "When an event is acknowledged to its publisher: after the commit on this node, or "
        "after the commit on another node too.",
    )
    undescribed: str = setting(
        value_kind.choice("default", "refuse", "accept"),
        "default",
        "Whether clients of this node may publish events whose type has no DTD; default: as "
        "event_types and types.undescribed say.",
    )


@attrs.frozen
class EventTypeSettings:
    """Settings of event types, by name. A name may end with `*`. Of the tables that match, the
    longest name counts, and one without `*` before others."""

    name: str
    undescribed: str = setting(
        value_kind.choice("default", "refuse", "accept"),
        "default",
        "Whether clients of this node may publish such events without a DTD; default: as "
        "types.undescribed says.",
    )
    on_invalid: str = setting(
        value_kind.choice("refuse", "mark"),
        "refuse",
        "Whether an event that is not valid by its DTD is refused, or accepted with a mark: "
        '$Validation is "marked".',
    )

    @property
    def is_pattern(self) -> bool:
        return self.name.endswith("*")

    def matches(self, type_name: str) -> bool:
        if self.is_pattern:
            return type_name.startswith(self.name[:-1])
        return type_name == self.name


@attrs.frozen
class Settings:
    """All settings of a node."""

    node: NodeSettings = attrs.field(factory=NodeSettings)
    listen: ListenSettings = attrs.field(factory=ListenSettings)
    identity: IdentitySettings = attrs.field(factory=IdentitySettings)
    limits: LimitSettings = attrs.field(factory=LimitSettings)
    log: LogSettings = attrs.field(factory=LogSettings)
    queue: QueueSettings = attrs.field(factory=QueueSettings)
    query: QuerySettings = attrs.field(factory=QuerySettings)
    types: TypeSettings = attrs.field(factory=TypeSettings)
    validation: ValidationSettings = attrs.field(factory=ValidationSettings)
    metrics: MetricsSettings = attrs.field(factory=MetricsSettings)
    audit: AuditSettings = attrs.field(factory=AuditSettings)
    logging: LoggingSettings = attrs.field(factory=LoggingSettings)
    network: NetworkSettings = attrs.field(factory=NetworkSettings)
    archive: ArchiveSettings = attrs.field(factory=ArchiveSettings)
    recovery: RecoverySettings = attrs.field(factory=RecoverySettings)
    streams: tuple[StreamSettings, ...] = ()
    event_types: tuple[EventTypeSettings, ...] = ()
    stacks: tuple[StackInstance, ...] = ()
    accounts: tuple[AccountSettings, ...] = ()
    inputs: tuple[InputSettings, ...] = ()
    faults: tuple[FaultSettings, ...] = ()

    def stream_settings(self, name: str) -> StreamSettings:
        """Return the settings of a stream: those of the longest matching pattern, else defaults."""
        matching = [each for each in self.streams if each.pattern.matches(name)]
        default = StreamSettings(StreamPattern.parse(name))
        return max(matching, key=lambda each: precedence(each.pattern), default=default)

    def stream_stack(self, pattern: StreamPattern) -> str:
        """Return the stack of a pattern that `streams` has."""
        return next(each.stack for each in self.streams if each.pattern == pattern)

    def stack(self, name: str) -> StackInstance:
        """Return the instance with a name that `check_stacks` knows."""
        return next((each for each in self.stacks if each.name == name), StackInstance(name))


#: Tables that each file may have once.
SECTIONS: Final[dict[str, type]] = {
    "node": NodeSettings,
    "listen": ListenSettings,
    "identity": IdentitySettings,
    "limits": LimitSettings,
    "log": LogSettings,
    "queue": QueueSettings,
    "query": QuerySettings,
    "types": TypeSettings,
    "validation": ValidationSettings,
    "metrics": MetricsSettings,
    "audit": AuditSettings,
    "logging": LoggingSettings,
    "network": NetworkSettings,
    "archive": ArchiveSettings,
    "recovery": RecoverySettings,
}
