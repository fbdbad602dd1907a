from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cluster.replicas.messages import decode_replica_events, encode_replica_events
from broker.errors import ProtocolError
from broker.log.logged_event import LoggedEvent


def events(sizes: list[int]) -> list[LoggedEvent]:
    return [
        LoggedEvent(2, 10 + n, 5, n % 3, b"\x90", b"x" * size, "far", n)
        for n, size in enumerate(sizes)
    ]


@given(st.lists(st.integers(1, 200), max_size=20), st.integers(0, 5))
def test_replicated_events_survive_encoding(sizes: list[int], beyond: int) -> None:
    sent = events(sizes)
    upto = (2, 9 + len(sizes) + beyond)
    batch = decode_replica_events(encode_replica_events((2, 9), upto, sent), "far")
    assert (batch.after, batch.upto) == ((2, 9), upto)
    assert [(e.place, e.document, e.level) for e in batch.events] == [
        (e.place, e.document, e.level) for e in sent
    ]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.data())
def test_altered_bytes_are_rejected_or_decode_to_another_exact_message(
    sizes: list[int], data: st.DataObject
) -> None:
    good = encode_replica_events((2, 9), (2, 9 + len(sizes)), events(sizes))
    place = data.draw(st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[place] ^= data.draw(st.integers(1, 255))
    cut = bytes(bad[: data.draw(st.integers(0, len(good)))])
    for damaged in (bytes(bad), cut):
        try:
            batch = decode_replica_events(damaged, "far")
        except ProtocolError:
            continue
        assert encode_replica_events(batch.after, batch.upto, batch.events)[1:] == damaged[1:]


def test_other_origins_and_descending_places_are_rejected() -> None:
    with pytest.raises(ProtocolError):
        decode_replica_events(encode_replica_events((2, 9), (2, 11), events([1, 1])), "other")
    with pytest.raises(ProtocolError):
        decode_replica_events(encode_replica_events((2, 10), (2, 11), events([1, 1])), "far")
    with pytest.raises(ProtocolError):
        decode_replica_events(encode_replica_events((2, 9), (2, 10), events([1, 1])), "far")
