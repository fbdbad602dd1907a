"""Check of the options of a stack."""

from __future__ import annotations

import tomllib

import attrs

from broker.config.setting import Setting, settings_of


def check_options(options: type) -> None:
    """AssertionError unless each option is a setting whose default is allowed.

    A required option has no default. Examples stand for defaults that do not fit together.
    """
    settings = settings_of(options)
    assert set(settings) == {each.name for each in attrs.fields(options)}
    examples = {
        name: _read(described, described.shown)
        for name, (field, described) in settings.items()
        if described.shown is not None and not hasattr(field.default, "takes_self")
    }
    defaults = options(**examples)
    for name, (_, described) in settings.items():
        default = getattr(defaults, name)
        assert _read(described, described.kind.write(default)) == default, name


def _read(described: Setting[object], toml: str) -> object:
    (written,) = tomllib.loads(f"value = {toml}").values()
    return described.kind.read(written)
