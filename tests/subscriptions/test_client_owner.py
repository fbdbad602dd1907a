from __future__ import annotations

import msgpack
import msgspec
import pytest

from broker.errors import NotOwner
from broker.event.stream import StreamPattern
from broker.subscriptions.client_owner import NO_OWNER, ClientOwner
from broker.subscriptions.durable_subscriptions import DurableSubscription
from broker.wire.claim import Claim, ClaimedState, SignedState

STATE = ClaimedState("desk", 7, b"token", "d", "c/n1")
CLAIM = Claim(b"k" * 32, 5, False, b"s" * 64)
OTHER = Claim(b"x" * 32, 6, False, b"s" * 64)
OWNER = ClientOwner("office", "alice", SignedState(STATE, CLAIM))


def test_an_owner_has_its_bytes() -> None:
    stored = bytes.fromhex(
        "96af786d6c62726f6b65722d6f776e6572a083a57265616c6da66f6666696365a76163636f756e74a5616c696365"
        "a67369676e6564c47d"
        "929"
        "5a46465736b07c405746f6b656ea164a4632f6e31"
        "94c420" + "6b" * 32 + "05c2c440" + "73" * 64 + "9000c0"
    )
    assert OWNER.encode() == stored
    assert ClientOwner.decode(stored) == OWNER


def test_earlier_versions_read_it_as_an_expired_subscription_without_events() -> None:
    durable = DurableSubscription.decode(OWNER.encode())
    assert durable.used_ms == 0 and durable.active_from is None
    assert not StreamPattern.parse(durable.pattern).matches("asdi.zbw")


@pytest.mark.parametrize(
    "fields",
    [(), ("", "", {}), ("", "", 7), 5, ("", "", {"realm": "", "account": "", "signed": b"1"})],
)
def test_a_malformed_record_is_refused(fields: object) -> None:
    with pytest.raises(ValueError, match="malformed"):
        ClientOwner.decode(msgpack.packb(fields))


@pytest.mark.parametrize(
    ("account", "claim", "is_owner"),
    [
        (("office", "alice"), CLAIM, True),
        (("office", "bob"), CLAIM, False),
        (("lab", "alice"), CLAIM, False),
        (("", "alice"), CLAIM, False),
        (("office", "alice"), None, False),
        (("office", "alice"), OTHER, False),
        # A node without accounts, or of an earlier version.
        (None, CLAIM, True),
        (None, None, False),
    ],
)
def test_both_account_and_key_must_be_the_owners(
    account: tuple[str, str] | None, claim: Claim | None, is_owner: bool
) -> None:
    if is_owner:
        OWNER.check_other_node("desk", account, claim)
    else:
        with pytest.raises(NotOwner, match="xmlbroker client reset desk"):
            OWNER.check_other_node("desk", account, claim)
    NO_OWNER.check_other_node("desk", account, claim)


def test_a_session_without_an_account_is_not_the_owner() -> None:
    with pytest.raises(NotOwner):
        OWNER.check_account("desk", None)


def test_a_session_adds_what_it_proves() -> None:
    account = ("office", "alice")
    assert NO_OWNER.updated("desk", None, None) == NO_OWNER
    keyed = NO_OWNER.updated("desk", None, SignedState(STATE, CLAIM))
    assert (keyed.realm, keyed.account, keyed.key) == ("", "", CLAIM.key)
    assert keyed.updated("desk", account, SignedState(STATE, CLAIM)) == OWNER
    assert ClientOwner("", "alice").updated("desk", account, None).realm == "office"


@pytest.mark.parametrize("claim", [None, OTHER])
def test_only_a_derived_key_changes_with_a_session(claim: Claim | None) -> None:
    account = ("office", "alice")
    signed = None if claim is None else SignedState(STATE, claim)
    with pytest.raises(NotOwner):
        OWNER.updated("desk", account, signed)
    derived = msgspec.structs.replace(CLAIM, is_derived=True)
    owner = ClientOwner(*account, SignedState(STATE, derived))
    assert owner.updated("desk", account, signed) == ClientOwner(*account, signed)
    # Another node has to show the present one.
    with pytest.raises(NotOwner):
        owner.check_other_node("desk", account, claim)
