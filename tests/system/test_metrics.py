from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.client.asyncio_face import connect
from broker.errors import BadQuery, InvalidEvent
from broker.event.envelope import EventType
from broker.streams.queue_policy import POLICY_NAMES
from examples.free_ports import free_port
from tests.system.node_process import NodeProcess
from tests.system.test_full_disk import http_request
from tests.system.traffic import FLIGHT, Inbox, flight, run_within

pytestmark = pytest.mark.system


def metric_values(text: str) -> dict[str, dict[str, float]]:
    """Return samples by name and by the value of the only label."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            label = "".join(sample.labels.values())
            found.setdefault(sample.name, {})[label] = sample.value
    return found


def test_metrics_add_up(tmp_path: Path) -> None:
    port = free_port()

    async def work(node: NodeProcess) -> None:
        async with connect(node.endpoint) as client:
            all_events = Inbox(await client.subscribe("true()", "counted"))
            some = Inbox(await client.subscribe("/flight/flightleg/altitude > 300", "counted"))
            receipts = [
                await client.publish("counted", flight(n, altitude=290 + n), FLIGHT)
                for n in range(20)
            ]
            for _ in range(3):
                with pytest.raises(InvalidEvent):
                    await client.publish("counted", b"<flight/>", FLIGHT)
            with pytest.raises(InvalidEvent):
                await client.publish("counted", b"<x/>", EventType("unheard-of", "1.0"))
            for query in ("/flight[", "//*[//*[//*]]", "]"):
                with pytest.raises(BadQuery):
                    await client.subscribe(query, "counted")
            await client.publish("elsewhere", flight(1), FLIGHT)
            await all_events.wait_for_receipts(receipts)
            await some.wait_for_receipts(receipts[11:])
            status = await client.ask("status")
            page = metric_values((await asyncio.to_thread(http_request, port, "/metrics"))[1])
            published = page["xmlbroker_published_events_total"]
            assert published.pop("accepted") == 21
            assert published.pop("not-valid") == 3
            assert sum(published.values()) == 1
            assert status["published"]["received"] == 25
            refused = {"bad-query": 2, "query-too-expensive": 1}
            assert page["xmlbroker_refused_subscriptions_total"] == refused
            assert status["refused_subscriptions"] == refused
            seen = page["xmlbroker_subscription_events_total"]
            assert seen["delivered"] == 20 + 9
            assert sum(seen.values()) == 2 * 21
            dropped = page["xmlbroker_dropped_events_total"]
            assert dropped == status["dropped_by_policy"] == dict.fromkeys(POLICY_NAMES, 0)
            limits = {each["name"]: each for each in status["limits"]}
            assert page["xmlbroker_limit_bound"] == {n: limits[n]["bound"] for n in limits}
            assert page["xmlbroker_limit_used"].keys() == limits.keys()
            reached = page["xmlbroker_limit_reached_total"]
            assert reached == {name: limits[name]["reached"] for name in limits}
            assert limits["sessions"]["used"] == 1
            assert limits["client-subscriptions"]["used"] == 2
            assert limits["quarantine-files"]["used"] == 4
            assert page["xmlbroker_log_events"] == {"": 21}
            assert page["xmlbroker_sessions"] == {"": 1}
            assert page["xmlbroker_log_failures_total"] == {"": 0}
            assert page["xmlbroker_log_writable"] == {"": 1}
            assert 0 < page["xmlbroker_private_bytes"][""] < 100 << 20
            await all_events.close()
            await some.close()
        # The counters outlive the subscriptions.
        page = metric_values((await asyncio.to_thread(http_request, port, "/metrics"))[1])
        assert sum(page["xmlbroker_subscription_events_total"].values()) == 2 * 21

    configuration = f'[metrics]\nendpoint = "tcp:port={port}:interface=127.0.0.1"\n'
    with NodeProcess(tmp_path, configuration) as node:
        run_within(work(node))
        assert http_request(port, "/health") == (200, "ok\n")
        assert http_request(port, "/ready") == (200, "ready\n")
        assert http_request(port, "/elsewhere")[0] == 404
        assert http_request(port, "/health", method="HEAD") == (200, "")
        assert http_request(port, "/health", method="POST")[0] == 405
        assert "Traceback" not in node.log()
        assert "/metrics" not in node.log()


def test_node_of_a_network_has_network_metrics(tmp_path: Path) -> None:
    port, others = free_port(), free_port()
    configuration = (
        f'[metrics]\nendpoint = "tcp:port={port}:interface=127.0.0.1"\n'
        f'[network]\ncluster = "alps"\nlisten = ["tcp:port={others}:interface=127.0.0.1"]\n'
    )
    with NodeProcess(tmp_path, configuration) as node:
        page = metric_values(http_request(port, "/metrics")[1])
        members = {"reachable": 1, "unreachable": 0, "draining": 0}
        assert page["xmlbroker_network_members"] == members
        assert page["xmlbroker_network_leads"] in ({"": 1}, {"": 0})
        assert page["xmlbroker_frames_total"]["stuck"] == 0
        assert "Traceback" not in node.log()
