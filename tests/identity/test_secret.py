from __future__ import annotations

import base64
import hashlib

import pytest

from broker.config.stored_secret import StoredSecret
from broker.identity import hash_secret
from broker.identity.secret import MAX_SECRET_BYTES, matches_secret


def test_a_secret_is_recognised_by_its_hash() -> None:
    stored = StoredSecret.parse(hash_secret("Größe"))
    assert stored.derivation.algorithm == "pbkdf2" and stored.derivation.cost[0] >= 100_000
    assert matches_secret("Größe".encode(), stored)
    assert not matches_secret(b"Groesse", stored)
    assert not matches_secret(b"", stored)


def test_a_secret_is_recognised_by_a_digest_of_an_earlier_version() -> None:
    digest = hashlib.scrypt(b"old", salt=b"s" * 16, n=2**14, r=8, p=1, dklen=32)
    texts = (base64.b64encode(each).decode() for each in (b"s" * 16, digest))
    stored = StoredSecret.parse("scrypt$16384$8$1$" + "$".join(texts))
    assert matches_secret(b"old", stored) and not matches_secret(b"new", stored)


def test_the_same_secret_is_stored_differently_each_time() -> None:
    assert hash_secret("same") != hash_secret("same")


@pytest.mark.parametrize("secret", ["s", "s" * MAX_SECRET_BYTES])
def test_the_shortest_and_the_longest_secret_are_recognised(secret: str) -> None:
    assert matches_secret(secret.encode(), StoredSecret.parse(hash_secret(secret)))


@pytest.mark.parametrize("secret", ["", "s" * (MAX_SECRET_BYTES + 1)])
def test_an_empty_or_endless_secret_is_not_stored(secret: str) -> None:
    with pytest.raises(ValueError, match="1 to 1024 bytes"):
        hash_secret(secret)


def test_an_endless_secret_is_refused_without_hashing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored = StoredSecret.parse(hash_secret("x"))

    def hashed(*_: object, **__: object) -> bytes:
        raise AssertionError("it was hashed")

    monkeypatch.setattr("hashlib.pbkdf2_hmac", hashed)
    assert not matches_secret(b"s" * (MAX_SECRET_BYTES + 1), stored)
