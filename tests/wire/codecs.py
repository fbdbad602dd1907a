"""Every codec that reads bytes of others: messages of sessions, nodes, child processes and stacks,
datagrams, and rows and manifests of the archive."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, TypeAlias, get_args

import msgpack
import msgspec

from broker.archive import durable_journal
from broker.archive.journal import Page
from broker.archive.manifest import Manifest
from broker.archiver import messages as archiver_messages
from broker.child import input_report
from broker.cluster import messages as cluster_messages
from broker.cluster.discovery import datagram as discovery
from broker.cluster.network_factory import build_network
from broker.cluster.range_check import FrameSource, check_ranges
from broker.cluster.traffic.frame import decode_frame
from broker.cluster.traffic.frame_range import Range
from broker.event import order_entry
from broker.event.envelope import Liveness
from broker.order_certificates import certificate, leaf
from broker.order_certificates.certificate import sign_certificate
from broker.replay import replayer_messages
from broker.scram import ClientFirst, NodeExchange
from broker.streams import ticket
from broker.streams.contract import CarriedEvent
from broker.transport.arq import wire as arq
from broker.transport.monitor import wire as monitor
from broker.transport.multicast import group_datagram
from broker.transport.multicast import wire as multicast
from broker.transport.p2p import wire as p2p
from broker.transport.socket import proxy_header
from broker.wire import event_batch, messages
from broker.wire.codec import Codec
from plugins.dcp import control, event_range, feedback, incoming_sequences, packet
from tests.cluster.traffic.frames import frame, node
from tests.cluster.traffic.test_range_claim import EVENTS, far, signed
from tests.order_certificates.test_certificate import CERTIFICATE, KEY
from tests.order_certificates.test_leaf import LEAF
from tests.scram.test_exchange import FAST, RIGHT
from tests.wire.random_value import RandomValues
from tests.wire.test_event_batch import ENTRY, logged

#: Reads bytes, or raises an error of `broker.errors`.
Decode: TypeAlias = Callable[[bytes], object]
#: Returns bytes that are valid, or nearly.
Sample: TypeAlias = Callable[[Random], bytes]

#: It imports all modules that register messages between nodes.
_imported = build_network


def _of_codec(codec: Codec[Any]) -> Sample:
    kinds = list(codec.by_kind.values())

    def sample(random: Random) -> bytes:
        kind = random.choice(kinds)
        fields = RandomValues(random).message_of(kind)
        packed: bytes = msgpack.packb(fields)
        return bytes([kind.kind]) + packed

    return sample


def _of_structs(*kinds: type[msgspec.Struct]) -> Sample:
    def sample(random: Random) -> bytes:
        kind = random.choice(kinds)
        fields = RandomValues(random).message_of(kind)
        tag = kind.__struct_config__.tag
        packed: bytes = msgpack.packb(fields if tag is None else [tag, *fields])
        return packed

    return sample


def _framed(form: str, *body: Sample) -> Sample:
    """Return random numbers in a struct, and a body behind them."""
    packed = struct.Struct(form)

    def sample(random: Random) -> bytes:
        head = packed.unpack(random.randbytes(packed.size))
        small = [value % 9 if isinstance(value, int) else value for value in head]
        return packed.pack(*small) + b"".join(each(random) for each in body)

    return sample


def _bytes(random: Random) -> bytes:
    return random.randbytes(random.randrange(60))


def _one_of(*samples: bytes) -> Sample:
    return lambda random: random.choice(samples)


def _sign_body(body: bytes) -> bytes:
    """Return a ticket of a hostile member, which has the key."""
    return body + ticket._compute_tag(body, b"k")


def _read_proxy_header(data: bytes) -> None:
    header = proxy_header._split_header(data)
    if header is not None:
        proxy_header._read_source(header)


_SCRAM_FIRST = b"n,,n=alice,r=" + b"n" * 20


def _read_scram(data: bytes) -> None:
    exchange = NodeExchange(ClientFirst.parse(_SCRAM_FIRST), b"", "n" * 20)
    exchange.challenge(FAST)
    exchange.check_response(data, RIGHT.stored)


def _page(random: Random) -> bytes:
    origins = [["aa", [1, random.randrange(9)], [1, 9]]]
    added = {
        "path": "events/a/2026-11-20T07/aa-1-1-4-ff.parquet",
        "partition": "a",
        "hour": "2026-11-20T07",
        "rows": 4,
        "bytes": 9,
        "sha256": "0",
        "levels": [0],
        "spans": {"aa": [[1, 1], [1, 4]]},
        "arrivals": [1, 2],
        "streams": ["a"],
        "types": [["event", "1.0"]],
    }
    body = {
        "at": 1,
        "covers": origins,
        "adds": [added],
        "dtds": [["e", "1.0", "0", 1, 1, "dtds/e/x"]],
    }
    return Page(1, False, body).encode()


def _forged_page(random: Random) -> bytes:
    """Return a page of a hostile writer, with one value of another kind."""
    page = json.loads(_page(random))
    place, key = page, "body"
    while random.random() < 0.8 and isinstance(place[key], dict | list) and place[key]:
        place = place[key]
        key = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
    place[key] = random.choice([None, float("inf"), -1, 1.5, "..", [], [[]], {}, {"a": 1}, True])
    return json.dumps(page).encode()


def _decode_page(data: bytes) -> object:
    return Manifest.from_json(Page.decode(data).body)


def _decode_manifest(data: bytes) -> object:
    """Decode a body whose hash is right: its writer is hostile."""
    try:
        body = json.loads(data)["body"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Manifest.from_json(body) if isinstance(body, dict) else None


def _forged_durables(random: Random) -> bytes:
    change = ["client", "name", "AAAA", 1]
    change[random.randrange(4)] = random.choice([None, float("inf"), -1, "..", [], {}, "ü"])
    return json.dumps({"changes": [change, random.choice([[], change, 1])]}).encode()


def _decode_durables(data: bytes) -> object:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return durable_journal._parse_body(body) if isinstance(body, dict) else None


_START = _of_structs(control.SequenceStart)
_LINK = arq.Feedback(5, 9, 8, 0.1, 3, ((6, 2),))
_FRAME = frame(
    [Range(node("n1"), (1, 0), (1, 2))], [((1, 1), b"<a/>", 0), ((1, 2), b"<b/>", 1)], [(2, (0,))]
)
_STATED_FRAME = signed([far(1), far(2)], EVENTS, [(4, (0, 1))]).restricted_to({0: 1, 1: 2})


def _read_frame(data: bytes) -> None:
    frame = decode_frame(data)
    for span in frame.ranges:
        check_ranges(frame, FrameSource(span.destination, False, False))


_DELIVERY = event_batch.encode_delivery(
    event_batch.encode_events([logged(1, 1), logged(1, 3)]),
    *([(2, (1, 4))], Liveness.LIVE, ("n", 1, 0)),
)
_MESH_EVENTS = b"".join(
    event_range.encode_entry(CarriedEvent((1, an), b"r", b"<d/>")) for an in (6, 9)
)
_PROXY_HEADER = proxy_header.SIGNATURE + b"\x21\x11\0\x0c" + bytes(12)

CODECS: Mapping[str, tuple[Decode, Sample]] = {
    "sessions": (messages.decode, _of_codec(messages.CODEC)),
    "publish": (event_batch.decode_batch, _one_of(event_batch.encode_batch(1, [b"<a/>", b"<b/>"]))),
    "deliver": (event_batch.decode_delivery, _one_of(bytes(_DELIVERY))),
    "cluster": (cluster_messages.decode, _of_codec(cluster_messages.CODEC)),
    "frame": (_read_frame, _one_of(_FRAME.encode(), _STATED_FRAME.encode())),
    "discovery": (
        lambda data: discovery.decode(data, None),
        _one_of(discovery.encode(discovery.Question(bytes(discovery.NONCE_BYTES), "net"), None)),
    ),
    "archiver": (archiver_messages.CODEC.decode, _of_codec(archiver_messages.CODEC)),
    "input": (input_report.CODEC.decode, _of_codec(input_report.CODEC)),
    "replayer": (replayer_messages.CODEC.decode, _of_codec(replayer_messages.CODEC)),
    "order entry": (order_entry.decode_entry_fields, _one_of(ENTRY)),
    "certificate": (
        certificate.decode_certificate,
        _one_of(certificate.encode_certificate(sign_certificate(CERTIFICATE, KEY))),
    ),
    "leaf": (leaf.decode_leaf, _one_of(leaf.encode_leaf(LEAF))),
    "arq data": (arq.decode_data, _one_of(arq.encode_data(1, 2, 0, 3, [b"piece"]))),
    "arq feedback": (arq.decode_feedback, _one_of(arq.encode_feedback(1, _LINK))),
    "arq numbered": (arq.decode_numbered, _one_of(arq.encode_numbered(arq.POLL, 1, 7))),
    "arq reason": (arq.decode_reason, _one_of(arq.encode_bye(1, arq.Reason.DONE))),
    "arq ask": (arq.decode_ask, _one_of(arq.encode_ask(1, 5, [(6, 2)]))),
    "monitor": (monitor.decode, _one_of(monitor.encode(monitor.Offer(1, b"clock")))),
    "multicast": (
        multicast.decode,
        _one_of(
            multicast.encode(multicast.Reference(7)),
            multicast.encode(multicast.Repair(7, b"payload")),
            multicast.encode(multicast.LinkView(bytes(32), 1, ["a", "b"])),
        ),
    ),
    "group datagram": (
        group_datagram.decode_piece,
        _one_of(*group_datagram.encode_body("a", bytes(32), 1, b"payload")),
    ),
    "p2p": (
        p2p.decode_packet,
        _one_of(p2p.encode_ack(5, 9), p2p.encode_ping(5), *p2p.encode_data(1, 2, 9, [b"a", b"b"])),
    ),
    "ticket": (lambda data: ticket.read_ticket(_sign_body(data), b"k"), _of_structs(ticket.Ticket)),
    "mesh control": (control.decode_message, _of_structs(*get_args(control.ControlMessage))),
    "mesh packet": (
        packet.decode,
        _one_of(*(packet.encode(packet.Packet(f, 9, 5, b"body")) for f in (0, 1, 1 << 9))),
    ),
    "mesh range": (lambda data: event_range.decode_range(5, 9, 1, data), _one_of(_MESH_EVENTS)),
    "mesh opening": (
        incoming_sequences.decode_opening,
        lambda random: incoming_sequences.encode_opening(
            _of_structs(control.SequenceStart)(random)
        ),
    ),
    "mesh ends": (feedback.decode_ends, _bytes),
    "mesh nack": (lambda data: feedback.decode_nack(5, data), _framed(">BH", _bytes)),
    "manifest page": (_decode_page, _page),
    "manifest": (_decode_manifest, _forged_page),
    "durables": (_decode_durables, _forged_durables),
    "proxy header": (_read_proxy_header, _one_of(_PROXY_HEADER)),
    "login": (ClientFirst.parse, _one_of(_SCRAM_FIRST)),
    "login response": (_read_scram, _one_of(b"c=biws,r=" + b"n" * 40 + b",p=" + b"A" * 43 + b"=")),
}


def mutate(sample: bytes, random: Random) -> bytes:
    """Return a damaged copy: bits, lengths, cuts, repetitions, or others' bytes."""
    data = bytearray(sample)
    for _ in range(random.choice([0, 1, 1, 2, 5])):
        place = random.randrange(len(data) + 1)
        match random.randrange(6):
            case 0 if place < len(data):
                data[place] ^= 1 << random.randrange(8)
            case 1 if place < len(data):
                data[place] = random.choice([0, 1, 0x7F, 0x80, 0xDC, 0xDD, 0xDF, 0xC6, 0xDB, 0xFF])
            case 2:
                del data[place:]
            case 3:
                data[place:place] = data[: random.randrange(40)]
            case 4:
                data[place : place + 4] = random.choice([b"\xff\xff\xff\xff", b"\0\0\0\0"])
            case _:
                data[place:place] = b"\x91" * random.choice([1, 30, 2000])
    return bytes(data)


def inputs(sample: Sample, random: Random) -> Iterator[bytes]:
    while True:
        yield mutate(sample(random), random) if random.random() < 0.95 else _bytes(random)
