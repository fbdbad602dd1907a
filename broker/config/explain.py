"""Text of `xmlbroker config --explain`: each key with meaning, values and default.

A valid file that changes nothing. Remove a `#` without a space to use a setting.
"""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import attrs

from broker.config.faults import FaultSettings
from broker.config.identity import AccountSettings
from broker.config.inputs import InputSettings
from broker.config.reloadable import RELOADABLE
from broker.config.setting import Setting, settings_of
from broker.config.settings import SECTIONS, EventTypeSettings, StreamSettings
from broker.config.stacks import StackInstance

_EXAMPLES: tuple[tuple[str, type], ...] = (
    ('[streams."asdi.>"]', StreamSettings),
    ('[event_types."Nas*"]', EventTypeSettings),
    ("[stacks.mspaces]", StackInstance),
    ("[accounts.NAME]", AccountSettings),
    ("[inputs.NAME]", InputSettings),
    ("[[faults]]", FaultSettings),
)


def explain() -> str:
    parts = [
        _comment("Settings of an xmlbroker node: every key, with its default.")
        + _comment("A duration is a number of seconds or a text such as 7d, 12h, 30m, 10s, 5ms.")
        + _comment("A size is a number of bytes or a text such as 1GiB, 64MiB, 10kB.")
        + _comment(
            "A key that applies at reload is changed on a running node by `xmlbroker reload` or "
            "SIGHUP. Others need a restart."
        )
    ]
    parts += [_section(f"[{name}]", section, example=False) for name, section in SECTIONS.items()]
    parts += [_section(heading, section, example=True) for heading, section in _EXAMPLES]
    return "\n".join(parts)


def _section(heading: str, section: type, *, example: bool) -> str:
    text = _comment(inspect.getdoc(section) or "")
    text += ("#" if example else "") + f"{heading}\n"
    reloadable = RELOADABLE.get(heading.strip("[]").partition(".")[0], frozenset())
    for key, (field, setting) in settings_of(section).items():
        reload = " Applies at reload." if key in reloadable else ""
        text += _comment(setting.doc) + _comment(f"Takes {setting.kind.allowed}.{reload}")
        off = "#" if example or setting.shown is not None else ""
        text += f"{off}{key} = {_default(field, setting)}\n"
    return text


def _default(field: attrs.Attribute[Any], setting: Setting[Any]) -> str:
    if setting.shown is not None:
        return setting.shown
    return setting.kind.write(field.default)


def _comment(text: str) -> str:
    lines = textwrap.wrap(text, width=96, break_long_words=False, break_on_hyphens=False)
    return "".join(f"# {line}\n" for line in lines)
