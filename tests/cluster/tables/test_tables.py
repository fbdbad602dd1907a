from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from broker.cluster.address import Address
from broker.cluster.messages import REPLACED, Digest, Message, Probe, Proof, Refresh, Update
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import (
    NeighbourSynchronised,
    Send,
    TableChanged,
    TableEchoed,
    TablesEffect,
)
from broker.cluster.tables.message_parts import PART_BYTES
from broker.cluster.tables.replication import DIGEST_END
from broker.cluster.tables.table import TableKey, TableLimits, TableTimes
from broker.errors import Overloaded, ProtocolError
from tests.cluster.tables.network import Network

C1 = ("a", "1")
C2 = ("a", "2")
LIMITS = TableLimits(tables=2, entries=3, bytes=1000, groups=3)


def made(name: str = "me", limits: TableLimits = TableLimits()) -> Tables:  # noqa: B008
    return Tables(Address(C1, name), 1, lambda: [(name, 1, 7)], TableTimes(), limits)


def with_peer(limits: TableLimits = TableLimits()) -> Tables:  # noqa: B008
    tables = made(limits=limits)
    tables.add_neighbour("peer", C1, 0.0)
    tables.receive_message("peer", Digest((), True, False), 0.0)
    return tables


def update(**changes: object) -> Update:
    message = Update("x", C1, C1, 1, 0, 1, 0, (("k", "s", REPLACED, (("a", 1),)),), False)
    return msgspec.structs.replace(message, **changes)


