"""The datagrams of `docs/protocols/arq.md`, byte by byte: another version must read them."""

from __future__ import annotations

from hashlib import sha256

import pytest

from broker.testing.datagram_network import Address, DatagramNetwork
from broker.transport.arq import FragmentationLayer, MacLayer
from broker.transport.effects import SendDown
from broker.transport.socket.datagram_demultiplexer import derive_tag
from tests.transport.arq.datagram_members import Members
from tests.transport.arq.datagram_pair import Pair, User


def record(network: DatagramNetwork) -> list[bytes]:
    carried: list[bytes] = []

    def carry(datagram: bytes, source: Address, target: Address) -> bool:
        carried.append(datagram)
        return True

    network.filter = carry
    return carried


def digest(carried: list[bytes]) -> str:
    return sha256(b"".join(carried)).hexdigest()


def kinds(carried: list[bytes]) -> list[int]:
    return [datagram[0] for datagram in carried]


def carry_connection() -> list[bytes]:
    """Return the datagrams of a connection with its handshake and end."""
    pair = Pair(1)
    carried = record(pair.network)
    here, there = (User(channel) for channel in pair.connected())
    here.channel.send([b"hi"])
    pair.run(lambda: bool(there.packets), 5.0)
    there.channel.send([bytes(3000), b"last"])
    pair.run(lambda: len(here.packets) == 2, 5.0)
    here.channel.close()
    pair.run(lambda: bool(here.losses and there.losses), 5.0)
    assert kinds(carried) == [1, 2, 3, 4, 8, 7, 6, 6, 6, 6, 6, 9]
    return carried


def test_a_connection_of_version_2() -> None:
    carried = carry_connection()
    assert [len(each) for each in carried[:6]] == [70, 41, 110, 85, 41, 71]
    assert carried[0].hex() == (
        "010000000000000000028c2e0718822ce47ca8c74107e66cb0e4b2b3f4d58d82ca63000004000000"
        "00000000000000000000000000000000000000000000394edcd2274bd74e"
    )
    assert carried[6].hex() == (
        "06fed8b6b8357e44cd000000000000000100000000000000000002686900000000000000015296d1"
        "b0bcb5495980dc5e5a27d13e97"
    )
    assert digest(carried) == "9320b9e24811ad86d76f39d19ac5e065d261cfa6d92f43d59ce6115e68341ae7"


def test_a_connection_of_version_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.transport.arq.handshake.VERSION", 1)
    carried = carry_connection()
    assert carried[0].hex() == (
        "010000000000000000018c2e0718822ce47ca8c74107e66cb0e4b2b3f4d58d82ca63000004000000"
        "000000000000000000000000000000000000000000009760739dba459840"
    )
    assert (
        carried[6].hex()
        == "0686d2c96e760e819b0000000000000001000000000000000000026869777317d660a199b9"
    )
    assert digest(carried) == "adb268f10a706ad223bbfb77edba7ef6e6f3a4bb1d68aa8c559fbbba0aa5ee3e"


def test_a_group_with_a_secret() -> None:
    members = Members(1, "ab", secret=b"secret", wait=False)
    carried = record(members.network)
    members.run(lambda: all(len(each.told) == 1 for each in members.all), 2.0)
    members.all[0].send([b"hi", bytes(3000)])
    members.run(lambda: len(members.all[1].heard["a"]) == 2, 5.0)
    members.stop()
    assert kinds(carried) == [8, 10, 10, 10, 8, 10, 6, 6, 6, 9, 9]
    assert carried[0].hex() == "08cd613e30d8f16adf91b7584a2265b1f517f72d6f05efe262"
    assert digest(carried) == "bb87c16e0f8104ffb08ecb95ca6901732a012d32b325ef20301d187a8fe0d0b0"


def test_packets_of_layers_and_the_tag_of_a_stack() -> None:
    assert derive_tag("radar").hex() == "bdafd238"
    mac = MacLayer(secret=b"secret").create_core()
    assert mac.submit([b"hi"], 0.0) == [SendDown([bytes.fromhex("686951fb733db166601a")])]
    fragmentation = FragmentationLayer(incarnation=7).create_core()
    assert fragmentation.submit([b"hi", b"there"], 0.0) == [
        SendDown(
            [
                bytes.fromhex(
                    "00000000000000070000000000000001000000000000000000026869000000057468657265"
                )
            ]
        )
    ]
