"""Tags of links: each datagram counts once, by the key of its direction and epoch (T41)."""

from __future__ import annotations

from random import Random

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from broker.transport.arq import link_mac
from broker.transport.arq.link_mac import EPOCH_SECONDS, REPLAY_WINDOW, LinkKeys, LinkMac
from tests.seeds import seeds

CONTENTS = b"some contents"


def ends() -> tuple[LinkMac, LinkMac]:
    return LinkMac(b"a" * 32, b"b" * 32, 0.0), LinkMac(b"b" * 32, b"a" * 32, 0.0)


@pytest.fixture
def short_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_mac, "EPOCH_DATAGRAMS", 40)


def test_a_datagram_counts_once_and_only_at_the_other_end() -> None:
    here, there = ends()
    datagram = here.add_tag(CONTENTS)
    assert here.remove_tag(datagram) is None
    assert there.remove_tag(datagram) == CONTENTS
    assert there.remove_tag(datagram) is None
    assert (here.replayed, there.replayed) == (0, 1)


def test_no_two_datagrams_are_equal() -> None:
    here, there = ends()
    assert here.add_tag(b"") != here.add_tag(b"")
    assert there.remove_tag(here.add_tag(b"")) == b""


def test_each_flipped_bit_and_each_truncation_is_noticed() -> None:
    here, there = ends()
    datagram = here.add_tag(CONTENTS)
    for place in range(len(datagram) * 8):
        damaged = bytearray(datagram)
        damaged[place // 8] ^= 1 << place % 8
        assert there.remove_tag(bytes(damaged)) is None
    for size in range(len(datagram)):
        assert there.remove_tag(datagram[:size]) is None
        assert there.remove_tag(datagram[-size:] if size else b"") is None
    # None of them has moved the window.
    assert there.replayed == 0
    assert there.remove_tag(datagram) == CONTENTS


@pytest.mark.parametrize("late", [1, REPLAY_WINDOW - 1, REPLAY_WINDOW, 3 * REPLAY_WINDOW])
def test_a_late_datagram_counts_within_the_window(late: int) -> None:
    here, there = ends()
    first = here.add_tag(CONTENTS)
    for _ in range(late):
        last = here.add_tag(CONTENTS)
    assert there.remove_tag(last) == CONTENTS
    assert there.remove_tag(first) == (CONTENTS if late < REPLAY_WINDOW else None)
    assert there.remove_tag(first) is None


@pytest.mark.usefixtures("short_epochs")
@pytest.mark.parametrize("seed", seeds(5, 200))
def test_keys_rotate_without_loss_whatever_is_lost_repeated_and_reordered(seed: int) -> None:
    random = Random(seed)
    here, there = ends()
    on_the_way: list[tuple[float, bytes]] = []
    lost = random.choice([0.0, 0.3])
    expected = []
    for number in range(1000):
        # Datagrams of two epochs before are too late.
        at = number + random.uniform(0, random.choice([0, 20]))
        datagram = here.add_tag(b"%d" % number)
        if random.random() >= lost:
            expected.append(b"%d" % number)
            on_the_way += [(at, datagram)] * random.choice([1, 1, 2])
        here.rotate(EPOCH_SECONDS * number / 30)
    came = [there.remove_tag(each) for _, each in sorted(on_the_way, key=lambda each: each[0])]
    found = [each for each in came if each is not None]
    assert len(set(found)) == len(found)
    assert sorted(found) == sorted(expected)
    assert there.replayed == len(on_the_way) - len(expected)
    assert there.epochs[1] >= 20


@pytest.mark.usefixtures("short_epochs")
def test_a_datagram_by_an_old_key_is_dropped() -> None:
    here, there = ends()
    recorded = [here.add_tag(CONTENTS) for _ in range(120)]
    # Its counter has not come, but its key is two epochs old.
    assert there.remove_tag(recorded[100]) == CONTENTS
    assert there.epochs[1] == 2
    assert there.remove_tag(recorded[50]) is None
    assert there.remove_tag(recorded[101]) == CONTENTS


@pytest.mark.usefixtures("short_epochs")
def test_forged_datagrams_of_later_epochs_change_nothing() -> None:
    here, there = ends()
    stranger = LinkMac(b"c" * 32, b"a" * 32, 0.0)
    for _ in range(5000):
        assert there.remove_tag(stranger.add_tag(CONTENTS)) is None
    assert there.epochs == (0, 0)
    assert there.remove_tag(here.add_tag(CONTENTS)) == CONTENTS


def test_the_key_changes_with_time_if_there_are_datagrams() -> None:
    here, there = ends()
    here.rotate(EPOCH_SECONDS)
    assert here.epochs[0] == 0
    before = here.add_tag(CONTENTS)
    here.rotate(2 * EPOCH_SECONDS - 1)
    assert here.epochs[0] == 0
    here.rotate(2 * EPOCH_SECONDS)
    assert here.epochs[0] == 1
    assert there.remove_tag(here.add_tag(CONTENTS)) == CONTENTS
    assert there.remove_tag(before) == CONTENTS


def test_an_outage_of_many_epochs_is_bridged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_mac, "EPOCH_DATAGRAMS", 2)
    here, there = ends()
    for _ in range(500):
        here.add_tag(CONTENTS)
    assert there.remove_tag(here.add_tag(CONTENTS)) == CONTENTS


def test_keys_differ_by_secret_and_transcript() -> None:
    here, there = (X25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
    public = there.public_key().public_bytes_raw()
    found = [
        LinkKeys.derive(here, public, secret, transcript)
        for secret in (b"", b"one", b"two")
        for transcript in (b"", b"x")
    ]
    keys = [(each.accept, each.from_client, each.from_server, each.binding) for each in found]
    assert len({key for each in keys for key in each}) == 4 * len(found)
    other = LinkKeys.derive(there, here.public_key().public_bytes_raw(), b"one", b"x")
    assert other == found[3]
