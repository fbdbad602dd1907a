"""The parents of a node: epochs of its interest, and by which of them each selects."""

from __future__ import annotations

from pytest import approx

from plugins.dcp.control import Interest, Query, SequenceStart
from plugins.dcp.event_range import Description
from plugins.dcp.mesh.standing import Standing
from plugins.dcp.receiver import Nack
from tests.plugins.dcp.connection_pipe import DESCRIPTION, KEY
from tests.plugins.dcp.receiving_node import Node, interest_epochs

OTHER = Description("0b/ops.>", 1, "n2")


def make_query(text: str) -> Query:
    return "ops.>", text, ()


A, B, C = map(make_query, "abc")


def make_node(*ans: int) -> Node:
    """Return a node whose interest A, of epoch 1, is in force at parents behind these ANs."""
    node = Node()
    node.core.set_queries([A], 0.0)
    for number, an in enumerate(ans):
        node.put_in_force(node.add_parent(f"p{number}", number + 1), 1, an)
    return node


# ------------------------------------------------------------------ epochs of interest


def test_each_change_of_interest_has_a_new_epoch() -> None:
    node = Node(first_epoch=7)
    parent = node.add_parent("p", 1)
    for queries in ([A], [A, B], [B, A, A], [B]):
        node.core.set_queries(queries, 0.0)
    assert node.core.queries == {B} and node.core.epoch == 10
    assert parent.messages == [Interest(8, (A,)), Interest(9, (A, B)), Interest(10, (B,))]
    assert node.core.interest == Interest(10, (B,))


def test_a_parent_is_in_force_up_to_the_newest_epoch_that_it_states() -> None:
    node = Node()
    parent = node.add_parent("p", 1)
    assert parent not in node.core.paths
    for queries in ([A], [A, B], [A, B, C]):
        node.core.set_queries(queries, 0.0)
    found = node.core.get(parent)
    assert found is not None and found.epoch == -1
    # An earlier epoch, and one that was not requested, change nothing.
    for epoch, expected in ((2, 2), (1, 2), (4, 2), (3, 3)):
        node.put_in_force(parent, epoch)
        assert found.epoch == expected
    assert node.core.paths[parent] is parent.path


def test_a_parent_that_is_added_has_the_standing_of_its_offer() -> None:
    node = Node()
    parent = node.add_parent("p", 1)
    (found,) = node.core
    assert found.standing == Standing(0, 1, frozenset({"node p"})) and parent.path.name == "p"
    found.standing = Standing(3, 2, frozenset())
    assert found.as_candidate().level == 3 and parent in node.core and len(node.core) == 1


# ------------------------------------------------------------------ covered interest


def test_calls_wait_until_their_interest_is_in_force_at_a_parent() -> None:
    node = Node()
    first, second = node.add_parent("p1", 1), node.add_parent("p2", 2)
    node.when_covered("nothing")
    assert node.covered == ["nothing"]
    node.core.set_queries([A], 0.0)
    node.when_covered("a")
    node.core.set_queries([A, B], 0.0)
    node.when_covered("b")
    node.put_in_force(first, 1)
    assert node.covered == ["nothing", "a"] and node.core.covered_epoch == 1
    node.put_in_force(second, 2)
    assert node.covered == ["nothing", "a", "b"] and node.core.covered_epoch == 2
    node.when_covered("at once")
    assert node.covered[-1] == "at once" and node.core.next_timeout() is None


def test_narrower_interest_is_covered_at_once() -> None:
    node = Node()
    parent = node.add_parent("p", 1)
    node.core.set_queries([A, B], 0.0)
    node.put_in_force(parent, 1)
    node.core.set_queries([B], 0.0)
    node.when_covered("narrower")
    assert node.covered == ["narrower"] and node.core.next_timeout() is None


def test_narrower_interest_waits_for_wider_interest_before_it() -> None:
    node = Node()
    parent = node.add_parent("p", 1)
    node.core.set_queries([A, B], 0.0)
    node.core.set_queries([B], 0.0)
    node.when_covered("narrower")
    assert node.covered == [] and interest_epochs(parent) == [1, 2]
    # All of the narrower interest is in the wider one.
    node.put_in_force(parent, 1)
    assert node.covered == ["narrower"]


def test_interest_of_a_root_is_covered_at_once() -> None:
    node = Node(is_root=True)
    node.core.set_queries([A], 0.0)
    node.when_covered("a")
    assert node.covered == ["a"] and node.core.next_timeout() is None


def test_interest_that_no_parent_has_is_covered_after_5_s() -> None:
    node = make_node(10)
    (parent,) = node.connections
    node.core.set_queries([A, B], 100.0)
    node.core.set_queries([A, B, C], 101.0)
    node.when_covered("c")
    assert node.core.next_timeout() == approx(105.0)
    node.core.handle_timeout(104.9)
    assert node.core.covered_epoch == 1
    node.core.handle_timeout(105.0)
    assert node.core.covered_epoch == 2 and node.covered == []
    assert node.core.next_timeout() == approx(106.0)
    node.core.handle_timeout(106.0)
    assert node.core.covered_epoch == 3 and node.covered == ["c"]
    # It counts from the present place on; the parent has not proven that it selects by it.
    assert node.receiver().required.newest == 3 and not node.core.is_proven(parent)


