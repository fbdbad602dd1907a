from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from broker.client.asyncio_face import AsyncioLoop
from broker.client.login import MOST_CHALLENGES, MOST_KEYS, Credentials
from broker.client.twisted_face import TwistedLoop
from broker.errors import (
    AuthenticationFailed,
    CleartextForbidden,
    ConfigurationError,
    ProtocolError,
)
from broker.scram import ClientFirst, KeyDerivation, NodeExchange
from broker.scram.mechanism import parse_credential
from broker.wire.messages import Challenge
from tests.transport.recording import RecordingChannel


class CountingLoop:
    """Computes at once, and counts."""

    def __init__(self) -> None:
        self.computed = 0

    def compute(self, call: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.computed += 1
        done(call())


def answer(credentials: Credentials, loop: CountingLoop, *salts: bytes) -> RecordingChannel:
    """Answer a challenge for each salt in one login."""
    channel = RecordingChannel()
    login = credentials.begin_login(channel, cast(Any, loop))
    _, first = parse_credential(login.make_credential())
    for salt in salts:
        node = NodeExchange(ClientFirst.parse(first), b"")
        challenge = node.challenge(KeyDerivation("pbkdf2", (100_000,), salt))
        login.answer(Challenge(challenge), lambda error: pytest.fail(str(error)))
    return channel


def test_a_key_is_derived_once_for_each_salt_of_later_logins() -> None:
    loop, credentials = CountingLoop(), Credentials("alice", "secret")
    for _ in range(3):
        channel = answer(credentials, loop, b"a" * 16, b"b" * 16)
        assert len(channel.log) == 2
    assert loop.computed == 2


def test_only_the_newest_keys_are_kept() -> None:
    loop, credentials = CountingLoop(), Credentials("alice", "secret")
    salts = [bytes([number]) * 16 for number in range(MOST_KEYS + 1)]
    for salt in (*salts, salts[-1], salts[0]):
        answer(credentials, loop, salt)
    assert loop.computed == MOST_KEYS + 2


def test_a_node_gets_a_few_responses_only() -> None:
    with pytest.raises(ProtocolError, match="does not fit"):
        answer(Credentials("a", "s"), CountingLoop(), *[b"a" * 16] * (MOST_CHALLENGES + 1))


def test_a_challenge_without_a_secret_is_refused() -> None:
    login = Credentials("alice").begin_login(RecordingChannel(), cast(Any, CountingLoop()))
    assert login.make_credential() == ""
    with pytest.raises(ProtocolError, match="does not fit"):
        login.answer(Challenge(b""), lambda error: None)


def test_credentials_that_do_not_fit_the_connection_are_not_sent(tmp_path: Path) -> None:
    channel = RecordingChannel()
    channel.confidential = False
    (tmp_path / "token").write_text("a b")
    loop = cast(Any, CountingLoop())
    for credentials, error in (
        (Credentials("", "secret"), AuthenticationFailed),
        (Credentials("alice", certificate=True), AuthenticationFailed),
        (Credentials("alice", token_file=tmp_path / "token"), CleartextForbidden),
    ):
        with pytest.raises(error):
            credentials.begin_login(channel, loop).make_credential()
    channel.confidential = True
    for file in (tmp_path / "token", tmp_path / "absent"):
        with pytest.raises(ConfigurationError):
            Credentials("alice", token_file=file).begin_login(channel, loop).make_credential()


def test_asyncio_computes_in_another_thread() -> None:
    async def work() -> tuple[int, int]:
        result: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()

        def done(computed_in: int) -> None:
            result.set_result((computed_in, threading.get_ident()))

        AsyncioLoop(asyncio.get_running_loop()).compute(threading.get_ident, done)
        return await result

    computed_in, done_in = asyncio.run(work())
    assert computed_in != done_in == threading.get_ident()


class TwistedLoopTests(TestCase):
    async def test_twisted_computes_in_another_thread(self) -> None:
        result: Deferred[tuple[int, int]] = Deferred()

        def done(computed_in: int) -> None:
            result.callback((computed_in, threading.get_ident()))

        TwistedLoop(reactor).compute(threading.get_ident, done)
        computed_in, done_in = await result
        assert computed_in != done_in == threading.get_ident()
