"""`xmlbroker order`, with proofs of a real site and of one that lies."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from broker.errors import NotAllowed
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.node_key import load_node_key
from plugins.rcm.certificates.question import answer_question
from plugins.rcm.certificates.site_certificates import SiteCertificates
from tests.cli.fake_node import FakeNode, run
from tests.plugins.rcm.certificates.group import PINNED, make_builder
from tests.plugins.rcm.certificates.test_site_certificates import deliver, make_event

EVENT = "client-b/7/{}"


class ProvingNode(FakeNode):
    """Answers by the certificates of site a. `change` may change an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.site = SiteCertificates(make_builder(), PINNED, ["b"])
        self.change: Callable[[dict[str, Any]], object] = lambda answer: None
        self.answers["order-proof"] = self._answer

    def _answer(self) -> Any:
        arguments = dict(self.asked[-1][1])
        stack = arguments.pop("stack", "g")
        proof = answer_question(self.site, arguments, 100.0)
        answer: dict[str, Any] = {"stack": stack, "proof": proof}
        self.change(answer)
        return answer


@pytest.fixture
def node() -> ProvingNode:
    node = ProvingNode()
    for number in range(1, 41):
        deliver(node.site, [make_event(number, number * 50, is_late=number == 3)])
    return node


@pytest.fixture
def keys(tmp_path: Path) -> str:
    return write_keys(tmp_path, {site: str(keys[0]) for site, keys in PINNED.items()})


def write_keys(folder: Path, keys: dict[str, str]) -> str:
    path = folder / "keys.toml"
    path.write_text("".join(f'{site} = "{key}"\n' for site, key in keys.items()))
    return str(path)


def verify(node: FakeNode, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    result = run(node, "order", "verify", *arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()]


def test_an_event_is_proved_by_its_id_and_by_its_stamp(node: ProvingNode, keys: str) -> None:
    for arguments in ([EVENT.format(7)], ["--stamp", "350"], ["--stamp", "350", "--tie", "b"]):
        status, (found,) = verify(node, *arguments, "--keys", keys)
        assert (status, found["result"], found["stack"]) == (0, "proved", "g")
        (event,) = found["events"]
        assert (event["event"], event["stamp"]) == ("client-b/7/7@1007", 350)
        assert (event["tie"], event["message"]) == ("b", "b/1/7")
        (site,) = found["sites"]
        assert (site["site"], site["outcome"], site["in_time"]) == ("a", "proved", True)


def test_a_late_event_is_not_shown_as_in_time(node: ProvingNode, keys: str) -> None:
    status, (found,) = verify(node, EVENT.format(3), "--keys", keys)
    assert (status, found["sites"][0]["in_time"]) == (0, None)


def test_the_own_copy_of_an_event_must_be_the_proved_one(
    node: ProvingNode, keys: str, tmp_path: Path
) -> None:
    document = tmp_path / "event.xml"
    for content, expected in ((b"<event>7</event>", 0), (b"<event>8</event>", 1)):
        document.write_bytes(content)
        status, (found,) = verify(
            node, EVENT.format(7), "--keys", keys, "--document", str(document)
        )
        assert status == expected
        assert ("has other bytes" in found["reason"]) is bool(expected)


def test_too_few_sites_are_status_2(node: ProvingNode, keys: str) -> None:
    status, (found,) = verify(node, EVENT.format(7), "--keys", keys, "--least", "2")
    assert (status, found["result"]) == (2, "unknown")


def test_an_unknown_event_is_status_2(node: ProvingNode, keys: str) -> None:
    status, (found,) = verify(node, EVENT.format(70), "--keys", keys)
    assert (status, found["reason"]) == (2, "the node has no proof of this event")


def test_a_key_that_is_not_pinned_proves_nothing(node: ProvingNode, tmp_path: Path) -> None:
    keys = write_keys(tmp_path, {"b": str(PINNED["b"][0])})
    status, (found,) = verify(node, EVENT.format(7), "--keys", keys)
    assert (status, found["sites"][0]["outcome"]) == (2, "no-key")
    keys = write_keys(tmp_path, {"a": str(SigningKey.generate().public)})
    status, (found,) = verify(node, EVENT.format(7), "--keys", keys)
    assert (status, found["sites"][0]["outcome"]) == (1, "false")


def _other_event(answer: dict[str, Any]) -> None:
    leaf = bytearray(base64.b64decode(answer["proof"]["leaf"]))
    leaf[-1] ^= 1
    answer["proof"]["leaf"] = base64.b64encode(leaf).decode()


@pytest.mark.parametrize(
    "change",
    [
        _other_event,
        lambda answer: answer["proof"].update(index=0),
        lambda answer: answer["proof"].update(path=[]),
        lambda answer: answer["proof"].update(leaf="AAAA"),
        lambda answer: answer.update(proof={}),
    ],
)
def test_a_lying_node_proves_nothing(
    node: ProvingNode, keys: str, change: Callable[[dict[str, Any]], object]
) -> None:
    node.change = change
    status, (found,) = verify(node, EVENT.format(7), "--keys", keys)
    assert (status, found["result"]) == (1, "false")


def test_the_proof_of_another_event_is_false(node: ProvingNode, keys: str) -> None:
    other = answer_question(node.site, {"event": EVENT.format(8)}, 100.0)
    node.change = lambda answer: answer.update(proof=other)
    for arguments in ([EVENT.format(7)], ["--stamp", "350"]):
        status, (found,) = verify(node, *arguments, "--keys", keys)
        assert status == 1
        assert "the node has sent a proof of" in found["reason"]


def test_a_proof_of_another_stack_is_no_answer(node: ProvingNode, keys: str) -> None:
    node.change = lambda answer: answer.update(stack="other")
    result = run(node, "order", "verify", EVENT.format(7), "--keys", keys, "--stack", "g")
    assert result.exit_code == 2
    assert "a proof of 'other'" in result.stderr


# ----------------------------------------------------------------------------- ranges


def test_a_range_is_proved_block_by_block(node: ProvingNode, keys: str) -> None:
    status, found = verify(node, "--since", "300", "--until", "1500", "--keys", keys)
    assert status == 0
    stamps = [event["stamp"] for each in found for event in each["events"]]
    assert stamps == list(range(300, 1501, 50))
    assert [each["sites"][0]["block"] for each in found] == [1, 2, 3, 4, 5]
    assert len(node.connections) == 1


def test_a_large_block_is_read_in_pages(node: ProvingNode, keys: str) -> None:
    deliver(node.site, [make_event(number, 5_000) for number in range(100, 2_100)])
    status, (found,) = verify(node, "--since", "4900", "--until", "5100", "--keys", keys)
    assert (status, len(found["events"])) == (0, 2_000)


def test_a_block_or_event_that_the_node_leaves_out_is_found(node: ProvingNode, keys: str) -> None:
    arguments = ("--since", "300", "--until", "1500", "--keys", keys)

    def skip(answer: dict[str, Any]) -> None:
        if answer["proof"]["following"] == 3:
            answer["proof"]["following"] = 4

    node.change = skip
    status, found = verify(node, *arguments)
    assert status == 1
    assert [each["result"] for each in found] == ["proved", "proved", "false", "proved"]
    assert found[2]["sites"][0]["reason"] == "it signed that block 3 is before"

    def drop(answer: dict[str, Any]) -> None:
        proof = answer["proof"]
        proof.update(leaves=proof["leaves"][1:], count=proof["count"] - 1)

    node.change = drop
    assert verify(node, *arguments)[0] == 1
    node.change = lambda answer: answer["proof"].update(width=200)
    assert verify(node, *arguments)[0] == 1
    # The range would have no block.
    node.change = lambda answer: answer["proof"].update(width=2_000)
    assert verify(node, *arguments)[0] == 2
    node.change = lambda answer: answer["proof"].update(block=0)
    assert verify(node, *arguments)[0] == 1


def test_an_empty_range_is_unknown(node: ProvingNode, keys: str) -> None:
    for since in ("5000", "2026-11-20T12:00:00Z"):
        status, (found,) = verify(node, "--since", since, "--until", since, "--keys", keys)
        assert (status, found["reason"]) == (2, "the node has no events of this range")


# ----------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["c/1/1", "--stamp", "5"],
        ["--since", "5"],
        ["--since", "5", "--until", "x"],
        ["c/1/1", "--least", "0"],
    ],
)
def test_wrong_usage_asks_no_node(keys: str, arguments: list[str]) -> None:
    node = FakeNode()
    result = run(node, "order", "verify", *arguments, "--keys", keys)
    assert (result.exit_code, node.connections) == (2, [])


