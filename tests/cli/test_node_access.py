from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.fake_node import FakeNode, run


def test_without_options_the_default_node_and_no_account_are_used() -> None:
    node = FakeNode(answers={"status": {}})
    run(node, "status")
    assert node.connections == [
        {
            "endpoints": ("tcp:127.0.0.1:8765",),
            "client_id": "",
            "account": "",
            "secret": "",
            "state": None,
            "allow_cleartext": False,
        }
    ]


def test_options_set_the_node_and_the_account(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush hush\nnot this\n")
    node = FakeNode(answers={"dtd-list": []})
    run(
        node,
        *("dtd", "list", "--node", "tcp:a:1", "--node", "unix:/b", "--account", "me"),
        *("--secret-file", str(tmp_path / "secret"), "--client-id", "me-2"),
        *("--state", str(tmp_path), "--allow-cleartext"),
    )
    assert node.connections == [
        {
            "endpoints": ("tcp:a:1", "unix:/b"),
            "client_id": "me-2",
            "account": "me",
            "secret": "hush hush",
            "state": tmp_path,
            "allow_cleartext": True,
        }
    ]


def test_the_environment_sets_the_same_options() -> None:
    node = FakeNode(answers={"dtd-list": []})
    run(
        *(node, "dtd", "list"),
        XMLBROKER_NODE="tcp:a:1 tcp:b:2",
        XMLBROKER_ACCOUNT="me",
        XMLBROKER_SECRET="hush",
    )
    connection = node.connections[0]
    assert connection["endpoints"] == ("tcp:a:1", "tcp:b:2")
    assert (connection["account"], connection["secret"]) == ("me", "hush")


def test_a_secret_is_never_an_option() -> None:
    result = run(FakeNode(), "status", "--secret", "hush")
    assert result.exit_code == 2


def test_a_secret_that_can_not_be_read_is_one_line(tmp_path: Path) -> None:
    result = run(FakeNode(), "status", "--secret-file", str(tmp_path / "absent"))
    assert result.exit_code == 1
    assert "the secret can not be read" in result.stderr
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    result = run(FakeNode(), "status", "--secret-file", str(tmp_path / "binary"))
    assert "not a text in UTF-8" in result.stderr


@pytest.mark.parametrize(
    ("command", "question"),
    [("status", "status"), ("durable list", "durable-list"), ("reload", "reload")],
)
@pytest.mark.parametrize("answer", ["\x1b[2J\nno map", {"\x1b[2J\n": []}, [[[]]], 7])
def test_a_malformed_answer_is_one_line(
    command: str, question: str, answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.cli.terminal.is_terminal", lambda: True)
    for module in ("status", "durable", "reload"):
        monkeypatch.setattr(f"broker.cli.{module}.is_terminal", lambda: True)
    result = run(FakeNode(answers={question: answer}), *command.split())
    if result.exit_code:
        (line,) = result.stderr.splitlines()
        assert "the node's answer can not be read" in line
    assert "\x1b[2J" not in result.output
    assert (result.exit_code == 0) == (command == "status" and isinstance(answer, dict))
