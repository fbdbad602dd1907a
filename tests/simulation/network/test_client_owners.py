"""A ClientId belongs to an account and a key: members do not take it over by themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from broker.client.effects import ResumePoint
from broker.cluster.address import Address
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import RoutedMessage
from broker.errors import NotOwner, SubscriptionHeld
from broker.event.place import Position
from broker.order_certificates.signing_key import SigningKey
from broker.recovery.messages import HandedOver, Release, TakeOver
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader, read
from broker.wire.claim import Claim, ClaimedState, SignedState
from tests.simulation.network.roaming import Roaming, owner_key, refused

KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(Roaming.key_seed))
OLD, NEW, THIRD = (Address(("one",), name) for name in ("old", "new", "third"))
#: Of the client's next process.
TOKEN = b"t" * 16


def check_kept(roaming: Roaming) -> None:
    """The first process still has its session and its subscription at `old`."""
    node = roaming.world["old"]
    durable = node.durables.get("rover", "d")
    assert durable is not None and not durable.moved_to
    assert "rover" in [session.identity.client_id for session in node.acceptor.sessions]
    roaming.publish(5)
    read(roaming.world, *roaming.readers)
    roaming.check()


# ----------------------------------------------------------------------------- the honest client


@pytest.mark.parametrize("restarted", [False, True])
def test_a_client_with_a_key_moves_from_node_to_node(restarted: bool) -> None:
    roaming = Roaming(1)
    world = roaming.world
    assert owner_key(world, "old") == KEY.public.raw
    for here, there in (("old", "new"), ("new", "old")):
        roaming.publish(5)
        roaming.kill_process()
        roaming.publish(5)
        if restarted:
            world.run(1.0)
            world.kill(here)
            world.start(here)
            world.run(5.0)
        roaming.start_process(there)
        world.run(2.0)
        assert owner_key(world, there) == KEY.public.raw
    roaming.publish(5)
    roaming.check()
    assert (refused(world, "old"), refused(world, "new")) == (0, 0)
    # The owner goes with the last subscription.
    assert world["new"].durables.owner_of("rover").key == b""
    world.close()


@pytest.mark.parametrize("must_prove", [False, True])
def test_the_key_counts_while_the_old_node_is_dead(must_prove: bool) -> None:
    roaming = Roaming(1, archived=True)
    world = roaming.world
    handover = world["new"].recovery.handover
    assert handover is not None
    handover._must_prove = must_prove
    roaming.publish(10)
    roaming.kill_process()
    world.run(20.0)
    world.kill("old")
    roaming.publish(5)
    world.run(70.0)
    thief = roaming.start_process("new", key_seed=b"x" * 32)
    world.run(20.0)
    assert isinstance(thief.error, NotOwner)
    world.kill_client(roaming.readers.pop().client)
    returning = roaming.start_process("new")
    world.run(20.0)
    assert returning.is_flowing and handover.unproven == 0
    world.start("old")
    world.run(5.0)
    roaming.publish(5)
    roaming.check()
    world.close()


def test_a_client_signs_again_for_a_node_with_another_address() -> None:
    roaming = Roaming(1)
    world = roaming.world
    roaming.kill_process()
    roaming.publish(5)
    world.add("late", start=False, join=["old"])
    world.cut("late", "old", refuse=True)
    world.start("late")
    rover = world.client("rover", "late", incarnation=2, key_seed=roaming.key_seed)
    world.run(1.0)
    assert rover.welcome is not None and rover.welcome.address == "late"
    world.heal("late", "old")
    world.run(30.0)
    roaming.readers.append(Reader(world, rover, INTERESTS[1], durable="d"))
    world.run(5.0)
    assert rover.welcome.address == "one/late"
    roaming.check()
    world.close()


# ----------------------------------------------------------------------------- a malicious member


def change_requests(world: NetworkWorld, change: Callable[[TakeOver], TakeOver]) -> None:
    handover = world["new"].recovery.handover
    assert handover is not None
    send = handover._messenger.send

    def send_changed(message: RoutedMessage, attempt: int = 0) -> None:
        send(change(message) if isinstance(message, TakeOver) else message, attempt)

    handover._messenger.send = send_changed  # type: ignore[method-assign]


def without_proof(message: TakeOver) -> TakeOver:
    return msgspec.structs.replace(message, account=None, claim=None)


def with_the_public_key(message: TakeOver) -> TakeOver:
    assert message.claim is not None
    return msgspec.structs.replace(
        message, claim=msgspec.structs.replace(message.claim, key=KEY.public.raw)
    )


@pytest.mark.parametrize(
    "change",
    [without_proof, with_the_public_key, lambda message: message],
    ids=["no proof", "a forged proof", "another key"],
)
def test_a_member_needs_the_client_itself(change: Callable[[TakeOver], TakeOver]) -> None:
    roaming = Roaming(1)
    world = roaming.world
    change_requests(world, change)
    thief = roaming.start_process("new", key_seed=b"x" * 32)
    world.run(5.0)
    assert isinstance(thief.error, NotOwner)
    assert refused(world, "old") == 1
    roaming.readers.remove(thief)
    check_kept(roaming)
    world.close()


@pytest.mark.parametrize(
    ("node", "name", "incarnation", "source"),
    [
        ("one/third", "d", 3, NEW),
        ("one/third", "other", 3, THIRD),
        # The session at the old node has a later claim of this process.
        ("one/third", "d", 2, THIRD),
    ],
    ids=["of another node", "of another subscription", "of earlier"],
)
def test_a_proof_can_not_be_replayed(
    node: str, name: str, incarnation: int, source: Address
) -> None:
    roaming = Roaming(1)
    roaming.kill_process()
    roaming.start_process("old")
    roaming.world.run(3.0)
    session = list(roaming.world["old"].acceptor.sessions)[-1]
    claim = ClaimedState("rover", incarnation, session.token, name, node).sign(KEY, 0)
    send_take_over(roaming.world, source, incarnation, session.token, claim)
    roaming.world.run(3.0)
    assert refused(roaming.world, "old") == 1
    check_kept(roaming)
    roaming.world.close()


def test_a_restarted_node_refuses_earlier_proofs() -> None:
    roaming = Roaming(1)
    world = roaming.world
    session = next(iter(world["old"].acceptor.sessions))
    roaming.kill_process()
    world.run(1.0)
    world.kill("old")
    world.start("old")
    world.run(5.0)
    claim = ClaimedState("rover", 1, session.token, "d", str(NEW)).sign(KEY, 0)
    send_take_over(world, NEW, 1, session.token, claim)
    world.run(3.0)
    assert refused(world, "old") == 1
    roaming.start_process("old")
    roaming.publish(5)
    roaming.check()
    world.close()


def state_the_newest_position(world: NetworkWorld, name: str, moved_to: str = "") -> None:
    """Let a member claim that the client has read everything with it."""
    handover = world[name].recovery.handover
    assert handover is not None
    messenger, own = handover._messenger, Address(("one",), name)

    def answer(message: TakeOver) -> None:
        position = Position(dict(world[name].event_log.coverage.marks))
        messenger.send(
            HandedOver(
                *(message.source, own, MAX_HOPS, message.request),
                position=position.to_wire(),
                moved_to=moved_to,
            )
        )

    messenger.add_listener(TakeOver, answer)


@pytest.mark.parametrize("named", [False, True])
def test_a_position_of_a_member_does_not_count_beside_a_proven_one(named: bool) -> None:
    """`named`: the client, or a search, names the member, which names the old node."""
    roaming = Roaming(1)
    world = roaming.world
    world.add("third", "one", join=["old"])
    world.run(3.0)
    other = Reader(world, world.client("other", "third"), INTERESTS[1])
    world.run_until(lambda: other.is_flowing)
    roaming.kill_process()
    roaming.publish(10)
    state_the_newest_position(world, "third", str(OLD) if named else "")
    points = {"d": ResumePoint(Position(), str(THIRD))} if named else {}
    roaming.start_process("new", resume_points=points)
    roaming.check()
    world.close()


def test_alone_it_does_not_count_if_signatures_are_required() -> None:
    with NetworkWorld(1) as world:
        add = partial(world.add, require_signatures=True)
        add("new", "one")
        add("third", "one", join=["new"])
        world.run(3.0)
        state_the_newest_position(world, "third")
        rover = world.client("rover", "new", key_seed=Roaming.key_seed)
        reader = Reader(world, rover, INTERESTS[1], durable="d")
        world.run(10.0)
        assert reader.subscription is not None and reader.is_flowing
        (warning,) = reader.subscription.warnings
        assert "one/third can not prove that this client was there" in warning
        handover = world["new"].recovery.handover
        assert handover is not None and handover.unproven == 1


def test_a_fresh_proof_lets_its_node_have_the_subscription() -> None:
    roaming = Roaming(1)
    world = roaming.world
    claim = ClaimedState("rover", 2, TOKEN, "d", str(NEW)).sign(KEY, 1)
    send_take_over(world, NEW, 2, TOKEN, claim)
    world.run(3.0)
    durable = world["old"].durables.get("rover", "d")
    assert durable is not None and durable.moved_to == str(NEW)
    world.close()


def send_take_over(
    world: NetworkWorld, source: Address, incarnation: int, token: bytes, claim: Claim
) -> None:
    handover = world["new"].recovery.handover
    assert handover is not None
    handover._messenger.send(
        TakeOver(OLD, source, MAX_HOPS, 1, "rover", "d", incarnation, token, None, claim)
    )


def test_a_member_can_not_delete_what_moves_to_another_node() -> None:
    roaming = Roaming(1)
    world = roaming.world
    world.add("third", "one", join=["old"])
    world.run(3.0)
    roaming.kill_process()
    claim = ClaimedState("rover", 2, TOKEN, "d", str(NEW)).sign(KEY, 1)
    send_take_over(world, NEW, 2, TOKEN, claim)
    world.run(3.0)
    handover = world["third"].recovery.handover
    assert handover is not None
    mine = SignedState(ClaimedState("rover", 2, TOKEN, "d", str(THIRD)), claim)
    for signed in (None, mine):
        handover._messenger.send(Release(OLD, NEW, MAX_HOPS, "rover", "d", signed))
    world.run(3.0)
    durable = world["old"].durables.get("rover", "d")
    assert durable is not None and durable.moved_to == str(NEW)
    assert refused(world, "old") == 2
    world.close()


def test_a_session_needs_the_signature_of_its_key() -> None:
    roaming = Roaming(1)
    world = roaming.world
    roaming.kill_process()
    thief = world.client("rover", "old", incarnation=2, key_seed=b"x" * 32)
    make_claim = thief._core.make_claim

    def make_forged(name: str, node: str) -> Claim:
        claim = make_claim(name, node)
        assert claim is not None
        return msgspec.structs.replace(claim, key=KEY.public.raw)

    thief._core.make_claim = make_forged
    reader = Reader(world, thief, INTERESTS[1], durable="d")
    world.run(3.0)
    assert isinstance(reader.error, NotOwner)
    world.close()


def test_a_member_can_not_delete_the_subscription_of_a_client_with_a_key() -> None:
    roaming = Roaming(1)
    world = roaming.world
    asking_client = world.client("asker", "new")
    with pytest.raises(SubscriptionHeld, match="'d' is at one/old: delete it there"):
        world.wait(asking_client.ask("durable-delete", client="rover", name="d"))
    check_kept(roaming)
    roaming.kill_process()
    roaming.start_process("new")
    world.run(1.0)
    # The part that has moved away is deleted.
    answer = world.wait(asking_client.ask("durable-delete", client="rover", name="d"))
    assert answer["here"] and (answer["elsewhere"], answer["kept"]) == (["one/old"], [])
    world.close()


def test_a_client_that_lost_its_key_continues_after_a_reset() -> None:
    roaming = Roaming(1)
    world = roaming.world
    roaming.publish(5)
    roaming.kill_process()
    lost = roaming.start_process("old", key_seed=b"x" * 32)
    world.run(3.0)
    assert isinstance(lost.error, NotOwner)
    admin = world.client("admin", "old")
    assert world.wait(admin.ask("client-reset", client="rover"))["owner_deleted"]
    world.kill_client(roaming.readers.pop().client)
    roaming.publish(5)
    roaming.start_process("old", key_seed=b"x" * 32)
    roaming.check()
    world.close()


# ----------------------------------------------------------------------------- earlier versions


def test_a_client_of_an_earlier_version_has_no_key() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("broker.client.settings.PROTOCOL_VERSIONS", (1, 2, 3, 4, 5, 6))
        roaming = Roaming(1)
        roaming.publish(5)
        roaming.kill_process()
        roaming.start_process("new")
        roaming.publish(5)
        roaming.check()
    world = roaming.world
    assert owner_key(world, "new") == b""
    roaming.kill_process()
    roaming.start_process("new")
    roaming.publish(5)
    roaming.check()
    assert owner_key(world, "new") == KEY.public.raw
    world.close()


@pytest.mark.parametrize("seed", [b"", Roaming.key_seed])
def test_a_node_of_an_earlier_version_takes_over_without_a_key_only(seed: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("broker.cluster.network_factory.PROTOCOL_VERSIONS", (1, 2, 3))
        roaming = Roaming(1, key_seed=seed)
        roaming.publish(5)
        roaming.kill_process()
        moved = roaming.start_process("new")
        roaming.world.run(3.0)
        assert isinstance(moved.error, NotOwner) is bool(seed)
        assert moved.is_flowing is not bool(seed)
        roaming.world.close()
