"""A node's settings: frozen classes whose defaults make a node that runs without any file.

Each class is a table of the TOML file, each field a key. Durations are float seconds, sizes bytes.
The classes check nothing themselves: `broker.config.toml` reads a file into them, and
`broker.config.rules` holds what must be true across keys.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Final

import attrs

from broker.config import kinds
from broker.config.network import NetworkSettings
from broker.config.recovery import ArchiveSettings, RecoverySettings
from broker.config.setting import derived_setting, required_setting, setting
from broker.config.stored_secret import StoredSecret
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.transport.faults.configured import DIRECTIONS, KINDS

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40
MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86400.0


def host_node_name() -> str:
    """`node-` and this machine's name, with what a node's name may not hold replaced by `-`."""
    host = re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname().split(".")[0]).strip("-")
    return f"node-{host}"[:64].rstrip("-")


@attrs.frozen
class NodeSettings:
    """Who this node is and where it keeps its data."""

    name: str = derived_setting(
        kinds.NODE_NAME,
        lambda _: host_node_name(),
        "The node's name in logs and answers.",
        shown='"node-HOST"',
    )
    data: Path = setting(
        kinds.FOLDER,
        Path("xmlbroker-data"),
        "The folder of the event log and all that outlives the process; "
        "a relative path starts where the node is started.",
    )


@attrs.frozen
class ListenSettings:
    """Where clients connect. Without accounts only loopback endpoints are accepted."""

    endpoints: tuple[str, ...] = setting(
        kinds.list_of(kinds.ENDPOINT, least=1, most=64),
        ("tcp:port=8765:interface=127.0.0.1",),
        "Where to listen; the kinds tls and ssl encrypt, unix is a socket file.",
    )


@attrs.frozen
class LimitSettings:
    """What the node accepts of its clients. Whatever is over a limit is refused and told."""

    max_sessions: int = setting(
        kinds.count(1, 1_000_000), 1000, "Sessions of all clients together."
    )
    max_sessions_per_account: int = setting(
        kinds.count(1, 1_000_000),
        16,
        "Sessions of one account; without accounts there is no such bound.",
    )
    max_subscriptions_per_client: int = setting(
        kinds.count(1, 1_000_000), 1000, "Subscriptions of one client id."
    )
    max_event_bytes: int = setting(kinds.size(KIB, GIB), MIB, "Length of one event's document.")
    max_frame_bytes: int = setting(
        kinds.size(64 * KIB, GIB), 16 * MIB, "Length of one frame on a connection."
    )
    handshake_timeout: float = setting(
        kinds.duration(0.1, HOUR), 10.0, "A connection that has not introduced itself is closed."
    )
    session_lease: float = setting(
        kinds.duration(0.0, 7 * DAY),
        60.0,
        "How long a session whose connection broke may be resumed.",
    )
    window_bytes: int = setting(
        kinds.size(64 * KIB, GIB), 4 * MIB, "What may be under way to a client, not yet confirmed."
    )
    max_depth: int = setting(kinds.count(1, 256), 256, "Elements within elements of an event.")
    max_attributes: int = setting(kinds.count(1, 10_000), 256, "Attributes of one element.")
    refusals_kept: int = setting(
        kinds.count(0, 1_000_000), 1000, "Refused documents kept for a person to look at."
    )
    quarantine_bytes: int = setting(
        kinds.size(0, TIB), 64 * MIB, "Length of the refused documents that are kept."
    )


@attrs.frozen
class LogSettings:
    """The event log. It loses its oldest events first, by age and by size."""

    max_bytes: int = setting(kinds.size(MIB, 1024 * TIB), GIB, "Size of the log on disk.")
    max_age: float = setting(
        kinds.duration(1.0, 36500 * DAY), 7 * DAY, "Events older than this are removed."
    )
    sync: bool = setting(
        kinds.BOOLEAN,
        True,
        "Whether a commit waits for the disk; false survives a crash of the node, "
        "not a loss of power.",
    )
    deduplication_window: int = setting(
        kinds.count(1, 1_000_000),
        1024,
        "Sequence numbers of a client's incarnation within which a duplicate is recognised.",
    )
    deduplication_age: float = setting(
        kinds.duration(MINUTE, 36500 * DAY),
        30 * DAY,
        "How long a silent client's sequence numbers are remembered.",
    )
    durable_expiry: float = setting(
        kinds.duration(MINUTE, 36500 * DAY),
        30 * DAY,
        "A durable subscription that nobody used for so long is removed.",
    )


@attrs.frozen
class QueueSettings:
    """What waits for one slow transient subscriber. When full, the oldest events are dropped."""

    events: int = setting(kinds.count(1, 10_000_000), 10_000, "Events that wait.")
    bytes: int = setting(kinds.size(64 * KIB, 16 * GIB), 64 * MIB, "Their length.")


@attrs.frozen
class QuerySettings:
    """What queries may cost. A query over a limit is refused, or suspended if that shows later."""

    max_length: int = setting(kinds.count(1, 1_000_000), 4096, "Characters of a query.")
    max_cost: int = setting(
        kinds.count(1, 10**12), 5_000_000, "Estimated cost on one event, in nodes visited."
    )
    max_run_time: float = setting(
        kinds.duration(0.001, MINUTE), 0.05, "Longest run on one event, measured."
    )
    max_share: float = setting(
        kinds.fraction(0.001, 1.0),
        0.1,
        "Part of the node's time that the queries of one client may take in the long run.",
    )


@attrs.frozen
class TypeSettings:
    """Event types, and where their DTDs come from."""

    undescribed: str = setting(
        kinds.choice("refuse", "accept"), "refuse", "What becomes of a payload without a DTD."
    )
    folders: tuple[Path, ...] = setting(
        kinds.list_of(kinds.FOLDER),
        (),
        "Folders with a catalogue of their own, searched after the one that comes with us.",
    )
    pointers: tuple[str, ...] = setting(
        kinds.list_of(kinds.POINTER), (), "Addresses from which an event may have its DTD fetched."
    )
    max_versions: int = setting(
        kinds.count(1, 100_000),
        1000,
        "DTDs kept on disk for each account, and for each node that announces or sends them.",
    )
    max_bytes: int = setting(
        kinds.size(64 * KIB, GIB), 16 * MIB, "Bytes of the same, for each account and node."
    )


@attrs.frozen
class ValidationSettings:
    """How events are validated and matched."""

    engine: str = setting(
        kinds.choice("switch", "reference"),
        "switch",
        'The engine: "switch", or "reference", which asks each query of each event.',
    )


@attrs.frozen
class MetricsSettings:
    """Figures for Prometheus, and whether the node is healthy and ready."""

    endpoint: str = setting(
        kinds.OPTIONAL_ENDPOINT,
        "",
        "Where they are served over HTTP, to anyone who can reach it; off when empty.",
    )


@attrs.frozen
class StreamSettings:
    """Settings of the streams that a pattern matches. The first table that matches holds."""

    pattern: StreamPattern
    acknowledge: str = setting(
        kinds.choice("node", "neighbour"),
        "node",
        "When a publisher is told that its event is safe: once this node has committed it, or once "
        "another node has, too.",
    )


@attrs.frozen
class AccountSettings:
    """One account: how it proves itself, which client ids are its own and what it may do."""

    name: str
    secret: StoredSecret = required_setting(
        kinds.SECRET,
        "What is stored of the account's secret.",
        shown='"scrypt$16384$8$1$SALT$DIGEST"',
    )
    client_ids: tuple[str, ...] = derived_setting(
        kinds.list_of(kinds.CLIENT_IDS, least=1),
        lambda account: (account.name,),
        "Client ids that the account may use; by default its own name.",
        shown='["NAME"]',
    )
    publish: tuple[StreamPattern, ...] = setting(
        kinds.list_of(kinds.STREAMS), (), "Streams that it may publish to."
    )
    subscribe: tuple[StreamPattern, ...] = setting(
        kinds.list_of(kinds.STREAMS), (), "Streams that it may subscribe to."
    )
    types: tuple[str, ...] = setting(
        kinds.list_of(kinds.TYPE_PREFIX),
        (),
        'Event types whose DTDs it may register: names or their beginnings; "" stands for all.',
    )
    administer: bool = setting(kinds.BOOLEAN, False, "Whether it may administer the node.")
    clearance: SecurityLevel = setting(
        kinds.CLEARANCE,
        SecurityLevel.MED,
        "The highest security level of an event that it may publish or be sent.",
    )


@attrs.frozen
class FaultSettings:
    """A fault put into the links to other nodes on purpose, for tests. There may be several."""

    kind: str = required_setting(
        kinds.choice(*KINDS), "What happens to packets.", shown='"discard"'
    )
    links: str = setting(
        kinds.NODE_NAMES, "*", "The neighbours on whose links it happens; by default all."
    )
    direction: str = setting(
        kinds.choice(*DIRECTIONS), "both", "To what this node sends, to what it receives, or both."
    )
    seed: int = setting(
        kinds.count(0, 2**32 - 1),
        0,
        "What chances are drawn from: the same seed gives the same faults.",
    )
    rate: float = setting(
        kinds.fraction(0.0, 1.0),
        0.01,
        "For discard, shuffle, duplicate and corrupt: the part of the packets that it hits.",
    )
    minimum: float = setting(kinds.duration(0.0, HOUR), 0.0, "For delay: the shortest.")
    maximum: float = setting(
        kinds.duration(0.001, HOUR),
        0.1,
        "For delay: the longest. For shuffle: how long a packet is held back.",
    )
    bytes_per_second: int = setting(
        kinds.size(1, TIB), MIB, "For throttle: what passes; more than 256KiB waiting is dropped."
    )
    after: float = setting(
        kinds.duration(0.0, 365 * DAY), 0.0, "For partition: it begins so long after the node."
    )
    lasts: float = setting(
        kinds.duration(0.001, 365 * DAY), 10.0, "For partition: so long nothing passes."
    )
    every: float = setting(
        kinds.duration(0.0, 365 * DAY),
        0.0,
        "For partition: it begins again each time that so much has passed; never with 0.",
    )


@attrs.frozen
class Settings:
    """All settings of a node."""

    node: NodeSettings = attrs.field(factory=NodeSettings)
    listen: ListenSettings = attrs.field(factory=ListenSettings)
    limits: LimitSettings = attrs.field(factory=LimitSettings)
    log: LogSettings = attrs.field(factory=LogSettings)
    queue: QueueSettings = attrs.field(factory=QueueSettings)
    query: QuerySettings = attrs.field(factory=QuerySettings)
    types: TypeSettings = attrs.field(factory=TypeSettings)
    validation: ValidationSettings = attrs.field(factory=ValidationSettings)
    metrics: MetricsSettings = attrs.field(factory=MetricsSettings)
    network: NetworkSettings = attrs.field(factory=NetworkSettings)
    archive: ArchiveSettings = attrs.field(factory=ArchiveSettings)
    recovery: RecoverySettings = attrs.field(factory=RecoverySettings)
    streams: tuple[StreamSettings, ...] = ()
    accounts: tuple[AccountSettings, ...] = ()
    faults: tuple[FaultSettings, ...] = ()

    def stream(self, name: str) -> StreamSettings:
        """What holds for the (valid) stream name: the first pattern that matches, else defaults."""
        for settings in self.streams:
            if settings.pattern.matches(name):
                return settings
        return StreamSettings(StreamPattern.parse(name))


#: The tables that every file may have once, by name.
SECTIONS: Final[dict[str, type]] = {
    "node": NodeSettings,
    "listen": ListenSettings,
    "limits": LimitSettings,
    "log": LogSettings,
    "queue": QueueSettings,
    "query": QuerySettings,
    "types": TypeSettings,
    "validation": ValidationSettings,
    "metrics": MetricsSettings,
    "network": NetworkSettings,
    "archive": ArchiveSettings,
    "recovery": RecoverySettings,
}
