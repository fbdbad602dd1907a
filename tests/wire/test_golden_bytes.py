"""Bytes of the protocols and files, as earlier versions write them. They must not change."""

from __future__ import annotations

from typing import Any

import attrs
import msgpack
import msgspec
import pytest

from broker.cluster import handshake_messages as handshake
from broker.cluster import messages as node_messages
from broker.cluster import network_question, stream_time
from broker.cluster.address import Address
from broker.cluster.descriptor import Endpoint, MulticastGroup, NodeDescriptor
from broker.cluster.discovery import datagram
from broker.cluster.interest.entries import encode_interest, interest_id
from broker.cluster.map.entries import UnitLink
from broker.cluster.messages import (
    CHANGED,
    REMOVED,
    REPLACED,
    Digest,
    Probe,
    Proof,
    Refresh,
    Update,
)
from broker.cluster.replicas import messages as replicas
from broker.cluster.traffic import messages as routed
from broker.cluster.traffic.frame import Frame, decode_frame
from broker.cluster.traffic.frame_range import Range
from broker.errors import BadQuery
from broker.event.place import Position
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import parse_query
from broker.recovery import messages as recovery
from broker.replay.engine.contract import Report
from broker.replay.engine.part_scan import PartSummary
from broker.replay.request import ReplayRequest
from broker.streams.dropped_count import DroppedCount
from broker.subscriptions.durable_subscriptions import DurableSubscription
from broker.tracing.node_trace import TraceQuestion
from broker.wire.claim import Claim, ClaimedState, SignedState

ERROR = BadQuery("an operand is missing", line=1, column=4).to_wire()
C1 = ("alps", "c1")
HERE, THERE = Address(C1, "n1"), Address(("sea",), "n2")
HOPS = (HERE, THERE, 9)
SIGNED = SignedState(
    ClaimedState("alice", 7, b"token", "durable", "alps.c1/n1"),
    Claim(b"k" * 32, 3, True, b"s" * 64),
)
BARE = NodeDescriptor(THERE, "f" * 16, 0, (1,))
NODE = NodeDescriptor(
    *(HERE, "0123456789abcdef01234567", 7, (1, 2), Endpoint("192.0.2.1", 4000)),
    *(Endpoint("2001:db8::1", 4001), MulticastGroup("239.1.2.3", 4002, "eth0"), 1, True),
    *(("zstd", "none"), 1_700_000_000_000),
)
HELLO = handshake.NodeHello("xmlbroker-node", (1, 2), "net", NODE, "member", C1, b"n" * 16)
VALUES = (("a", -7), ("b", b"\x00"), ("c", True), ("d", 1.5), ("e", ("x", (None,))), ("old", None))
CHANGES = (
    ("profile", "n1", CHANGED, VALUES),
    ("node", "n1", REPLACED, (("a", (1 << 64) - 1),)),
    ("flowing", "alps.c1", REMOVED, ()),
)
FRAME = Frame(
    *("origin", HERE, ((0, 1), (2, 1)), 9),
    (
        Range(THERE, (1, 0), (1, 2), None, True, (1, 0), True),
        Range(Address(("sea",), ""), (1, 0), (1, 2), (1, 1)),
    ),
    *(((1, 1, 2),), ((2, (0, 1)),), 0, (2, 1)),
    *((1, 2), b"rrs", b"deE"),
    (3, 1 << 62, (2, 9)),
)
DROPPED = (
    FRAME.ranges[0],
    FRAME.ranges[1]._replace(dropped=(DroppedCount(0, 2, True), DroppedCount(2, 1, False))),
)
REQUEST = ReplayRequest(
    *("a.>", "//x:a", {"x": "urn:x"}, 1, {"a": ((1, 2), None), "b": ((1, 2), (1, 9))}, False),
    *(5, 6, 7, "place", {"a": (1, 3)}, (8, 9)),
)
REPORT = Report(1, 2, 3, 4, 5, 6, {"a": (1, 2)}, (("a", (1, 2), (1, 9)),), ("note",), ERROR)
TRACE = TraceQuestion("alice", 5, 6, 7, b"d" * 32, b"<e/>", "bob", ("origin", 1, 2))
SUMMARY = PartSummary(1, ((0, 5),), ((1, ERROR),), "corrupt", True, 3, ("a",))
DURABLE = DurableSubscription("a.>", "//x:a", {"x": "urn:x"}, Position({"a": (1, 2)}), 5)
INTEREST = StreamInterest(StreamPattern.parse("a.>"), parse_query("//x:a", {"x": "urn:x"}))
LINK = UnitLink("a", "sea", HERE, THERE, 10, 2, Endpoint("h", 4000))

