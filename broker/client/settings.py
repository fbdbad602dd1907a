"""Settings of a client, with defaults."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import attrs

from broker.client.attempts_file import AttemptsFile
from broker.client.effects import ResumePoint
from broker.client.incarnation import raise_incarnation
from broker.client.login import Credentials
from broker.client.owner_key import OwnerKey, load_seed, read_private_key
from broker.client.positions_file import PositionsFile
from broker.errors import CleartextForbidden
from broker.event.event_id import next_incarnation
from broker.event.stream import check_client_id
from broker.transport.backoff import Backoff
from broker.transport.clock import wall_clock_ms
from broker.transport.socket import ISocketChannel
from broker.wire.messages import LOGIN_VERSION, MAGIC, PROTOCOL_VERSIONS, Hello


@attrs.frozen
class ClientSettings:
    client_id: str
    incarnation: int
    token: bytes = attrs.field(factory=lambda: os.urandom(16), repr=False)
    credentials: Credentials = attrs.field(factory=Credentials)
    outbox_events: int = 100_000
    outbox_bytes: int = 64 << 20
    window_bytes: int = 4 << 20
    wall_clock: Callable[[], int] = wall_clock_ms
    """ms since 1970, for the timestamps of EventIds only."""
    first_wait: float = 0.1
    longest_wait: float = 30.0
    random: Random = attrs.field(factory=Random, repr=False)
    """For the jitter of the backoff."""
    positions: PositionsFile | None = None
    resume_points: Mapping[str, ResumePoint] = attrs.field(factory=dict)
    attempts: AttemptsFile | None = None
    allow_cleartext: bool = False
    """Log in by secret at another machine without encryption too."""
    key_seed: bytes = attrs.field(default=b"", repr=False)
    """Seed of the client's key; empty: it is derived from the secret, if there is one, else from
    `private_key`."""
    private_key: str = attrs.field(default="", repr=False)
    """Private key of the client's certificate, in hexadecimal."""

    def find_refusal(self, channel: ISocketChannel) -> CleartextForbidden | None:
        """Return an error if the secret may not be sent on a channel."""
        if channel.confidential or self.allow_cleartext or not self.credentials.secret:
            return None
        return CleartextForbidden(
            f"the connection to {channel.peer_description} is not encrypted: no proof of the "
            "secret is sent; use a tls: endpoint, or allow clear text"
        )

    def make_hello(self, credential: str) -> Hello:
        # An earlier version would take the credential for a secret.
        earliest = LOGIN_VERSION if credential else 1
        return Hello(
            magic=MAGIC,
            versions=tuple(each for each in PROTOCOL_VERSIONS if each >= earliest),
            client_id=self.client_id,
            incarnation=self.incarnation,
            token=self.token,
            account=self.credentials.account,
            credential=credential,
        )

    def make_owner_key(self) -> OwnerKey:
        secret = self.credentials.secret or self.private_key
        return OwnerKey(self.client_id, self.incarnation, self.token, self.key_seed, secret)

    def make_backoff(self) -> Backoff:
        return Backoff(self.first_wait, self.longest_wait, self.random)


def client_settings(
    *,
    client_id: str = "",
    account: str = "",
    secret: str = "",
    token_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    state: Path | None = None,
    window_bytes: int = 4 << 20,
    outbox_events: int = 100_000,
    outbox_bytes: int = 64 << 20,
    longest_wait: float = 30.0,
    allow_cleartext: bool = False,
) -> ClientSettings:
    """Return the settings for one process of a client.

    A login uses the `secret`, which stays in this process, else the token in `token_file`, else the
    `certificate`, whose private key is in `key` or beside it. `client_id` defaults to the account's
    name, else to a random one. `state` is a
    folder for the key, the incarnation and durable positions: the next process resumes at any node,
    and the incarnation rises even if the clock was set back. Without it the node may refuse a used
    incarnation (`IncarnationRefused`). `longest_wait` bounds the seconds between two attempts to
    connect.
    Without `allow_cleartext` a secret is used over TLS only, or on this machine
    (`CleartextForbidden`).

    Raises `ConfigurationError` if the folder is not usable.
    """
    name = check_client_id(client_id or account or f"anonymous-{os.urandom(6).hex()}")
    now_us = time.time_ns() // 1000
    positions, seed = None, b""
    left: Mapping[str, ResumePoint] = {}
    if state is None:
        incarnation = next_incarnation(0, now_us)
    else:
        incarnation = raise_incarnation(state, name, now_us)
        seed = load_seed(state, name)
        positions = PositionsFile(state, name, incarnation)
        left = positions.read()
    return ClientSettings(
        client_id=name,
        incarnation=incarnation,
        credentials=Credentials(account, secret, token_file, certificate is not None),
        window_bytes=window_bytes,
        outbox_events=outbox_events,
        outbox_bytes=outbox_bytes,
        longest_wait=longest_wait,
        positions=positions,
        resume_points=left,
        attempts=None if state is None else AttemptsFile(state, name),
        allow_cleartext=allow_cleartext,
        key_seed=seed,
        private_key="" if seed or certificate is None else read_private_key(key or certificate),
    )
