from __future__ import annotations

from broker.cluster.clone_detection import (
    CONFIRMATION_TIME,
    CloneConfirmation,
    endpoint_text,
    find_earlier_clones,
    find_later_process,
    is_proven,
)
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.map.entries import NODE, SELF
from broker.cluster.map.name_bindings import SignedDescriptor, prove_descriptor
from broker.cluster.neighbours import Neighbour
from broker.event.origin import new_origin
from broker.order_certificates.signing_key import SigningKey
from tests.cluster.sample_nodes import a_node

KEY = SigningKey.generate()
A, TWIN, B = a_node("c/a", incarnation=1), a_node("c/a", incarnation=2), a_node("c/b")


def neighbour(node: NodeDescriptor) -> Neighbour:
    return Neighbour(node, True, True, "tcp", "member", True, "192.0.2.1:4000")


def test_the_link_to_the_earlier_process_ends_with_both_addresses() -> None:
    ((name, error),) = find_earlier_clones([neighbour(B), neighbour(A)], {"a": TWIN, "b": B})
    assert name == "a"
    assert "at 192.0.2.1:4000 and at a:4000 run on copies of one log" in str(error)


def test_a_link_to_the_later_process_stays() -> None:
    links = [neighbour(TWIN), neighbour(B)]
    assert list(find_earlier_clones(links, {"a": A, "b": B})) == []
    assert list(find_earlier_clones(links, {"a": TWIN})) == []
    # Another log under the same name is no copy.
    assert list(find_earlier_clones([neighbour(A)], {"a": TWIN._replace(origin="f" * 16)})) == []


def test_a_later_process_is_found_behind_other_entries_of_its_table() -> None:
    entries = (("link/b", None), (SELF, TWIN.to_plain()))
    assert find_later_process(A, [(NODE, "a", 1, entries)]) is not None
    assert find_later_process(TWIN, [(NODE, "a", 1, entries)]) is None
    assert find_later_process(A, [("other", "a", 1, entries)]) is None


def signed(node: NodeDescriptor, key: SigningKey = KEY) -> SignedDescriptor:
    return SignedDescriptor(node, prove_descriptor(key, node))


def test_a_refusal_needs_a_later_process_with_the_key_of_the_log() -> None:
    own, later = (node._replace(origin=new_origin(1, KEY.public.raw)) for node in (A, TWIN))
    assert is_proven(own, [signed(later)])
    assert is_proven(A, [])
    other = SigningKey.generate()
    for wrong in (
        [],
        [signed(later, other)],
        [signed(own)],
        [signed(TWIN)],
        [signed(later._replace(origin=new_origin(1_795_158_000_000, KEY.public.raw)))],
        [SignedDescriptor(later, signed(own).proof)],
    ):
        assert not is_proven(own, wrong)


def test_the_endpoint_text_is_the_listening_address() -> None:
    assert endpoint_text(A) == "a:4000"
    assert endpoint_text(A._replace(tcp=None, udp=A.tcp)) == "a:4000"
    assert endpoint_text(A._replace(tcp=None)) == "an unknown place"


def test_a_second_sign_confirms_a_clone_only_within_a_time_window() -> None:
    refusals = CloneConfirmation()
    assert not refusals.record_sign(0.0)
    assert not refusals.record_sign(CONFIRMATION_TIME - 0.1)
    assert refusals.record_sign(CONFIRMATION_TIME)
    assert refusals.record_sign(6 * CONFIRMATION_TIME)
    # The first sign has expired.
    assert not refusals.record_sign(6 * CONFIRMATION_TIME + 0.1)
    assert not refusals.record_sign(7 * CONFIRMATION_TIME)
    assert refusals.record_sign(7 * CONFIRMATION_TIME + 0.2)
