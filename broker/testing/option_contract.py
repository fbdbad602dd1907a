"""Check of the options of a stack."""

from __future__ import annotations

import tomllib

import attrs

from broker.config.setting import Setting, settings_of


def check_options(options: type) -> None:
    """AssertionError unless each option is a setting whose default is allowed.

    A required option has no default.
    """
    settings = settings_of(options)
    assert set(settings) == {each.name for each in attrs.fields(options)}
    required = {
        name: _read(described, described.shown)
        for name, (field, described) in settings.items()
        if field.default is attrs.NOTHING and described.shown is not None
    }
    defaults = options(**required)
    for name, (_, described) in settings.items():
        default = getattr(defaults, name)
        assert _read(described, described.kind.write(default)) == default, name


def _read(described: Setting[object], toml: str) -> object:
    (written,) = tomllib.loads(f"value = {toml}").values()
    return described.kind.read(written)
