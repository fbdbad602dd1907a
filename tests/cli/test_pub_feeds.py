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
    (("--namespace", "a=b"), "--namespace needs --split"),
    (("--namespace", "ab"), "'ab' is not PREFIX=URI"),
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
