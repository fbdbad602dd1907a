from __future__ import annotations

import pytest

from broker.config.stored_secret import StoredSecret
from broker.identity import hash_secret
from broker.identity.secret import MAX_SECRET_BYTES, matches_secret, unmatchable_secret


def test_a_secret_is_recognised_by_its_hash() -> None:
    stored = StoredSecret.parse(hash_secret("Größe"))
    assert matches_secret("Größe".encode(), stored)
    assert not matches_secret(b"Groesse", stored)
    assert not matches_secret(b"", stored)


def test_the_same_secret_is_stored_differently_each_time() -> None:
    assert hash_secret("same") != hash_secret("same")


def test_the_hash_does_not_hold_the_secret() -> None:
    assert "correct horse" not in hash_secret("correct horse")


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
    def hashed(*_: object, **__: object) -> bytes:
        raise AssertionError("it was hashed")

    monkeypatch.setattr("hashlib.scrypt", hashed)
    assert not matches_secret(b"s" * (MAX_SECRET_BYTES + 1), unmatchable_secret())


def test_a_secret_of_another_cost_is_recognised_too() -> None:
    # OpenSSL needs a higher memory limit from here on.
    dear = StoredSecret(2**15, 8, 1, b"s" * 16, b"d" * 32)
    assert not matches_secret(b"guess", dear)


def test_checking_an_unknown_account_costs_as_much_as_a_stored_secret() -> None:
    stored, stand_in = StoredSecret.parse(hash_secret("x")), unmatchable_secret()
    assert (stored.n, stored.r, stored.p) == (stand_in.n, stand_in.r, stand_in.p)
    assert len(stored.digest) == len(stand_in.digest)