NODE_MESSAGES: list[tuple[Any, str]] = [
    (
        Digest((("n1", C1, 7, 3), ("n2", (), 1, 0)), True, False),
        "50939294a26e3192a4616c7073a26331070394a26e32900100c3c2",
    ),
    (
        Update("n1", C1, ("alps",), 7, 2, 5, 1234, CHANGES, True),
        "5199a26e3192a4616c7073a2633191a4616c7073070205cd04d29394a770726f66696c65a26e3100"
        "9692a161f992a162c4010092a163c392a164cb3ff800000000000092a16592a17891c092a36f6c64"
        "c094a46e6f6465a26e31019192a161cfffffffffffffffff94a7666c6f77696e67a7616c70732e63"
        "310290c3",
    ),
    (
        Refresh("n1", C1, C1, 7, 5, 40, 1500),
        "5297a26e3192a4616c7073a2633192a4616c7073a26331070528cd05dc",
    ),
    (Probe("n1", C1, 7, 5, 9), "5395a26e3192a4616c7073a26331070509"),
    (
        Proof("n1", C1, 7, 9, True, (("origin", 1, 400), ("other", (1 << 32) - 1, (1 << 63) - 1))),
        "5496a26e3192a4616c7073a263310709c39293a66f726967696e01cd019093a56f74686572ceffff"
        "ffffcf7fffffffffffffff",
    ),
    (
        HELLO,
        "4097ae786d6c62726f6b65722d6e6f6465920102a36e65749b9292a4616c7073a26331a26e31b830"
        "31323334353637383961626364656630313233343536370792010292a93139322e302e322e31cd0f"
        "a092ab323030313a6462383a3a31cd0fa193a93233392e312e322e33cd0fa2a46574683001c392a4"
        "7a737464a46e6f6e65cf0000018bcfe56800a66d656d62657292a4616c7073a26331c4106e6e6e6e"
        "6e6e6e6e6e6e6e6e6e6e6e6e",
    ),
    (
        handshake.NodeChallenge(BARE, b"m" * 16),
        "43929b9291a3736561a26e32b066666666666666666666666666666666009101c0c0c002c29000c4"
        "106d6d6d6d6d6d6d6d6d6d6d6d6d6d6d6d",
    ),
    (
        handshake.NodeProof(b"p" * 32),
        "4491c4207070707070707070707070707070707070707070707070707070707070707070",
    ),
    (
        handshake.NodeWelcome(2, BARE, C1, 5, (BARE, NODE), b"p" * 32),
        "4196029b9291a3736561a26e32b066666666666666666666666666666666009101c0c0c002c29000"
        "92a4616c7073a2633105929b9291a3736561a26e32b0666666666666666666666666666666660091"
        "01c0c0c002c290009b9292a4616c7073a26331a26e31b83031323334353637383961626364656630"
        "313233343536370792010292a93139322e302e322e31cd0fa092ab323030313a6462383a3a31cd0f"
        "a193a93233392e312e322e33cd0fa2a46574683001c392a47a737464a46e6f6e65cf0000018bcfe5"
        "6800c4207070707070707070707070707070707070707070707070707070707070707070",
    ),
    (
        handshake.NodeWelcome(1, BARE, (), 0, ()),
        "4196019b9291a3736561a26e32b066666666666666666666666666666666009101c0c0c002c29000"
        "900090c400",
    ),
    (
        handshake.NodeRefuse(ERROR),
        "429394a96261642d7175657279b5616e206f706572616e64206973206d697373696e6701049090",
    ),
    (
        handshake.NodeRefuse(ERROR, C1, (handshake.Alternative(HERE, Endpoint("h", 4000)),)),
        "429394a96261642d7175657279b5616e206f706572616e64206973206d697373696e67010492a461"
        "6c7073a2633191929292a4616c7073a26331a26e3192a168cd0fa0",
    ),
    (
        routed.PageRequest(*HOPS, "origin", (1, 2)),
        "61969292a4616c7073a26331a26e319291a3736561a26e3209a66f726967696e920102c2",
    ),
    (
        routed.PageRequest(*HOPS, "origin", (1, 2), True, ((1, 77, (0, 1)), (2, 5, (1, 9)))),
        "61979292a4616c7073a26331a26e319291a3736561a26e3209a66f726967696e920102c39293014d"
        "920001930205920109",
    ),
    (
        routed.PageRequest(*HOPS, "origin", (1, 2), may_drop=True),
        "61989292a4616c7073a26331a26e319291a3736561a26e3209a66f726967696e920102c290c3",
    ),
    (
        routed.ReplicaAck(*HOPS, "origin", (1, 2)),
        "62959292a4616c7073a26331a26e319291a3736561a26e3209a66f726967696e920102",
    ),
    (
        routed.LogLost(*HOPS, "origin", None),
        "66959292a4616c7073a26331a26e319291a3736561a26e3209a66f726967696ec0",
    ),
    (
        routed.LogLost(*HOPS, "origin", (1, 2)),
        "66959292a4616c7073a26331a26e319291a3736561a26e3209a66f726967696e920102",
    ),
    (
        routed.DtdRequest(*HOPS, "flight", "1.0"),
        "70959292a4616c7073a26331a26e319291a3736561a26e3209a6666c69676874a3312e30",
    ),
    (
        routed.DtdAnswer(*HOPS, "flight", "1.0", ERROR, b"text"),
        "71979292a4616c7073a26331a26e319291a3736561a26e3209a6666c69676874a3312e3094a96261"
        "642d7175657279b5616e206f706572616e64206973206d697373696e670104c40474657874",
    ),
    (replicas.ReplicaRequest("origin"), "6391a66f726967696e"),
    (replicas.ReplicaState("origin", (0, 0), (1, 2)), "6493a66f726967696e920000920102"),
    (
        stream_time.TimeRequest(*HOPS, "origin"),
        "92949292a4616c7073a26331a26e319291a3736561a26e3209a66f726967696e",
    ),
    (
        stream_time.TimeReply(*HOPS, "origin", (1, 2), 1 << 40),
        "93969292a4616c7073a26331a26e319291a3736561a26e3209a66f726967696e920102cf0000010000000000",
    ),
    (
        network_question.Question(*HOPS, 5, "topic", b"content", C1, 3000, 2),
        "90999292a4616c7073a26331a26e319291a3736561a26e320905a5746f706963c407636f6e74656e"
        "7492a4616c7073a26331cd0bb802",
    ),
    (
        network_question.Question(*HOPS, 5, "topic", b"content", None, 3000, 0),
        "90999292a4616c7073a26331a26e319291a3736561a26e320905a5746f706963c407636f6e74656e"
        "74c0cd0bb800",
    ),
    (
        network_question.Reply(*HOPS, 5, (("sea/n2", b"answer"),), ("sea/n3", "alps"), 1),
        "91979292a4616c7073a26331a26e319291a3736561a26e3209059192a67365612f6e32c406616e73"
        "77657292a67365612f6e33a4616c707301",
    ),
    (
        recovery.TakeOver(*HOPS, 5, "alice", "durable", 7, b"token"),
        "80989292a4616c7073a26331a26e319291a3736561a26e320905a5616c696365a764757261626c65"
        "07c405746f6b656e",
    ),
    (
        recovery.TakeOver(
            *HOPS, 5, "alice", "durable", 7, b"token", ("office", "alice"), SIGNED.claim
        ),
        "809a9292a4616c7073a26331a26e319291a3736561a26e320905a5616c696365a764757261626c65"
        "07c405746f6b656e92a66f6666696365a5616c69636594c420" + "6b" * 32 + "03c3c440" + "73" * 64,
    ),
    (
        recovery.HandedOver(*HOPS, 5),
        "81979292a4616c7073a26331a26e319291a3736561a26e32090594a0a00000c0a0",
    ),
    (
        recovery.HandedOver(*HOPS, 5, ERROR, (("a", 1, 2),), "sea/n2"),
        "81979292a4616c7073a26331a26e319291a3736561a26e32090594a96261642d7175657279b5616e"
        "206f706572616e64206973206d697373696e6701049193a1610102a67365612f6e32",
    ),
    (
        recovery.HandedOver(*HOPS, 5, signed=SIGNED),
        "81989292a4616c7073a26331a26e319291a3736561a26e32090594a0a00000c0a0"
        "9295a5616c69636507c405746f6b656ea764757261626c65aa616c70732e63312f6e31"
        "94c420" + "6b" * 32 + "03c3c440" + "73" * 64,
    ),
    (
        recovery.Release(*HOPS, "alice", "durable"),
        "82959292a4616c7073a26331a26e319291a3736561a26e3209a5616c696365a764757261626c65",
    ),
    (
        recovery.Release(*HOPS, "alice", "durable", SIGNED),
        "82969292a4616c7073a26331a26e319291a3736561a26e3209a5616c696365a764757261626c65"
        "9295a5616c69636507c405746f6b656ea764757261626c65aa616c70732e63312f6e31"
        "94c420" + "6b" * 32 + "03c3c440" + "73" * 64,
    ),
    (
        recovery.Released(*HOPS, "alice", "durable"),
        "85959292a4616c7073a26331a26e319291a3736561a26e3209a5616c696365a764757261626c65",
    ),
    (
        recovery.FetchPage(
            *HOPS,
            *(5, "alice", ""),
            *("a.>", "//x:a", {"x": "urn:x"}),
            *(2, (("a", (1, 2), None), ("b", (1, 2), (1, 9))), 0),
        ),
        "839c9292a4616c7073a26331a26e319291a3736561a26e320905a5616c696365a0a3612e3ea52f2f"
        "783a6181a178a575726e3a78029293a161920102c093a16292010292010900",
    ),
    (
        recovery.PageFetched(*HOPS, 5),
        "849b9292a4616c7073a26331a26e319291a3736561a26e32090594a0a000009000009090a0",
    ),
    (
        recovery.PageFetched(*HOPS, 5, ERROR, (("a", 1, 2),), 6, 1, (b"x",), (("b", 1, 2),), "o"),
        "849b9292a4616c7073a26331a26e319291a3736561a26e32090594a96261642d7175657279b5616e"
        "206f706572616e64206973206d697373696e6701049193a1610102060191c401789193a1620102a1"
        "6f",
    ),
    (
        recovery.FindDurables(*HOPS, 5, (("alice", "d"),), C1, 1000),
        "86979292a4616c7073a26331a26e319291a3736561a26e3209059192a5616c696365a16492a4616c"
        "7073a26331cd03e8",
    ),
    (
        recovery.FindDurables(*HOPS, 5, (), None, 1000),
        "86979292a4616c7073a26331a26e319291a3736561a26e32090590c0cd03e8",
    ),
    (
        recovery.DurablesFound(*HOPS, 5, ((0, "sea/n2"),), False),
        "87969292a4616c7073a26331a26e319291a3736561a26e320905919200a67365612f6e32c2",
    ),
]
OTHERS: list[tuple[bytes, str]] = [
    (
        datagram.encode(datagram.Answer(b"n" * 8, "net", HERE, Endpoint("h", 4000), True), b"key"),
        "58424431026e6e6e6e6e6e6e6ebe83295833501a7ba36d7f46107538f194a36e65749292a4616c70"
        "73a26331a26e3192a168cd0fa0c3",
    ),
    (
        datagram.encode(datagram.Answer(b"n" * 8, "net", HERE, Endpoint("h", 4000), False), None),
        "58424431026e6e6e6e6e6e6e6e0000000000000000000000000000000094a36e65749292a4616c70"
        "73a26331a26e3192a168cd0fa0c2",
    ),
    (
        datagram.encode(datagram.Question(b"n" * 8, "net"), None).rstrip(b"\0"),
        "58424431016e6e6e6e6e6e6e6e0000000000000000000000000000000091a36e6574",
    ),
    (
        FRAME.encode(),
        "6000000068000000039ba66f726967696e9292a4616c7073a26331a26e3192920001920201099297"
        "9291a3736561a26e32920100920102c0c3920100c3979291a3736561a0920100920102920101c2c0"
        "c29193010102919202920001009202019201029303cf4000000000000000920209727273646545",
    ),
    (
        attrs.evolve(FRAME, ranges=DROPPED).encode(),
        "6000000071000000039ba66f726967696e9292a4616c7073a26331a26e3192920001920201099297"
        "9291a3736561a26e32920100920102c0c3920100c3989291a3736561a0920100920102920101c2c0"
        "c292930002c3930201c29193010102919202920001009202019201029303cf400000000000000092"
        "0209727273646545",
    ),
    (
        FRAME.encode(1),
        "600000005a000000039aa66f726967696e9292a4616c7073a26331a26e3192920001920201099297"
        "9291a3736561a26e32920100920102c0c3920100c3979291a3736561a0920100920102920101c2c0"
        "c2919301010291920292000100920201920102727273646545",
    ),
    (
        msgpack.packb(NODE.to_plain()),
        "9b9292a4616c7073a26331a26e31b830313233343536373839616263646566303132333435363707"
        "92010292a93139322e302e322e31cd0fa092ab323030313a6462383a3a31cd0fa193a93233392e31"
        "2e322e33cd0fa2a46574683001c392a47a737464a46e6f6e65cf0000018bcfe56800",
    ),
    (
        msgpack.packb(BARE.to_plain()),
        "9b9291a3736561a26e32b066666666666666666666666666666666009101c0c0c002c29000",
    ),
    (
        msgpack.packb(LINK.to_plain()),
        "97a161a3736561aa616c70732e63312f6e31a67365612f6e320a0292a168cd0fa0",
    ),
    (msgpack.packb(encode_interest(INTEREST)), "93a3612e3ea52f2f783a619192a178a575726e3a78"),
    (interest_id(INTEREST).encode(), "366232323034373937346633343931316335353133353533"),
    (
        TRACE.encode(),
        "98a5616c696365050607c42064646464646464646464646464646464646464646464646464646464"
        "64646464c4043c652f3ea3626f6293a66f726967696e0102",
    ),
    (
        msgspec.structs.replace(TRACE, place=None).encode(),
        "98a5616c696365050607c42064646464646464646464646464646464646464646464646464646464"
        "64646464c4043c652f3ea3626f62c0",
    ),
    (
        SUMMARY.to_bytes(),
        "97019192000591920194a96261642d7175657279b5616e206f706572616e64206973206d69737369"
        "6e670104a7636f7272757074c30391a161",
    ),
    (DURABLE.encode(), "98a3612e3ea52f2f783a6181a178a575726e3a789193a161010205c0a0a0"),
    (
        attrs.evolve(
            DURABLE,
            active_from=Position({"b": (1, 9)}),
            previous_address="sea/n2",
            moved_to="alps/n1",
            is_paused=True,
        ).encode(),
        "99a3612e3ea52f2f783a6181a178a575726e3a789193a1610102059193a1620109a67365612f6e32"
        "a7616c70732f6e31c3",
    ),
]


