"""A member that names the events of another node as lost, over real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from broker.client.asyncio_face import connect
from broker.client.received import ReceivedEvent
from tests.security.keyed_cluster import make_keyed_cluster
from tests.system.network_nodes import run_nodes
from tests.system.traffic import FLIGHT, ask_status, checked_bystander, flight, run_within

pytestmark = pytest.mark.system

EVENTS: Final = 30
#: Each second `n3` reports to `n2` that the log of `n1` is lost, and that its events are in no log.
_LIAR: Final = """
from broker.cluster.network import Network
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import LogLost

tick = Network.tick

def lie(network):
    tick(network)
    state = network.state
    members = {} if state is None else state.map.members()
    if not {"n1", "n2"} <= members.keys():
        return
    victim, target = members["n1"], members["n2"].address
    upto = (2**32 - 1, 1_000_000)
    span = Range(target, (0, 0), upto, unavailable_upto=upto)
    for source in (victim.address, state.address):
        network.driver.send_routed(LogLost(target, source, 9, victim.origin, None))
        network.driver.send_frame(make_page_frame(victim.origin, source, [span], []))

Network.tick = lie
"""


def test_false_reports_of_a_member_lose_no_event(tmp_path: Path) -> None:
    nodes = make_keyed_cluster(tmp_path, ("", "", _LIAR))

    async def work() -> None:
        async with (
            checked_bystander(nodes[1].endpoint),
            connect(nodes[0].endpoint, client_id="p") as publisher,
            connect(nodes[1].endpoint, client_id="s") as subscriber,
        ):
            subscription = await subscriber.subscribe()
            received = aiter(subscription)
            sent, left = 0, EVENTS
            forged: dict[str, int] = {}
            while left:
                await publisher.publish("a", flight(sent), FLIGHT)
                event = await anext(received)
                assert isinstance(event, ReceivedEvent), "a gap"
                sent += 1
                assert event.event_id.sequence_number == sent
                if forged:
                    left -= 1
                elif sent % EVENTS == 0:
                    forged = (await subscriber.ask("status"))["network"]["forged"]
        network = (await ask_status(nodes[1].endpoint))["network"]
        assert set(network["forged"]) == {"n3"} and network["gone"] == {}

    links = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)]
    with run_nodes(nodes, links):
        run_within(work(), 60.0)
