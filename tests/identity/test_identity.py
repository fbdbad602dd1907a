from __future__ import annotations

import attrs
import pytest
from zope.interface.verify import verifyObject

from broker.errors import BadName, ClearanceTooLow, NotAllowed
from broker.event.envelope import SecurityLevel
from broker.event.stream import StreamPattern
from broker.identity import Identity, IIdentity, Rights, anonymous_identity

ASDI = (StreamPattern.parse("asdi.>"),)


def identity(*, administer: bool = False) -> Identity:
    return Identity(
        account="zbw",
        client_id="zbw-1",
        rights=Rights(publish=ASDI, subscribe=ASDI, types=("asdi-",)),
        clearance=SecurityLevel.MED,
        administer=administer,
        client_ids=("zbw-*",),
    )


def test_an_identity_is_an_avatar() -> None:
    assert verifyObject(IIdentity, identity())


def test_publishing_to_an_open_stream_within_the_clearance_passes() -> None:
    identity().check_publish("asdi.zbw", SecurityLevel.MED)


def test_publishing_elsewhere_is_refused_with_account_and_stream() -> None:
    with pytest.raises(NotAllowed, match="'zbw' may not publish to stream 'chat'"):
        identity().check_publish("chat", SecurityLevel.LOW)


def test_publishing_above_the_clearance_is_refused_with_both_levels() -> None:
    with pytest.raises(ClearanceTooLow, match=r"'high', account 'zbw' is cleared up to 'med'"):
        identity().check_publish("asdi.zbw", SecurityLevel.HIGH)


def test_an_event_above_the_clearance_is_not_for_its_eyes() -> None:
    assert identity().is_cleared(SecurityLevel.MED)
    assert not identity().is_cleared(SecurityLevel.HIGH)


def test_subscribing_is_refused_outside_the_open_streams() -> None:
    identity().check_subscribe(StreamPattern.parse("asdi.*.tz"))
    with pytest.raises(NotAllowed, match="may not subscribe to streams '>'"):
        identity().check_subscribe(StreamPattern.parse(">"))


def test_administering_needs_its_own_right() -> None:
    identity(administer=True).check_administer()
    with pytest.raises(NotAllowed, match="may not administer"):
        identity().check_administer()


def test_registering_a_type_needs_a_right_for_a_prefix_of_its_name() -> None:
    identity().check_register("asdi-flight")
    with pytest.raises(NotAllowed, match="'zbw' may not register the event type 'flight'"):
        identity().check_register("flight")


def test_an_identity_owns_its_own_client_id_and_those_of_its_account() -> None:
    assert identity().owns_client_id("zbw-1") and identity().owns_client_id("zbw-2")
    assert not identity().owns_client_id("chat")
    assert anonymous_identity("a").owns_client_id("a") and not anonymous_identity(
        "a"
    ).owns_client_id("b")


def test_on_a_node_without_accounts_everything_is_allowed() -> None:
    who = anonymous_identity("someone")
    assert (who.account, who.client_id) == ("", "someone")
    who.check_publish("any.stream", SecurityLevel.HIGH)
    who.check_subscribe(StreamPattern.parse(">"))
    who.check_administer()


@pytest.mark.parametrize("client_id", ["", "a/b", "../a", "a" * 65, "a\nb"])
def test_even_there_a_client_id_keeps_to_its_grammar(client_id: str) -> None:
    with pytest.raises(BadName):
        anonymous_identity(client_id)


def test_clear_text_limits_the_clearance_and_the_refusal_says_so() -> None:
    high = attrs.evolve(identity(), clearance=SecurityLevel.HIGH)
    limited = high.limited_to_cleartext()
    assert limited.clearance is SecurityLevel.MED and limited.account == "zbw"
    with pytest.raises(ClearanceTooLow, match="'med' on a connection without encryption$"):
        limited.check_level(SecurityLevel.HIGH)
    with pytest.raises(ClearanceTooLow, match="'med'$"):
        identity().check_level(SecurityLevel.HIGH)


def test_clients_of_an_account_share_its_limits() -> None:
    assert identity().holder == "account zbw"
    assert anonymous_identity("someone").holder == "someone"