def sent(effects: list[TablesEffect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


REFUSED: list[tuple[Message, str]] = [
    (update(unit=C2), "inconsistent update"),
    (update(base=1), "inconsistent update"),
    (update(scope=C2, unit=C2), "does not share"),
    (update(scope=("a", "1", "deeper")), "does not share"),
    (update(incarnation=1 << 63), "incarnation"),
    (update(tables=tuple(("k", str(n), REPLACED, ()) for n in range(3))), "3 tables"),
    (update(tables=(("k", "s", REPLACED, tuple((str(n), n) for n in range(4))),)), "4 entries"),
    (update(tables=(("k", "s", REPLACED, (("a", "x" * 1000),)),)), "1006 bytes"),
    (Digest((("x", C2, 1, 1),), False, False), "does not share"),
    (Digest(tuple((f"n{n}", C1, 1, 1) for n in range(4)), False, False), "digest of 4"),
    (Refresh("x", C2, C1, 1, 1, 1, 0), "inconsistent refresh"),
    (Refresh("x", C2, C2, 1, 1, 1, 0), "does not share"),
    (Probe("x", C2, 1, 1, 1), "does not share"),
    (Message(), "not a message of tables"),
]


@pytest.mark.parametrize(("message", "text"), REFUSED)
def test_invalid_messages_are_rejected_and_counted(message: Message, text: str) -> None:
    tables = with_peer(LIMITS)
    with pytest.raises(ProtocolError, match=f"peer: .*{text}"):
        tables.receive_message("peer", message, 1.0)
    assert tables.counts["refused"] == 1
    assert not list(tables.items("k"))


def test_the_number_of_groups_is_bounded() -> None:
    tables = with_peer(LIMITS)
    for number in range(3):
        tables.receive_message("peer", update(author=f"x{number}"), 1.0)
    for more in (update(author="y"), Refresh("y", C1, C1, 1, 1, 1, 0)):
        with pytest.raises(ProtocolError, match="peer: tables of over 3 authors"):
            tables.receive_message("peer", more, 1.0)
    assert len(list(tables.items("k"))) == 3


def test_mixed_message_parts_are_rejected() -> None:
    for second in (update(author="y"), Digest((), False, False), Probe("x", C1, 1, 1, 1)):
        tables = with_peer()
        tables.receive_message("peer", update(more=True), 1.0)
        with pytest.raises(ProtocolError, match="before the end"):
            tables.receive_message("peer", second, 1.0)
    tables = with_peer()
    tables.receive_message("peer", Digest((), True, True), 1.0)
    with pytest.raises(ProtocolError, match="before the end of a digest"):
        tables.receive_message("peer", update(), 1.0)


def test_an_endless_update_is_rejected() -> None:
    tables = with_peer(LIMITS)
    endless = update(more=True, tables=(("k", "s", REPLACED, (("a", "x" * 500),)),))
    with pytest.raises(ProtocolError, match="exceeds the limits"):
        for _ in range(9):
            tables.receive_message("peer", endless, 1.0)


def test_an_own_table_over_the_limits_raises_and_changes_nothing() -> None:
    tables = made(limits=LIMITS)
    tables.publish("k", "s", C1, {"a": 1}, 0.0)
    with pytest.raises(Overloaded):
        tables.publish("k", "s", C1, {"b": "x" * 1000}, 0.0)
    assert dict(tables.get(TableKey("k", "s", "me"))) == {"a": 1}
    with pytest.raises(ValueError, match="outside"):
        tables.publish("k", "s", C2, {"a": 1}, 0.0)
    with pytest.raises(TypeError):
        tables.publish("k", "s", C1, {"a": {1}}, 0.0)  # type: ignore[dict-item]


def test_a_single_node_gets_its_echo_at_once() -> None:
    version, effects = made().publish("k", "s", (), {"a": 1}, 0.0, echo=True)
    assert effects == [TableEchoed(TableKey("k", "s", "me"), version, {"me": (1, 7)})]


def test_the_cut_is_read_in_a_later_call_than_the_change() -> None:
    tables = with_peer()
    # The tables take another link.
    assert tables.receive_message("peer", Probe("x", C1, 1, 1, 1), 1.0) == []
    effects = tables.receive_message("peer", update(), 1.0)
    assert effects == [TableChanged(TableKey("k", "s", "x"), C1, {"a": 1})]
    assert tables.next_timeout() == 0.0
    (proof,) = sent(tables.handle_timeout(1.0))
    assert proof == Proof("x", C1, 1, 1, True, (("me", 1, 7),))


def test_a_repeated_probe_is_answered_at_once_and_a_forgotten_one_is_not_whole() -> None:
    tables = with_peer()
    tables.receive_message("peer", update(), 1.0)
    for wave in range(10, 50):
        (proof,) = sent(tables.receive_message("peer", Probe("x", C1, 1, 1, wave), 1.0))
        assert isinstance(proof, Proof) and proof.is_complete and proof.cuts
    (again,) = sent(tables.receive_message("peer", Probe("x", C1, 1, 1, 49), 1.0))
    assert again == Proof("x", C1, 1, 49, True, ())
    (ancient,) = sent(tables.receive_message("peer", Probe("x", C1, 1, 1, 3), 1.0))
    assert ancient == Proof("x", C1, 1, 3, False, ())


def test_endless_waves_are_bounded_and_given_up() -> None:
    tables = with_peer()
    tables.add_neighbour("silent", C1, 0.0)
    tables.receive_message("peer", update(), 1.0)
    proofs: list[Message] = []
    for wave in range(1, 31):
        effects = tables.receive_message("peer", Probe("x", C1, 1, 1, wave), 1.0)
        proofs += [m for m in sent(effects) if isinstance(m, Proof)]
    assert len(proofs) == 22 and not any(p.is_complete for p in proofs if isinstance(p, Proof))
    rest = [m for m in sent(tables.handle_timeout(31.0)) if isinstance(m, Proof)]
    assert len(rest) == 8 and not any(proof.is_complete for proof in rest)


def test_an_author_without_its_state_exceeds_the_known_incarnation() -> None:
    for version in ((1, 9), (5, 2)):
        tables = with_peer()
        tables.publish("k", "s", C1, {"new": 1}, 0.0)
        digest = Digest((("me", C1, *version),), True, False)
        again, answered = sent(tables.receive_message("peer", digest, 1.0))[-2:]
        assert answered == DIGEST_END
        assert isinstance(again, Update)
        assert (again.incarnation, again.base) == (version[0] + 1, 0)
        assert again.tables == (("k", "s", REPLACED, (("new", 1),)),)
        assert tables.counts["above"] == 1


def test_a_neighbour_is_synchronised_once_by_its_answer() -> None:
    tables = with_peer()
    assert sent(tables.receive_message("peer", Digest((), True, False), 0.0))[-1] == DIGEST_END
    assert NeighbourSynchronised("peer") not in tables.receive_message("peer", update(), 1.0)
    assert tables.receive_message("peer", DIGEST_END, 1.0) == [NeighbourSynchronised("peer")]
    assert tables.receive_message("peer", DIGEST_END, 2.0) == []
    tables.add_neighbour("peer", C1, 3.0)
    assert tables.receive_message("peer", DIGEST_END, 3.0) == [NeighbourSynchronised("peer")]


def test_a_higher_incarnation_replaces_all_tables_of_the_author() -> None:
    tables = with_peer()
    tables.receive_message("peer", update(), 1.0)
    tables.receive_message(
        "peer", update(scope=("a",), tables=(("k", "wide", REPLACED, (("b", 2),)),)), 1.0
    )
    effects = tables.receive_message("peer", update(incarnation=2), 1.0)
    assert effects == [
        TableChanged(TableKey("k", "wide", "x"), ("a",), {"b": None}, is_removed=True)
    ]
    assert tables.receive_message("peer", update(scope=("a",), number=9), 2.0) == []
    assert tables.counts["stale"] == 1


def test_a_silent_author_is_dropped_even_if_others_forward_its_tables() -> None:
    tables = with_peer()
    tables.receive_message("peer", update(age=20_000), 0.0)
    for now in (5.0, 10.0):
        assert tables.handle_timeout(now) == []
    # It was 20 s old on arrival: 35 s are over at the second tick.
    late = tables.handle_timeout(20.0)
    assert late == [TableChanged(TableKey("k", "s", "x"), C1, {"a": None}, is_removed=True)]
    assert tables.receive_message("peer", update(age=35_000), 21.0) == []


def test_a_large_update_arrives_whole_in_parts() -> None:
    network = Network(1)
    one, other = network.add("one", C1), network.add("other", C1)
    large = {f"key{n}": "x" * 3000 for n in range(200)}
    one.apply(one.tables.publish("k", "s", C1, {**large}, network.now)[1])
    network.link("one", "other")
    before = network.sent
    network.run(2)
    assert other.view == {TableKey("k", "s", "one"): large}
    assert network.sent - before >= 200 * 3000 // PART_BYTES


def test_a_nearly_equal_neighbour_gets_few_changes() -> None:
    network = Network(1)
    one = network.add("one", C1)
    network.add("other", C1)
    large = {f"key{n}": "x" * 3000 for n in range(100)}
    one.apply(one.tables.publish("k", "s", C1, {**large}, network.now)[1])
    network.link("one", "other")
    network.run(2)
    network.cut("one", "other")
    one.apply(one.tables.publish("k", "s", C1, {"key1": "y"}, network.now)[1])
    before = network.bytes
    network.link("one", "other")
    network.run(2)
    assert network.nodes["other"].view[TableKey("k", "s", "one")]["key1"] == "y"
    assert network.bytes - before < 500


@pytest.mark.parametrize(
    "build", [lambda: Refresh("x", C1, C1, 1, 4, 9, 0), lambda: update(base=3, number=4)]
)
def test_missing_changes_are_requested(build: Callable[[], Message]) -> None:
    tables = with_peer()
    tables.receive_message("peer", update(), 1.0)
    assert tables.receive_message("gone", build(), 2.0) == []
    assert sent(tables.receive_message("peer", build(), 2.0)) == [
        Digest((("x", C1, 1, 1),), False, False)
    ]
    assert tables.counts["asked"] == 1
