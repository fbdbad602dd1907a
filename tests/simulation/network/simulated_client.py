from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgpack

from broker.errors import BrokerError
from broker.log.logged_event import header_from_fields
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import LogEntries, Reader, name_of, read, read_logs


def settle(
    world: NetworkWorld,
    publishers: Iterable[Publisher],
    readers: Iterable[Reader],
    seconds: float = 5.0,
    seen: LogEntries | None = None,
) -> LogEntries:
    world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
    world.run_until(lambda: all(each.is_flowing or each.error for each in readers))
    read(world, *readers, seconds=seconds)
    logs = read_logs(world, seen)
    for reader in readers:
        reader.check(logs)
    world.check_outcomes()
    return logs


def check_results(publishers: Iterable[Publisher], logs: LogEntries, seed: int) -> None:
    """Each acknowledged event is in the log of an origin."""
    held = {name_of(entry) for log in logs.values() for entry in log}
    for publisher in publishers:
        assert len(publisher.results) == publisher.published, f"seed {seed}"
        for event_id, result in publisher.results:
            assert not isinstance(result, BrokerError), f"{event_id}: {result!r} (seed {seed})"
            name = event_id.client_id, event_id.incarnation, event_id.sequence_number
            assert name in held, f"{event_id} was acknowledged and is nowhere (seed {seed})"


def headers_of(events: Iterable[Any]) -> list[Any]:
    return [header_from_fields(msgpack.unpackb(event.record)) for event in events]
