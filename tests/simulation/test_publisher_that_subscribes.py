from __future__ import annotations

from broker.client.received import Receipt
from broker.event.envelope import EventType
from broker.testing.simulation import World

FLIGHT = b"<flight><id>UAL1</id><flightleg/><!--" + b"x" * 4000 + b"--></flight>"


def test_unread_deliveries_do_not_block_receipts() -> None:
    with World(7) as world:
        client = world.client("both")
        subscription = world.wait(client.subscribe("true()"))
        for _ in range(40):
            receipts = [
                client.publish("own", FLIGHT, EventType("flight", "1.0")) for _ in range(100)
            ]
            assert all(isinstance(world.wait(receipt), Receipt) for receipt in receipts)
        # 16 MB, four times the client's buffer.
        read = 0
        while events := subscription.take_ready():
            read += len(events)
            world.run(0.1)
        assert read == 4000
