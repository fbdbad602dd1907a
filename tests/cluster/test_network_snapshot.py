from __future__ import annotations

import json

import msgpack
from prometheus_client.core import Metric

from broker.cluster.metrics import network_metrics
from broker.cluster.network_snapshot import network_snapshot
from broker.event.envelope import EventType
from broker.testing.simulated_network import NetworkWorld

FLIGHT = EventType("flight", "1.0")
PAYLOAD = (
    b'<flight><id>UAL1</id><flightleg status="active"><speed type="ground">512</speed>'
    b'<altitude type="reported" mode="plain">300</altitude>'
    b"<coordinate><lat>4928N</lat><lon>12003W</lon></coordinate></flightleg></flight>"
)
EVENTS = 5
#: Virtual seconds until nodes are linked, interest is active, and losses are repaired.
QUIET = 20.0


def two_clusters() -> NetworkWorld:
    """Start a1 and a2 in `alps`, and c1 in `coast` behind a2; events have gone from a1 to c1."""
    world = NetworkWorld(seed=1)
    world.add("a1", "alps")
    world.add("a2", join=("a1",))
    world.add("c1", "coast", gateways=("a2",))
    world.run(QUIET)
    subscriber, publisher = world.client("s", "c1"), world.client("p", "a1")
    subscription = world.wait(subscriber.subscribe("true()"))
    world.wait(subscription.flowing)
    for _ in range(EVENTS):
        world.wait(publisher.publish("flights", PAYLOAD, FLIGHT))
    world.run(QUIET)
    return world


def samples(metrics: list[Metric]) -> dict[tuple[str, ...], float]:
    """Return samples by name and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics
        for sample in metric.samples
    }


def test_a_snapshot_has_address_links_and_counts() -> None:
    with two_clusters() as world:
        said = {name: network_snapshot("test", world.network_of(name)) for name in world.names}
        for each in said.values():
            assert msgpack.unpackb(msgpack.packb(each)) == json.loads(json.dumps(each))
        a1, a2, c1 = said["a1"], said["a2"], said["c1"]
        assert (a1["name"], a1["address"], a1["leader"]) == ("test", "alps/a1", "a1")
        assert (a1["leads"], a2["leads"], c1["leads"]) == (["alps"], [], ["coast"])
        here = [{"node": n, "reachable": True, "draining": False} for n in ("a1", "a2")]
        assert a1["members"] == a2["members"] == here
        gateway = {"near": "alps/a2", "far": "coast/c1", "cost": 1}
        coast = {"unit": "coast", "wants_known": True, "next_hop": "a2", "gateways": [gateway]}
        assert a1["units"] == [coast]
        assert a1["wants"]["installed"] == {"coast": 1}
        assert c1["profile"]["wants"] == 1 and c1["profile"]["version"] > 0
        assert c1["relayed"]["received"] == c1["relayed"]["logged"] == EVENTS
        assert a2["relayed"]["received"] == 0 and a2["frames"]["transit"] >= EVENTS
        assert a1["frames"]["begun"] >= EVENTS and a1["frames"]["stuck"] == 0
        assert c1["arrivals"]["taken"] >= EVENTS and c1["arrivals"]["waiting"] == 0
        (link,) = c1["links"]
        assert (link["address"], link["transport"], link["up"]) == ("alps/a2", "tcp", True)
        assert link["received_bytes"] > EVENTS * len(PAYLOAD)
        assert link["corrections"] is None
        assert a1["tables"]["authors"] == 3 and a1["tables"]["bytes"] > 0
        assert a1["denied"] == 0


def test_metrics_equal_the_snapshot() -> None:
    with two_clusters() as world:
        said = network_snapshot("test", world.network_of("a2"))
        found = samples(list(network_metrics(said)))
        assert found["xmlbroker_link_up", "c1", "tcp"] == 1
        links = {link["node"]: link for link in said["links"]}
        assert (
            found["xmlbroker_link_bytes_total", "a1", "received"] == (links["a1"]["received_bytes"])
        )
        assert found["xmlbroker_frames_total", "transit"] == said["frames"]["transit"]
        assert found["xmlbroker_network_members", "reachable"] == 2
        assert found["xmlbroker_network_units",] == 1
        assert found["xmlbroker_relayed_events_total", "not-taken"] == 0
        assert found["xmlbroker_tables_bytes",] == said["tables"]["bytes"]


def test_a_dead_node_has_no_link_and_is_unreachable() -> None:
    with two_clusters() as world:
        world.kill("a2")
        world.run(QUIET)
        said = network_snapshot("test", world.network_of("a1"))
        assert said["links"] == [] and said["units"] == []
        gone = {"node": "a2", "reachable": False, "draining": False}
        assert [member for member in said["members"] if member["node"] == "a2"] in ([gone], [])
        found = samples(list(network_metrics(said)))
        assert not any(name == "xmlbroker_link_up" for name, *_ in found)


def test_a_node_without_a_cluster_has_no_address() -> None:
    with NetworkWorld(seed=1) as world:
        world.add("a1", join=("nobody",))
        world.run(1.0)
        said = network_snapshot("test", world.network_of("a1"))
        assert said["address"] is None and said["links"] == []
        names = {name for name, *_ in samples(list(network_metrics(said)))}
        assert "xmlbroker_interest_queries" in names
        assert "xmlbroker_network_units" not in names


def test_an_admitted_node_keeps_its_connection_and_makes_no_other() -> None:
    world = NetworkWorld(seed=1)
    with world:
        world.add("a1", "alps")
        world.add("a2", join=("a1",))
        world.run(QUIET)
        for name in ("a1", "a2"):
            (link,) = network_snapshot("test", world.network_of(name))["links"]
            assert link["up"]
            assert link["reconnections"] == 0
