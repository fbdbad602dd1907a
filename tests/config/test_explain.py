from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from broker.config import defaults, explain, load_text
from broker.config.faults import FaultSettings
from broker.config.identity import AccountSettings
from broker.config.inputs import InputSettings
from broker.config.setting import settings_of
from broker.config.settings import (
    SECTIONS,
    EventTypeSettings,
    Settings,
    StreamSettings,
)
from broker.config.stacks import StackInstance

ALL = {
    **SECTIONS,
    "streams": StreamSettings,
    "event_types": EventTypeSettings,
    "stacks": StackInstance,
    "accounts": AccountSettings,
    "inputs": InputSettings,
    "faults": FaultSettings,
}


def test_the_explanation_is_a_file_that_changes_nothing() -> None:
    assert load_text(explain(), "explained") == defaults()


@pytest.mark.parametrize(("name", "section"), ALL.items())
def test_every_key_is_explained_with_its_meaning_its_values_and_a_value(
    name: str, section: type
) -> None:
    text = explain()
    named = r'\."asdi\.>"|\."Nas\*"|\.NAME|\.mspaces'
    start = re.search(rf"^#?\[+{name}({named})?\]+$", text, re.MULTILINE)
    assert start is not None
    part = text[start.end() :].split("\n\n")[0]
    for key, (_, setting) in settings_of(section).items():
        found = re.search(rf"((?:^# .*\n)+)#?{key} = .+$", part, re.MULTILINE)
        assert found is not None, key
        prose = " ".join(line[2:] for line in found[1].splitlines())
        assert setting.doc in prose
        assert f"Takes {setting.kind.allowed}." in prose


def test_the_settings_that_are_off_can_be_taken_into_use() -> None:
    text = re.sub(r"^#(?=\S)", "", explain(), flags=re.MULTILINE)
    text = text.replace("SALT$STORED:SERVER", "A" * 24 + ("$" + "A" * 43 + "=:" + "A" * 43 + "="))
    settings = load_text(text, "explained")
    assert settings.node.name == "node-HOST"
    assert [each.pattern.text for each in settings.streams] == ["asdi.>"]
    assert settings.accounts[0].client_ids == ("NAME",)
    assert [each.kind for each in settings.faults] == ["discard"]


def test_no_table_is_forgotten() -> None:
    assert set(ALL) == {field.name for field in attrs.fields(Settings)}


def test_no_line_is_too_wide_for_a_terminal() -> None:
    assert max(len(line) for line in explain().splitlines()) <= 100


def test_the_document_shows_the_program_output() -> None:
    document = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text()
    found = re.search(r"<!-- begin: explain -->\n```toml\n(.*)```\n<!-- end", document, re.DOTALL)
    assert found is not None
    assert found[1] == explain()
