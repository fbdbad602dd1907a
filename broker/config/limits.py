"""Limits for clients and accounts."""

from __future__ import annotations

from typing import Final

import attrs

from broker.config import value_kind
from broker.config.setting import setting

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40
HOUR: Final = 3600.0
DAY: Final = 86400.0


@attrs.frozen
class LimitSettings:
    """Limits for clients. Anything beyond a limit is rejected with an error."""

    max_sessions: int = setting(
        value_kind.count(1, 1_000_000), 1000, "Sessions of all clients together."
    )
    max_sessions_per_account: int = setting(
        value_kind.count(1, 1_000_000),
        16,
        "Sessions of one account; without accounts there is no such limit.",
    )
    max_handshakes: int = setting(
        value_kind.count(1, 1_000_000),
        1000,
        "Connections that have not logged in. One more replaces the oldest one of the address with "
        "the most. A quarter is reserved for addresses of earlier logins.",
    )
    max_handshakes_per_address: int = setting(
        value_kind.count(1, 1_000_000),
        500,
        "Such connections of one address; an IPv6 address counts as its /64.",
    )
    max_clients: int = setting(
        value_kind.count(1, 100_000_000),
        100_000,
        "Client ids of which the node stores the newest incarnation. Further ones replace the one "
        "that logged in longest ago, without session and durable subscription.",
    )
    max_subscriptions_per_client: int = setting(
        value_kind.count(1, 1_000_000), 1000, "Subscriptions of one client id."
    )
    max_subscriptions_per_account: int = setting(
        value_kind.count(0, 100_000_000),
        0,
        "Subscriptions of all sessions of one account; 0 is no limit.",
    )
    max_durables_per_account: int = setting(
        value_kind.count(0, 100_000_000),
        10_000,
        "Durable subscriptions of all client ids of one account; 0 is no limit.",
    )
    account_events_per_second: int = setting(
        value_kind.count(0, 1_000_000_000),
        0,
        "Events that one account publishes in a second, all sessions together; further ones wait. "
        "0 is no limit.",
    )
    account_bytes_per_second: int = setting(
        value_kind.size(0, TIB),
        0,
        "Bytes of these events in a second; 0 is no limit.",
    )
    account_markup_per_second: int = setting(
        value_kind.count(0, 1_000_000_000),
        16_384,
        "Tags and attributes, in a second, of these events that have more than 4096 of them; "
        "0 is no limit.",
    )
    max_event_bytes: int = setting(
        value_kind.size(KIB, GIB), MIB, "Length of one event's document."
    )
    max_frame_bytes: int = setting(
        value_kind.size(64 * KIB, GIB), 16 * MIB, "Length of one frame on a connection."
    )
    handshake_timeout: float = setting(
        value_kind.duration(0.1, HOUR),
        10.0,
        "Time for a new connection to complete its handshake; then it is closed.",
    )
    session_lease: float = setting(
        value_kind.duration(0.0, 7 * DAY),
        60.0,
        "Time in which a session can be resumed after its connection broke.",
    )
    window_bytes: int = setting(
        value_kind.size(64 * KIB, GIB), 4 * MIB, "Bytes sent to a client and not yet acknowledged."
    )
    max_depth: int = setting(
        value_kind.count(1, 256), 256, "Nesting depth of elements in an event."
    )
    max_attributes: int = setting(value_kind.count(1, 10_000), 256, "Attributes of one element.")
    max_markup: int = setting(
        value_kind.count(100, 1_000_000_000),
        16_384,
        "Tags and attributes of one event, in sum. The node stops for some 3 us for each.",
    )
    quarantine_files: int = setting(
        value_kind.count(0, 1_000_000),
        1000,
        "Rejected documents kept in quarantine for inspection.",
        previous="refusals_kept",
    )
    quarantine_bytes: int = setting(
        value_kind.size(0, TIB), 64 * MIB, "Total length of the documents in quarantine."
    )
