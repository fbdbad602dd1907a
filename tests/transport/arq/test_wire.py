from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ConfigurationError, ProtocolError
from broker.transport.arq import ArqSettings, wire
from broker.transport.arq.fragmentation import Fragmenter
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.link_mac import LinkMac
from broker.transport.socket.framing import FrameDecoder

u64 = st.integers(0, 2**64 - 1)
READERS = (
    *(
        wire.decode_data,
        wire.decode_feedback,
        wire.decode_numbered,
        wire.decode_reason,
        wire.decode_ask,
    ),
)


@given(u64, u64, st.integers(0, 2**40), st.binary(min_size=1, max_size=50), st.data())
def test_data_is_read_as_written(
    identity: int, number: int, packet: int, piece: bytes, draw: st.DataObject
) -> None:
    start = draw.draw(st.one_of(st.just(wire.NO_START), st.integers(0, len(piece) - 1)))
    datagram = wire.encode_data(identity, number, start, packet, [piece])
    assert wire.decode_head(datagram) == (wire.DATA, identity)
    assert wire.decode_data(datagram) == wire.Data(number, start, packet % 2**32, piece)
    assert len(datagram) == wire.DATA_OVERHEAD + len(piece)


@given(
    st.integers(0, 2**40),
    st.lists(st.tuples(st.integers(1, 60_000), st.integers(1, 60_000)), max_size=60),
)
def test_feedback_is_read_as_written_up_to_its_most_ranges(
    received: int, ranges: list[tuple[int, int]]
) -> None:
    missing = tuple((received + first, count) for first, count in ranges)
    said = wire.Feedback(received, received + 5, received + 1, 0.25, 7, missing)
    datagram = wire.encode_feedback(9, said)
    read = wire.decode_feedback(datagram)
    assert read.missing == missing[: wire.MAX_RANGES]
    assert (read.received, read.limit, read.highest, read.delay) == (
        *(received, received + 5, received + 1, 0.25),
    )
    assert len(datagram) + LinkMac.overhead <= 256
    question = wire.encode_ask(9, received, missing)
    assert wire.decode_ask(question) == missing[: wire.MAX_RANGES]


@given(st.binary(min_size=wire.MIN_DATAGRAM_BYTES, max_size=80))
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    for read in READERS:
        try:
            read(noise)
        except ProtocolError:
            pass
        else:
            assert wire.decode_head(noise)


@pytest.mark.parametrize(
    "contents",
    [
        wire.encode_data(1, 2, 5, 3, [b"short"]),
        wire.encode_feedback(1, wire.Feedback(5, 4, 5, 0.0, 3)),
        wire.encode_feedback(1, wire.Feedback(5, 9, 4, 0.0, 3)),
        wire.encode_feedback(1, wire.Feedback(5, 9, 5, 0.0, 3, ((5, 1),))),
        wire.encode_feedback(1, wire.Feedback(5, 9, 5, 0.0, 3, ((6, 0),))),
        wire.encode_feedback(1, wire.Feedback(5, 9, 5, 0.0, 3)) + b"more",
    ],
)
def test_contradictory_feedback_is_refused(contents: bytes) -> None:
    read = wire.decode_data if contents[0] == wire.DATA else wire.decode_feedback
    with pytest.raises(ProtocolError):
        read(contents)


@given(st.lists(st.binary(min_size=1, max_size=900), max_size=40), st.integers(100, 400))
def test_packets_are_cut_and_put_together_again_from_any_start(
    packets: list[bytes], room: int
) -> None:
    cutter = Fragmenter(room)
    cutter.add_packets(packets)
    pieces = []
    while cutter:
        start, first, parts = cutter.next_fragment()
        pieces.append((start, first, b"".join(parts)))
    assert cutter.queued_bytes == 0
    assert all(0 < len(piece) <= room for _, _, piece in pieces)
    for place, (start, first, _) in enumerate(pieces):
        if start != wire.NO_START:
            stream = b"".join(piece for _, _, piece in pieces[place:])[start:]
            assert FrameDecoder(1000).feed(stream) == packets[first:]


@pytest.mark.parametrize(
    "settings",
    [
        *({"datagram_bytes": 100}, {"window": 1}, {"ack_delay": 0.0}, {"start_rate": 1.0}),
        *({"liveness": 1.0}, {"tolerated_loss": 2.0}, {"send_buffer_bytes": 0}),
    ],
)
def test_settings_that_can_not_be_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        ArqSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings", [{"datagram_bytes": 100}, {"window": 1}, {"rate": 0.0}, {"liveness": 0.5}]
)
def test_group_settings_that_can_not_be_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError):
        GroupSettings(**settings)  # type: ignore[arg-type]
