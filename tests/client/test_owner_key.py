from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from broker.client.owner_key import OwnerKey, load_seed
from broker.client.settings import client_settings
from broker.errors import ConfigurationError, NotOwner
from broker.wire.claim import Claim, ClaimedState, SignedState

TOKEN = b"t" * 16


def claim_of(
    seed: bytes = b"", secret: str = "", client_id: str = "desk", incarnation: int = 7
) -> Claim | None:
    return OwnerKey(client_id, incarnation, TOKEN, seed, secret).make_claim("d", "c1/n1")


def test_a_process_with_a_state_folder_has_the_key_of_the_one_before(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    first, second = (client_settings(client_id="desk", state=folder) for _ in range(2))
    assert len(first.key_seed) == 32 and first.key_seed == second.key_seed
    assert stat.S_IMODE((folder / "desk.key").stat().st_mode) == 0o600
    assert client_settings(client_id="other", state=folder).key_seed != first.key_seed


@pytest.mark.parametrize("content", [b"no key", b"ab" * 31, b"ab" * 33, b"\xff" * 64])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "desk.key").write_bytes(content)
    with pytest.raises(ConfigurationError, match="does not hold a key"):
        load_seed(tmp_path, "desk")


def test_a_key_that_can_not_be_stored_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="can not be stored"):
        load_seed(tmp_path / "missing", "desk")


def test_all_processes_with_a_secret_derive_one_key_for_each_client() -> None:
    one, again, other_client, other_secret = (
        claim_of(secret=secret, client_id=client_id)
        for secret, client_id in [("s", "a"), ("s", "a"), ("s", "b"), ("t", "a")]
    )
    assert one and again and other_client and other_secret
    assert one.is_derived
    assert one == again
    assert len({one.key, other_client.key, other_secret.key}) == 3


def test_without_folder_and_secret_there_is_no_key() -> None:
    assert claim_of() is None


def test_a_claim_holds_for_its_process_subscription_and_node_alone() -> None:
    key = OwnerKey("desk", 7, TOKEN, b"s" * 32, "")
    claims = [key.make_claim("d", "c1/n1") for _ in range(2)]
    assert [each and each.number for each in claims] == [1, 2]
    claim = claims[1]
    assert claim is not None and not claim.is_derived
    state = ClaimedState("desk", 7, TOKEN, "d", "c1/n1")
    state.check(claim)
    for changed in (
        state._replace(client_id="other"),
        state._replace(incarnation=8),
        state._replace(token=b"u" * 16),
        state._replace(name="e"),
        state._replace(node="c1/n2"),
    ):
        with pytest.raises(NotOwner):
            changed.check(claim)
    for wrong in (
        Claim(claim.key, 3, False, claim.signature),
        Claim(claim.key, 2, True, claim.signature),
        Claim(b"\xff" * 32, 2, False, claim.signature),
        Claim(claim.key, 2, False, b"\0" * 64),
    ):
        with pytest.raises(NotOwner):
            state.check(wrong)


def test_a_claim_proves_where_its_client_was() -> None:
    claim = claim_of(b"s" * 32)
    assert claim is not None
    signed = SignedState(ClaimedState("desk", 7, TOKEN, "d", "c1/n1"), claim)
    assert signed.order == (7, 1)
    assert signed.proves("desk", "c1/n1", claim.key)
    assert not signed.proves("other", "c1/n1", claim.key)
    assert not signed.proves("desk", "c1/n2", claim.key)
    assert not signed.proves("desk", "c1/n1", b"x" * 32)
    forged = signed._replace(state=signed.state._replace(name="e"))
    assert not forged.proves("desk", "c1/n1", claim.key)


def test_a_certificate_gives_a_key_without_folder_and_secret(tmp_path: Path) -> None:
    path = tmp_path / "own.pem"
    private = Ed25519PrivateKey.generate()
    path.write_bytes(
        private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        + b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
    )

    def key_of(**settings: Any) -> bytes:
        owner = client_settings(client_id="c", certificate=path, **settings).make_owner_key()
        claim = owner.make_claim("d", "one/n")
        assert claim is not None
        assert claim.is_derived is not bool(settings.get("state"))
        return claim.key

    assert key_of() == key_of(key=path)
    assert key_of(account="a", secret="s") != key_of()
    assert key_of(state=tmp_path) not in (key_of(), private.public_key().public_bytes_raw())
    path.write_text("no key")
    with pytest.raises(ConfigurationError, match="no readable private key"):
        key_of()