def test_interest_without_parents_is_covered_after_2_s() -> None:
    node = Node()
    node.core.set_queries([A], 100.0)
    node.when_covered("a")
    assert node.core.next_timeout() == approx(102.0)
    node.core.handle_timeout(101.9)
    assert node.covered == []
    node.core.handle_timeout(102.0)
    assert node.covered == ["a"] and node.core.next_timeout() is None


# ------------------------------------------------------------------ places of an epoch


def test_wider_interest_counts_behind_the_an_of_its_first_parent() -> None:
    node = make_node(10, 10)
    first, second = node.connections
    node.core.set_queries([A, B], 0.0)
    assert node.receiver().required.newest == 1
    node.put_in_force(first, 2, 30)
    required = node.receiver().required
    assert (required.epoch_at(30), required.epoch_at(31)) == (1, 2)
    assert node.core.is_proven(first) and not node.core.is_proven(second)
    # The other parent has it later: nothing new is required.
    node.put_in_force(second, 2, 40)
    assert (required.epoch_at(30), required.epoch_at(31)) == (1, 2)
    assert not node.core.is_proven(second)


def test_a_range_that_came_before_its_query_was_stated_is_not_left_to_the_log() -> None:
    node = make_node(20)
    (parent,) = node.connections
    node.core.set_queries([A, B], 0.0)
    # It is of the new query already, and a range before it was lost.
    assert node.give(parent, 25, 30, 27) == []
    node.put_in_force(parent, 2, 20)
    assert node.take_delivered() == []
    assert node.receiver().current == 20 and node.receiver().passed == 0


def test_a_sequence_that_is_not_listed_counts_from_its_begin() -> None:
    """Its first packet has overtaken the statement of the parent."""
    node = make_node(10)
    (parent,) = node.connections
    node.core.set_queries([A, B], 0.0)
    parent.open_sequence(SequenceStart(2, OTHER, 40), 0.0)
    assert node.receiver(OTHER).current == 40
    node.put_in_force(parent, 2, 30)
    assert node.core.covered_epoch == 2 and node.core.is_proven(parent)
    assert node.receiver(OTHER).required.epoch_at(41) == 2
    assert node.receiver(OTHER).passed == 0


def test_a_sequence_that_was_opened_before_the_first_statement_counts() -> None:
    node = Node()
    node.core.set_queries([A], 0.0)
    parent = node.add_parent("p", 1)
    parent.open_sequence(SequenceStart(1, DESCRIPTION, 10), 0.0)
    node.put_in_force(parent, 1)
    assert node.give(parent, 10, 20, 15) == [(10, 20, [15])]
    assert node.core.is_proven(parent)


def test_a_new_sequence_begins_with_the_required_epoch() -> None:
    node = make_node(10)
    (parent,) = node.connections
    parent.open_sequence(SequenceStart(2, OTHER, 40), 0.0)
    assert node.receiver(OTHER).required.epoch_at(41) == 1
    assert node.core.is_proven(parent) and len(node.sequences) == 2


def test_a_root_opens_no_sequence_of_others() -> None:
    node = Node(is_root=True)
    parent = node.add_parent("p", 1)
    parent.open_sequence(SequenceStart(1, DESCRIPTION, 10), 0.0)
    assert len(node.sequences) == 0


# ------------------------------------------------------------------ end of a parent


def test_a_range_that_only_a_removed_parent_had_is_passed() -> None:
    node = make_node(10, 20)
    first, second = node.connections
    # The second parent has nothing before AN 20.
    assert node.give(second, 20, 30, 25) == []
    node.core.remove(first, 0.0)
    assert node.take_delivered() == [(20, 30, [25])] and node.receiver().passed == 1
    assert first not in node.core and first not in node.core.paths and len(node.core) == 1
    node.core.remove(first, 0.0)
    assert node.core.get(first) is None


# ------------------------------------------------------------------ time


def test_a_missing_range_is_requested_of_all_parents() -> None:
    node = make_node(10, 10)
    first, second = node.connections
    assert node.give(first, 15, 20, 17, now=1.0) == []
    assert node.core.next_timeout() == approx(1.05)
    node.core.handle_timeout(1.05)
    assert first.nacks == second.nacks == [(KEY, Nack(10, [(15, 20)]))]
    # The patience is 2 s.
    node.core.handle_timeout(3.0)
    assert node.take_delivered() == [(15, 20, [17])]


def test_silent_parents_are_probed() -> None:
    node = make_node(10, 10)
    first, second = node.connections
    first.liveness.record_received(1.0)
    second.liveness.record_received(0.8)
    node.core.probe_silent(1.04)
    assert (first.probes, second.probes) == (0, 0)
    node.core.probe_silent(1.2)
    assert (first.probes, second.probes) == (0, 1)
