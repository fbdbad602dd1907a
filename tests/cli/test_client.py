from __future__ import annotations

import json

import pytest

from broker.errors import NotAllowed
from tests.cli.fake_node import FakeNode, run


def test_a_reset_prints_the_answer() -> None:
    answer = {"client": "desk-7", "incarnation": 2**63 - 1, "session_ended": True}
    node = FakeNode(answers={"client-reset": answer})
    result = run(node, "client", "reset", "desk-7")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == answer
    assert node.asked == [("client-reset", {"client": "desk-7"})]


@pytest.mark.parametrize(
    ("incarnation", "ended", "lines"),
    [
        (7, True, ["the incarnation 7 of c is deleted", "the session of c has ended"]),
        (0, False, ["the node has no incarnation of c"]),
    ],
)
def test_a_terminal_gets_sentences(
    incarnation: int, ended: bool, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cli.client.is_terminal", lambda: True)
    answer = {"client": "c", "incarnation": incarnation, "session_ended": ended}
    result = run(FakeNode(answers={"client-reset": answer}), "client", "reset", "c")
    assert result.stdout.splitlines() == lines


def test_a_missing_right_is_an_error() -> None:
    node = FakeNode(answers={"client-reset": NotAllowed("account 'a' may not administer")})
    result = run(node, "client", "reset", "desk-7")
    assert result.exit_code != 0
    assert "may not administer" in result.output
