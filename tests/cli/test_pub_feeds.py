from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from tests.cli.fake_node import FakeNode, run

CAP = "urn:oasis:names:tc:emergency:cap:1.1"
ATOM = "http://www.w3.org/2005/Atom"
KIND = ("--type", "alert", "1.1")


def alert(number: int, text: str = "") -> str:
    return f"<cap:alert><cap:identifier>{number}</cap:identifier>{text}</cap:alert>"


def feed(*alerts: str) -> str:
    entries = "".join(f"<entry><content>{each}</content></entry>\n" for each in alerts)
    return f'<feed xmlns="{ATOM}" xmlns:cap="{CAP}" kind="k"><title>Alerts</title>{entries}</feed>'


def summary(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(text)
    return content


def test_a_collection_is_cut_into_events(tmp_path: Path) -> None:
    node = FakeNode()
    file = tmp_path / "feed.atom"
    file.write_text(feed(alert(1), alert(2)))
    result = run(
        *(node, "pub", "--split", "//cap:alert", "--namespace", f"cap={CAP}", *KIND, str(file)),
        *("--namespace", f"a={ATOM}", "--copy", "summary=/a:feed/a:title"),
        *("--copy", "application-type=/a:feed/@kind"),
    )
    assert result.exit_code == 0, result.output
    assert [each.payload for each in node.published] == [
        alert(n).replace("<cap:alert>", f'<cap:alert xmlns:cap="{CAP}">').encode() for n in (1, 2)
    ]
    assert {each.rest["summary"] for each in node.published} == {"Alerts"}
    assert {each.rest["application_types"] for each in node.published} == {("k",)}


def test_real_alerts_in_a_feed_are_cut_as_they_are(tmp_path: Path, shared_data: Path) -> None:
    alerts = []
    for path in sorted((shared_data / "cap-google").glob("*.cap")):
        try:
            root = etree.parse(path, etree.XMLParser(resolve_entities=False)).getroot()
        except etree.XMLSyntaxError:
            continue
        if not root.getroottree().docinfo.internalDTD:
            alerts.append(etree.tostring(root, encoding="unicode"))
    assert len(alerts) > 10
    file = tmp_path / "feed.atom"
    file.write_text(feed(*alerts))
    node = FakeNode()
    result = run(
        node,
        *("pub", "--split", "//a:content/*", "--namespace", f"a={ATOM}", *KIND, str(file)),
    )
    assert result.exit_code == 0, result.output
    published = [(each.payload or b"").decode() for each in node.published]
    assert [etree.canonicalize(each) for each in published] == [
        etree.canonicalize(each) for each in alerts
    ]


MISTAKES = (
    (("--split", "//cap:alert"), "the prefix cap is not bound: give --namespace cap=URI"),
    (("--split", "//alert[1]"), "--split //alert[1]: column 9 can not be decided at a start tag"),
    (("--split", "alert"), "--split alert: give a path from the root, such as //cap:alert"),
    (("--split", "//alert["), "--split //alert[: expected an operand"),
    (("--copy", "summary=/a"), "--copy needs --split"),
    (("--split", "//a", "--copy", "title=/a"), "--copy title=/a: give summary=PATH or"),
    (("--split", "//a", *("--copy", "summary=/a") * 2), "an envelope has one summary"),
    (("--namespace", "a=b"), "--namespace needs --split, --id or --time"),
    (("--id", "p:a"), "--id p:a: the prefix p is not bound: give --namespace p=URI"),
    (("--id", "a["), "--id a[: expected an operand"),
    (("--id", "$ClientId"), "it sees only the payload, not the envelope"),
    (("--time", "p:a"), "--time p:a: the prefix p is not bound: give --namespace p=URI"),
    (("--time", "a["), "--time a[: expected an operand"),
    (("--time", "$ClientId"), "it sees only the payload, not the envelope"),
    (("--changed",), "--changed needs --id"),
    (("--published", "t.db"), "--published and --published-max need --id, --watch or --every"),
    (("--watch",), "--watch: feed.xml is not a folder"),
    (("--watch", "--every", "5s"), "--watch and --every exclude each other"),
    (("--watch", "--dry-run"), "--dry-run excludes --watch and --every"),
    (("--every", "5s"), "--every: feed.xml: it is not an address such as https://example.org/"),
    (("--every", "1ms"), "'1ms' is not from 1s to 7d"),
    (("--every", "often"), "'often': it is not a number and one unit of ms, s, m, h, d"),
    (("https://example.org/feed",), "https://example.org/feed: give --every 60s to fetch it"),
)


@pytest.mark.parametrize(("options", "message"), MISTAKES, ids=[each[1] for each in MISTAKES])
def test_a_mistake_is_a_usage_error(options: tuple[str, ...], message: str) -> None:
    node = FakeNode()
    result = run(node, "pub", *options, "feed.xml")
    assert (result.exit_code, node.connections) == (2, [])
    assert message in result.stderr


def test_a_feed_without_a_match_is_refused_with_a_hint(tmp_path: Path) -> None:
    file = tmp_path / "feed.atom"
    file.write_text(feed(alert(1)))
    result = run(FakeNode(), "pub", "--split", "//alert", *KIND, str(file))
    assert result.exit_code == 1
    assert f"nothing matches --split //alert: alert occurs in the namespace {CAP}" in result.stderr


def test_json_lines_are_not_cut() -> None:
    result = run(FakeNode(), "pub", "--split", "//a", "-", stdin='{"payload": "<a/>"}')
    assert result.stderr == "stdin:1: --split cuts XML, and this is JSON\n"


SPLIT = ("--split", "//cap:alert", "--namespace", f"cap={CAP}", "--id", "cap:identifier", *KIND)


def test_a_feed_that_is_fetched_twice_gives_each_event_once(tmp_path: Path) -> None:
    file = tmp_path / "feed.atom"
    node = FakeNode()
    counts = []
    for alerts in ((1, 2), (1, 2), (2, 3)):
        file.write_text(feed(*map(alert, alerts)))
        result = run(node, "pub", *SPLIT, str(file), XDG_STATE_HOME=str(tmp_path))
        assert result.exit_code == 0, result.output
        counts.append((summary(result.stdout)["known"], summary(result.stdout)["durable"]))
    assert counts == [(0, 2), (2, 0), (1, 1)]
    # Another node has its own table.
    result = run(node, "pub", *SPLIT, str(file), "--node", "tcp:b:1", XDG_STATE_HOME=str(tmp_path))
    assert summary(result.stdout)["durable"] == 2
    assert len(list((tmp_path / "xmlbroker" / "published").glob("alert-1-1-*.db"))) == 2


def test_a_changed_event_is_published_again_on_request(tmp_path: Path) -> None:
    file = tmp_path / "feed.atom"
    table = ("--published", str(tmp_path / "t.db"))
    node = FakeNode()
    for text, durable in (("x", 1), ("x", 0), ("y", 1)):
        file.write_text(feed(alert(1, text)))
        result = run(node, "pub", *SPLIT, "--changed", *table, str(file))
        assert summary(result.stdout)["durable"] == durable
    file.write_text(feed(alert(1, "z")))
    assert summary(run(node, "pub", *SPLIT, *table, str(file)).stdout)["durable"] == 1
    file.write_text(feed(alert(1, "w")))
    assert summary(run(node, "pub", *SPLIT, *table, str(file)).stdout)["durable"] == 0


def test_a_dry_run_records_nothing(tmp_path: Path) -> None:
    file = tmp_path / "feed.atom"
    file.write_text(feed(alert(1), "<cap:alert/>"))
    result = run(FakeNode(), "pub", *SPLIT, "--dry-run", str(file), XDG_STATE_HOME=str(tmp_path))
    assert f"{file}:2: --id cap:identifier has no value in this event" in result.stderr
    assert list(tmp_path.iterdir()) == [file]


def test_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "t.db").write_text("x" * 5000)
    node = FakeNode()
    result = run(node, "pub", *SPLIT, "--published", str(tmp_path / "t.db"), "feed.atom")
    assert (result.exit_code, node.connections) == (1, [])
    assert "t.db: file is not a database; without the file everything is published once more" in (
        result.stderr
    )
