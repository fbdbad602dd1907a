from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from broker.config import Settings, StreamSettings, defaults, load_text
from broker.config.setting import settings_of
from broker.config.settings import SECTIONS, default_node_name
from broker.event.stream import StreamPattern


def test_the_defaults_listen_on_loopback_only() -> None:
    assert defaults().listen.endpoints == ("tcp:port=8765:interface=127.0.0.1",)
    assert defaults().accounts == ()


def test_the_defaults_are_the_documented_ones() -> None:
    settings = defaults()
    assert settings.node.data == Path("xmlbroker-data")
    assert settings.limits.max_event_bytes == 1024 * 1024
    assert settings.limits.handshake_timeout == 10.0
    assert settings.log.max_age == 7 * 86400.0
    assert settings.log.sync is True
    assert settings.queue.events == 10_000
    assert settings.query.max_run_time == 0.05
    assert settings.query.max_share == 0.1
    assert settings.types.undescribed == "refuse"
    assert settings.types.pointers == ()
    assert settings.metrics.endpoint == ""


@pytest.mark.parametrize("section", SECTIONS.values())
def test_every_default_is_a_value_that_its_own_key_takes(section: type) -> None:
    for key, (field, setting) in settings_of(section).items():
        if setting.shown is None:
            written = setting.kind.write(field.default)
            name = next(name for name, each in SECTIONS.items() if each is section)
            read = getattr(getattr(load_text(f"[{name}]\n{key} = {written}", ""), name), key)
            assert read == field.default


def test_settings_can_not_be_changed() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        defaults().limits.max_sessions = 7  # type: ignore[misc]


def test_settings_can_be_compared_and_hashed() -> None:
    assert hash(Settings()) == hash(Settings())


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("lab7.example.org", "node-lab7"),
        ("Größe!", "node-Gr-e"),
        ("", "node"),
        ("h" * 200, "node-" + "h" * 59),
    ],
)
def test_a_nodes_name_is_made_of_its_hosts(
    host: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    assert default_node_name() == name
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)


def test_a_stream_has_the_settings_of_the_first_pattern_that_matches() -> None:
    settings = load_text('[streams."a.b"]\n[streams."a.>"]\n', "node.toml")
    assert settings.stream_settings("a.b").pattern.text == "a.b"
    assert settings.stream_settings("a.c").pattern.text == "a.>"
    assert settings.stream_settings("b") == StreamSettings(StreamPattern.parse("b"))
    assert settings.stream_settings("b").acknowledge == "node"
