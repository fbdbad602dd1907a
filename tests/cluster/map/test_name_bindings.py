from __future__ import annotations

from typing import Any

import pytest

from broker.cluster.address import Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.map.core import NetworkMap
from broker.cluster.map.entries import NODE, PROOF, SELF
from broker.cluster.map.name_bindings import MOST_BOUND, NameBindings, prove_descriptor
from broker.errors import ProtocolError
from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey

UNIT = ("alps", "c1")
KEY, OTHER = SigningKey.generate(), SigningKey.generate()


def described(name: str, key: SigningKey | None, **changes: Any) -> dict[str, Any]:
    origin = new_origin(1_700_000_000_000, None if key is None else key.public.raw)
    node = NodeDescriptor(Address(UNIT, name), origin, 1, (4,))._replace(**changes)
    proof = None if key is None else tuple(prove_descriptor(key, node))
    return {SELF: node.to_plain(), PROOF: proof}


def origin_of(changes: dict[str, Any]) -> str:
    return NodeDescriptor.from_plain(changes[SELF]).origin


class Site:
    def __init__(self, *, kept: dict[str, bytes] | None = None, **configured: SigningKey) -> None:
        """`kept` is both what earlier processes have stored, and what this one stores."""
        self.rejected: list[str] = []
        self.bindings = NameBindings(
            {name: [key.public] for name, key in configured.items()},
            lambda name, error: self.rejected.append(name),
            kept,
            lambda name, key: None if kept is None else kept.update({name: key}),
        )
        self.map = NetworkMap(Address(UNIT, "own"), self.bindings)

    def publish(self, name: str, changes: dict[str, Any]) -> bool:
        """Return whether the map has the node then."""
        self.map.apply_change((NODE, name, name), UNIT, changes)
        return name in self.map.members()


def test_signed_descriptor_gives_its_key() -> None:
    site = Site()
    assert site.publish("a", described("a", KEY))
    assert site.map.keys() == {"a": KEY.public.raw}
    assert site.publish("a", described("a", KEY, draining=True)) and not site.rejected


def test_descriptor_of_an_earlier_version_has_no_key() -> None:
    site = Site()
    assert site.publish("a", {SELF: described("a", None)[SELF]})
    assert site.map.keys() == {} and site.rejected == []


@pytest.mark.parametrize("signer", [None, OTHER])
def test_configured_name_belongs_to_its_key_alone(signer: SigningKey | None) -> None:
    site = Site(a=KEY)
    assert site.publish("a", described("a", KEY))
    assert not site.publish("a", described("a", signer))
    assert site.rejected == ["a"] and site.map.keys() == {}
    assert site.map.snapshot().refused == 1
    assert site.publish("a", described("a", KEY))


def test_changed_descriptor_is_rejected() -> None:
    site = Site()
    changes = described("a", KEY)
    forged = described("a", KEY, draining=True)
    assert not site.publish("a", {**changes, SELF: forged[SELF]})
    assert site.rejected == ["a"]


def test_descriptor_with_the_log_of_another_key_is_rejected() -> None:
    site, origin = Site(), new_origin(1_700_000_000_000, OTHER.public.raw)
    assert not site.publish("a", described("a", KEY, origin=origin))
    assert site.rejected == ["a"]


@pytest.mark.parametrize("proof", [(), (b"", b""), ("k" * 32, "s" * 64), 7, (b"k" * 32, b"s" * 63)])
def test_malformed_proof_is_rejected(proof: Any) -> None:
    site = Site()
    assert not site.publish("a", {**described("a", KEY), PROOF: proof})
    assert site.rejected == ["a"]


def test_certificate_binds_a_name_to_the_key_of_its_log() -> None:
    site = Site()
    forged, genuine = described("a", OTHER), described("a", KEY)
    assert site.publish("a", forged), "nothing binds the name"
    assert site.bindings.bind_certified("a", origin_of(genuine))
    site.map.check_name("a")
    assert "a" not in site.map.members() and site.rejected == ["a"]
    assert site.publish("a", genuine)
    assert not site.publish("a", forged)
    assert not site.bindings.bind_certified("a", origin_of(genuine)), "it is bound"
    assert not site.bindings.bind_certified("a", "f" * 16), "it belongs to no key"


def test_new_key_over_the_link_replaces_the_former_one() -> None:
    site = Site()
    site.bindings.bind_certified("a", origin_of(described("a", OTHER)))
    changed = described("a", KEY)
    assert not site.publish("a", changed), "its table may come over another link first"
    site.bindings.bind_certified("a", origin_of(changed))
    site.map.check_name("a")
    assert site.map.keys() == {"a": KEY.public.raw}


def test_bound_names_are_bounded() -> None:
    bindings, origin = NameBindings(), origin_of(described("a", KEY))
    assert all(bindings.bind_certified(f"n{n}", origin) for n in range(MOST_BOUND))
    assert not bindings.bind_certified("late", origin)


def test_configured_key_counts_more_than_a_certificate() -> None:
    site = Site(a=KEY)
    site.bindings.bind_certified("a", origin_of(described("a", OTHER)))
    with pytest.raises(ProtocolError):
        site.bindings.find_key("a", *described("a", OTHER).values())


def test_names_without_a_key_do_not_vote_beside_others() -> None:
    site = Site(a=KEY)
    assert site.publish("a", described("a", KEY)) and site.publish("b", described("b", OTHER))
    assert set(site.map.members()) == {"a", "b"}
    assert site.map.keys() == {"a": KEY.public.raw}
    site.bindings.bind_certified("b", origin_of(described("b", OTHER)))
    assert set(site.map.keys()) == {"a", "b"}


def test_first_key_of_a_name_is_kept_and_stored() -> None:
    stored: dict[str, bytes] = {"b": OTHER.public.raw}
    site = Site(kept=stored)
    assert site.publish("a", described("a", KEY)) and stored["a"] == KEY.public.raw
    for signer in (OTHER, None):
        assert not site.publish("a", described("a", signer))
    assert not site.publish("b", described("b", KEY)), "an earlier process has seen another one"
    assert site.rejected == ["a", "a", "b"] and site.publish("b", described("b", OTHER))
    certified = origin_of(described("a", OTHER))
    site.bindings.bind_certified("a", certified)
    assert site.publish("a", described("a", OTHER)) and stored["a"] == OTHER.public.raw


def test_kept_keys_are_bounded() -> None:
    stored = {f"n{n}": KEY.public.raw for n in range(MOST_BOUND)}
    site = Site(kept=stored)
    assert site.publish("late", described("late", KEY)) and "late" not in stored