@pytest.mark.parametrize(("message", "data"), NODE_MESSAGES)
def test_messages_between_nodes_have_the_same_bytes(message: Any, data: str) -> None:
    assert node_messages.encode(message).hex() == data
    assert node_messages.decode(bytes.fromhex(data)) == message


@pytest.mark.parametrize(("written", "data"), OTHERS)
def test_other_values_have_the_same_bytes(written: bytes, data: str) -> None:
    assert written.hex() == data


def test_values_of_the_same_bytes_are_read() -> None:
    for frame in (FRAME, attrs.evolve(FRAME, history=None)):
        assert decode_frame(frame.encode()).encode() == frame.encode()
    plain = NODE.to_plain()
    assert NodeDescriptor.from_plain(plain) == NODE
    assert NodeDescriptor.from_plain(msgpack.unpackb(msgpack.packb(plain))) == NODE
    assert TraceQuestion.decode(TRACE.encode()) == TRACE
    assert PartSummary.from_bytes(SUMMARY.to_bytes()) == SUMMARY
    assert DurableSubscription.decode(DURABLE.encode()) == DURABLE
    assert ReplayRequest.from_wire(msgpack.unpackb(msgpack.packb(REQUEST.to_wire()))) == REQUEST
    assert Report.from_wire(msgpack.unpackb(msgpack.packb(REPORT.to_wire()))) == REPORT


def test_the_examples_have_all_messages() -> None:
    kinds = node_messages.CODEC.by_kind.values()
    assert {type(message) for message, _ in NODE_MESSAGES} == set(kinds)
