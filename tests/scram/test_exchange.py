from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import AuthenticationFailed, ProtocolError
from broker.scram import ClientExchange, ClientFirst, ClientKeys, KeyDerivation, NodeExchange
from broker.scram.key_derivation import PBKDF2, SCRYPT

#: Not checked for its weakness, and so fast.
FAST = KeyDerivation(PBKDF2, (1,), b"s" * 16)
STRONG = KeyDerivation(PBKDF2, (100_000,), b"s" * 16)


def keys(secret: bytes) -> ClientKeys:
    return ClientKeys.from_salted(FAST.derive(secret))


RIGHT = keys(b"right")


class Exchange:
    """Both ends of one login, with the key derived already."""

    def __init__(
        self, binding: str = "", data: bytes = b"", node_data: bytes | None = None
    ) -> None:
        self.client = ClientExchange("alice", binding)
        self._data = data
        first = ClientFirst.parse(self.client.first)
        assert (first.account, first.binding) == ("alice", binding)
        self.node = NodeExchange(first, data if node_data is None else node_data)

    def respond(self, used: ClientKeys = RIGHT) -> bytes:
        assert self.client.read_challenge(self.node.challenge(STRONG)) == STRONG
        return self.client.respond(used, self._data)


def test_the_exchange_of_the_rfc_has_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.scram.key_derivation.LEAST_ITERATIONS", 4096)
    client = ClientExchange("user", nonce="rOprNGfwEbeRWgbNEkqO")
    assert client.first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    node = NodeExchange(ClientFirst.parse(client.first), b"", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    derivation = KeyDerivation(PBKDF2, (4096,), base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    challenge = node.challenge(derivation)
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert client.read_challenge(challenge) == derivation
    pencil = ClientKeys.from_salted(derivation.derive(b"pencil"))
    response = client.respond(pencil)
    assert response == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    final = node.check_response(response, pencil.stored)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    client.check_final(final)


@pytest.mark.parametrize("binding", ["", "tls-exporter"])
def test_the_right_secret_proves_both_ends(binding: str) -> None:
    exchange = Exchange(binding, b"of the channel" if binding else b"")
    final = exchange.node.check_response(exchange.respond(), RIGHT.stored)
    assert final is not None
    exchange.client.check_final(final)


def test_a_wrong_secret_is_no_proof() -> None:
    exchange = Exchange()
    assert exchange.node.check_response(exchange.respond(keys(b"wrong")), RIGHT.stored) is None


def test_a_proof_for_another_channel_is_refused() -> None:
    exchange = Exchange("tls-exporter", b"to the impostor", b"to the node")
    with pytest.raises(AuthenticationFailed, match="bound to another connection"):
        exchange.node.check_response(exchange.respond(), RIGHT.stored)


def test_a_proof_can_not_be_replayed() -> None:
    response = Exchange().respond()
    with pytest.raises(ProtocolError, match="another nonce"):
        Exchange().node.check_response(response, RIGHT.stored)


def test_the_stored_keys_do_not_allow_to_log_in() -> None:
    exchange = Exchange()
    stolen = ClientKeys(RIGHT.stored.stored_key, RIGHT.stored)
    assert exchange.node.check_response(exchange.respond(stolen), RIGHT.stored) is None


@pytest.mark.parametrize("final", [b"", b"v=", b"v=AAAA", b"v=" + base64.b64encode(b"x" * 32)])
def test_a_node_without_the_stored_keys_is_found(final: bytes) -> None:
    exchange = Exchange()
    exchange.respond()
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        exchange.client.check_final(final)


def test_a_node_that_skips_the_challenge_is_found() -> None:
    final = base64.b64encode(hashlib.sha256(b"").digest())
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        ClientExchange("alice").check_final(b"v=" + final)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ("s=c2FsdHNhbHRzYWx0c2FsdA==,i=99999", "iterations"),
        ("s=c2FsdHNhbHRzYWx0c2FsdA==,i=2000001", "iterations"),
        ("s=c2FsdA==,i=100000", "salt"),
        ("s=c2FsdHNhbHRzYWx0c2FsdA==,i=1,k=scrypt:8192:8:1", "too low"),
        ("s=c2FsdHNhbHRzYWx0c2FsdA==,i=1,k=scrypt:16384:4:1", "too low"),
        ("s=c2FsdHNhbHRzYWx0c2FsdA==,i=1,k=scrypt:1073741824:8:1", "range"),
        ("s=c2FsdHNhbHRzYWx0c2FsdA==,i=1,k=md5:1", "algorithm"),
        ("s=c2FsdHNhbHRzYWx0c2FsdA==,i=x", "number"),
    ],
)
def test_a_client_derives_no_weak_and_no_endless_key(attributes: str, reason: str) -> None:
    client = ClientExchange("alice", nonce="n" * 20)
    with pytest.raises(AuthenticationFailed, match=reason):
        client.read_challenge(f"r={'n' * 20}{'m' * 20},{attributes}".encode())


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=" + b"m" * 40 + b",s=c2FsdHNhbHRzYWx0c2FsdA==,i=100000",
        b"r=" + b"n" * 20 + b",s=c2FsdHNhbHRzYWx0c2FsdA==,i=100000",
        b"m=x,r=" + b"n" * 40 + b",s=c2FsdHNhbHRzYWx0c2FsdA==,i=100000",
        b"r=" + b"n" * 2000,
        b"\xff",
    ],
)
def test_a_malformed_challenge_is_an_error_of_the_node(challenge: bytes) -> None:
    with pytest.raises(ProtocolError):
        ClientExchange("alice", nonce="n" * 20).read_challenge(challenge)


@pytest.mark.parametrize(
    "first",
    [b"", b"n,,", b"y,,n=a,r=" + b"n" * 20, b"n,a=b,n=a,r=" + b"n" * 20, b"n,,n=a,r=short"],
)
def test_a_malformed_first_message_is_an_error_of_the_client(first: bytes) -> None:
    with pytest.raises(ProtocolError):
        ClientFirst.parse(first)


@given(st.binary(max_size=80), st.data())
def test_random_messages_are_refused_with_a_typed_error(noise: bytes, data: st.DataObject) -> None:
    exchange = Exchange()
    response = bytearray(exchange.respond())
    response[data.draw(st.integers(0, len(response) - 1))] ^= data.draw(st.integers(1, 255))
    for message in (noise, bytes(response)):
        try:
            assert exchange.node.check_response(message, RIGHT.stored) is None
        except (ProtocolError, AuthenticationFailed) as error:
            assert error.text
    for parse in (ClientFirst.parse, ClientExchange("alice").read_challenge):
        with pytest.raises((ProtocolError, AuthenticationFailed)):
            parse(noise)


@pytest.mark.parametrize("derivation", [STRONG, KeyDerivation(SCRYPT, (2**14, 8, 1), b"s" * 20)])
def test_a_derivation_survives_the_wire(derivation: KeyDerivation) -> None:
    client = ClientExchange("alice")
    node = NodeExchange(ClientFirst.parse(client.first), b"")
    assert client.read_challenge(node.challenge(derivation)) == derivation
