"""Connections over datagrams with the secret of a network: strangers change none (T41)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from twisted.internet.error import TimeoutError

from broker.errors import AuthenticationFailed, VersionMismatch
from broker.testing.datagram_network import Address, DatagramFaults
from broker.transport.arq import ArqSettings, link_mac, wire
from broker.transport.arq.handshake import UNKEYED_MAC, LinkSecret
from broker.transport.arq.link_mac import LinkMac
from tests.transport.arq.datagram_pair import HERE, THERE, Pair, User

SECRET = LinkSecret(b"the secret of the network", allows_old=False)
UPGRADING = LinkSecret(SECRET.secret, allows_old=True)
STRANGER = ("stranger", 3)


class Tap:
    """Datagrams that an observer of the path has recorded, by direction."""

    def __init__(self, pair: Pair) -> None:
        self.carried: list[tuple[bytes, Address, Address]] = []
        pair.network.filter = self._record
        self._pair = pair

    def _record(self, datagram: bytes, source: Address, target: Address) -> bool:
        self.carried.append((datagram, source, target))
        return True

    def send_again(
        self, change: Callable[[bytes], bytes] = bytes, *, reflected: bool = False
    ) -> int:
        """Send all from their own sources, or back to them; return the number."""
        recorded = list(self.carried)
        for datagram, source, target in recorded:
            to, by = (source, target) if reflected else (target, source)
            self._pair.network.send_datagram(change(datagram), by, to)
        self._pair.run(lambda: False, 0.5)
        return len(recorded)


def secure(seed: int = 0, **options: object) -> Pair:
    return Pair(seed, secrets=(SECRET, SECRET), **options)  # type: ignore[arg-type]


def counts(user: User) -> tuple[int, int]:
    counters = user.core.counters
    return counters.forged, counters.replayed


def talk(pair: Pair, here: User, there: User, text: bytes) -> None:
    here.channel.send([text])
    there.channel.send([text])
    pair.run(lambda: here.packets[-1:] == there.packets[-1:] == [text], 5.0)
    assert here.packets[-1:] == there.packets[-1:] == [text]


@pytest.mark.parametrize("change", [bytes, lambda datagram: datagram[:-1]])
@pytest.mark.parametrize("reflected", [False, True])
def test_recorded_datagrams_have_no_effect(
    change: Callable[[bytes], bytes], reflected: bool
) -> None:
    pair = secure()
    tap = Tap(pair)
    here, there = (User(channel) for channel in pair.connected())
    talk(pair, here, there, b"one")
    sent = [wire.sent for wire in pair.wires]
    before = here.core.sender.round_trip.smoothed, len(tap.carried)
    assert tap.send_again(change, reflected=reflected) == before[1] > 6
    talk(pair, here, there, b"two")
    assert here.packets == there.packets == [b"one", b"two"]
    assert not here.losses + there.losses
    assert len(pair.there._channels) == len(pair.here._channels) == 1
    # COOKIEs and an ACCEPT at most, each shorter than its request.
    assert [wire.sent - earlier < 12 for wire, earlier in zip(pair.wires, sent, strict=True)]
    dropped = [counts(each) for each in (here, there)]
    if change is bytes and not reflected:
        assert all(replayed >= 2 and not forged for forged, replayed in dropped)
    elif not reflected:
        assert all(forged >= 2 and not replayed for forged, replayed in dropped)


def test_a_recorded_end_of_an_earlier_connection_ends_no_later_one() -> None:
    pair = secure()
    tap = Tap(pair)
    here, there = (User(channel) for channel in pair.connected())
    talk(pair, here, there, b"one")
    here.channel.close()
    pair.run(lambda: bool(here.losses and there.losses), 5.0)
    earlier = list(tap.carried)
    pair.accepted.clear()
    pair.dialled.clear()
    here, there = (User(channel) for channel in pair.connected())
    tap.carried = earlier
    tap.send_again()
    talk(pair, here, there, b"two")
    assert there.packets == [b"two"] and not here.losses + there.losses


def test_a_listener_that_has_begun_again_takes_no_recorded_datagram() -> None:
    pair = secure()
    tap = Tap(pair)
    here, there = (User(channel) for channel in pair.connected())
    talk(pair, here, there, b"one")
    pair.there.stop()
    pair.there = pair.endpoint(THERE, SECRET)
    pair.accepted.clear()
    tap.send_again()
    assert not pair.accepted and not pair.there._channels
    # The old cookie belongs to the listener's earlier life.
    assert pair.there.counts.bad_cookies >= 1
    here, there = (User(channel) for channel in pair.connected())
    talk(pair, here, there, b"two")
    assert there.packets == [b"two"]


@pytest.mark.parametrize(
    ("dialling", "listening"),
    [
        (LinkSecret(b"another secret", allows_old=False), SECRET),
        (LinkSecret(), SECRET),
        (SECRET, LinkSecret(b"another secret", allows_old=False)),
    ],
)
def test_an_end_with_another_secret_is_refused_and_stores_nothing(
    dialling: LinkSecret, listening: LinkSecret
) -> None:
    pair = Pair(0, secrets=(dialling, listening))
    pair.dial()
    pair.run(lambda: bool(pair.there._channels), 0.3)
    assert not pair.there._channels and not pair.there._half_open
    pair.run(lambda: bool(pair.failures), 10.0)
    assert pair.failures[0].check(AuthenticationFailed)
    assert pair.there.counts.wrong_secrets >= 1


def test_a_listener_that_does_not_know_the_secret_is_not_believed() -> None:
    pair = Pair(0, secrets=(SECRET, LinkSecret()))
    # An OPEN with an unknown tag is damage to a listener without a secret.
    pair.dial()
    pair.run(lambda: bool(pair.failures), 10.0)
    assert pair.failures[0].check(TimeoutError) and not pair.there._channels


@pytest.mark.parametrize("reason", [wire.Reason.VERSION, wire.Reason.FULL, wire.Reason.SECRET])
def test_a_forged_refusal_does_not_prevent_a_link(reason: wire.Reason) -> None:
    pair = secure()
    outside = pair.network.bind(STRANGER, lambda batch: None)

    def refuse(datagram: bytes, source: Address, target: Address) -> bool:
        kind, client = wire.decode_head(datagram)
        if kind == wire.COOKIE:
            forged = UNKEYED_MAC.add_tag(wire.encode_refuse(client, reason))
            pair.network.filter = lambda *_: True
            pair.network.send_datagram(forged, THERE, HERE)
        return True

    pair.network.filter = refuse
    here, there = (User(channel) for channel in pair.connected())
    talk(pair, here, there, b"hi")
    assert isinstance(here.core._mac, LinkMac)
    assert outside.sent == 0


# ------------------------------------------------------------------ earlier versions


def test_a_node_of_an_earlier_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(0, secrets=(LinkSecret(), SECRET))
    monkeypatch.setattr("broker.transport.arq.handshake.VERSION", wire.OLD_VERSION)
    pair.dial()
    monkeypatch.undo()
    pair.run(lambda: bool(pair.failures), 10.0)
    assert pair.failures[0].check(VersionMismatch)
    assert not pair.there._channels and pair.there.counts.refused >= 1


def test_a_listener_of_an_earlier_version_is_reported_after_the_time_for_answers() -> None:
    pair = secure()

    def answer_as_old(datagram: bytes, source: Address, target: Address) -> bool:
        if wire.decode_head(datagram)[0] != wire.HELLO:
            return True
        client = int.from_bytes(datagram[10:18], "big")
        refusal = wire.encode_refuse(client, wire.Reason.VERSION)
        pair.network.send_datagram(UNKEYED_MAC.add_tag(refusal), THERE, HERE)
        return False

    pair.network.filter = answer_as_old
    pair.dial()
    pair.run(lambda: bool(pair.failures), 10.0)
    assert pair.failures[0].check(VersionMismatch)


@pytest.mark.parametrize("old_end", [0, 1])
def test_an_upgraded_node_links_with_an_earlier_one_if_it_is_allowed(
    monkeypatch: pytest.MonkeyPatch, old_end: int
) -> None:
    pair = Pair(0, secrets=(UPGRADING, UPGRADING))
    if old_end == 0:
        monkeypatch.setattr("broker.transport.arq.handshake.VERSION", wire.OLD_VERSION)
        pair.dial()
        monkeypatch.undo()
    else:
        # The listener refuses version 2, as versions before it did.
        def refuse_new(datagram: bytes, source: Address, target: Address) -> bool:
            if datagram[0] in (wire.HELLO, wire.OPEN) and datagram[9] != wire.OLD_VERSION:
                client = int.from_bytes(datagram[10:18], "big")
                refusal = wire.encode_refuse(client, wire.Reason.VERSION)
                pair.network.send_datagram(UNKEYED_MAC.add_tag(refusal), THERE, HERE)
                return False
            return True

        pair.network.filter = refuse_new
        pair.dial()
    pair.run(lambda: bool(pair.accepted and pair.dialled), 2.0)
    here, there = User(pair.dialled[0]), User(pair.accepted[0])
    talk(pair, here, there, b"hi")
    assert pair.there.counts.old_versions == 1


# ------------------------------------------------------------------ rotation


def test_keys_rotate_on_a_bad_path_without_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_mac, "EPOCH_DATAGRAMS", 64)
    faults = DatagramFaults(loss=0.1, duplication=0.1, corruption=0.05, jitter=0.005)
    pair = secure(3, faults=faults, settings=ArqSettings(datagram_bytes=256, window=64))
    pair.dial()
    pair.run(lambda: bool(pair.accepted and pair.dialled), 10.0)
    packets = [b"%d" % number * 20 for number in range(1500)]
    here, there = User(pair.dialled[0], packets), User(pair.accepted[0])
    pair.run(lambda: len(there.packets) == len(packets), 120.0)
    assert there.packets == packets
    assert not here.losses + there.losses
    mac = here.core._mac
    assert isinstance(mac, LinkMac) and mac.epochs[0] > 5
    assert there.core.counters.replayed > 10 and there.core.counters.forged > 10


def test_a_quiet_connection_changes_its_keys_with_time() -> None:
    pair = secure()
    here, there = (User(channel) for channel in pair.connected())
    pair.run(lambda: False, 3 * link_mac.EPOCH_SECONDS)
    for each in (here, there):
        mac = each.core._mac
        assert isinstance(mac, LinkMac) and min(mac.epochs) >= 2
    talk(pair, here, there, b"after")