@pytest.mark.parametrize("content", ["a = 5", 'a = "AAAA"', "site_keys = 3", "["])
def test_a_wrong_file_of_keys_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(content)
    result = run(FakeNode(), "order", "verify", "c/1/1", "--keys", str(path))
    assert result.exit_code == 2
    assert str(path) in result.stderr


def test_the_keys_of_a_configuration_are_accepted(node: ProvingNode, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(f'site_keys = {{ a = "{PINNED["a"][0]}" }}')
    assert verify(node, EVENT.format(7), "--keys", str(path))[0] == 0


def test_an_error_of_the_node_is_status_2(keys: str) -> None:
    node = FakeNode(answers={"order-proof": NotAllowed("no right")})
    result = run(node, "order", "verify", "c/1/1", "--keys", keys)
    assert (result.exit_code, "no right" in result.stderr) == (2, True)


def test_the_public_key_of_a_node_is_printed_and_made_once(tmp_path: Path) -> None:
    result: Result = run(FakeNode(), "order", "key", str(tmp_path))
    assert result.stdout.strip() == str(load_node_key(tmp_path).public)
    assert (tmp_path / "node.key").stat().st_mode & 0o777 == 0o600
    configuration = tmp_path / "node.toml"
    configuration.write_text(f'[node]\ndata = "{tmp_path}"\n')
    again = run(FakeNode(), "order", "key", str(configuration))
    assert again.stdout == result.stdout
    (tmp_path / "node.key").write_text("no key")
    wrong = run(FakeNode(), "order", "key", str(tmp_path))
    assert (wrong.exit_code, "is not an unencrypted private key" in wrong.stderr) == (1, True)
    missing = run(FakeNode(), "order", "key", str(tmp_path / "missing"))
    assert missing.exit_code == 2 and not (tmp_path / "missing").exists()


def test_an_event_is_proved_by_an_earlier_key_among_several(
    node: ProvingNode, tmp_path: Path
) -> None:
    path = tmp_path / "keys.toml"
    keys = ", ".join(f'"{key}"' for key in (SigningKey.generate().public, *PINNED["a"]))
    path.write_text(f"a = [{keys}]\n")
    assert verify(node, EVENT.format(7), "--keys", str(path))[0] == 0
