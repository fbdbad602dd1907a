"""Reading a node's configuration file; every refusal names the key and the line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import attrs

from broker.config.locate import KeyPath, Spot, locate_keys
from broker.config.rules import contradictions
from broker.config.setting import BadElement, Setting, settings_of
from broker.config.settings import (
    SECTIONS,
    AccountSettings,
    FaultSettings,
    Settings,
    StreamSettings,
)
from broker.errors import BadName, ConfigurationError
from broker.event.stream import StreamPattern, check_client_id

_TABLES_BY_NAME = {"streams": "a stream pattern", "accounts": "the account's name"}
_FAULTS = "faults"


def defaults() -> Settings:
    """The settings of a node that is started without a file."""
    return Settings()


def load(path: Path) -> Settings:
    """The settings in the file; `ConfigurationError` names the file, the key and the line."""
    try:
        text = path.read_bytes().decode()
    except OSError as wrong:
        raise ConfigurationError(f"{path} can not be read: {wrong.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not a text in UTF-8") from None
    return load_text(text, str(path))


def load_text(text: str, name: str) -> Settings:
    """The settings that `text` holds; `name` stands for it in a `ConfigurationError`."""
    try:
        document = tomllib.loads(text)
        spots = locate_keys(text)
    except tomllib.TOMLDecodeError as wrong:
        reason, line, column = _where(str(wrong), text)
        raise ConfigurationError(
            f"{name} is not TOML: {reason}", line=line, column=column
        ) from None
    except (ValueError, RecursionError):
        # tomllib lets both escape: a number of thousands of digits, arrays in arrays without end.
        raise ConfigurationError(f"{name} has a number or an array that is too long") from None
    return _Reader(name, spots).read(document)


def key_name(path: KeyPath) -> str:
    """A key's full name as TOML writes it, such as `streams."asdi.>".acknowledge`."""
    parts = (part for part in path if isinstance(part, str))
    return ".".join(
        part if re.fullmatch(r"[A-Za-z0-9_-]+", part, re.ASCII) else _shown(part) for part in parts
    )


@attrs.frozen
class _Reader:
    name: str
    spots: Mapping[KeyPath, Spot]

    def read(self, document: dict[str, Any]) -> Settings:
        known = [*SECTIONS, *_TABLES_BY_NAME, _FAULTS]
        for key in document:
            if key not in known:
                self._unknown((key,), known)
        settings = Settings(
            **{
                key: section(**self._values((key,), document.get(key, {}), section))
                for key, section in SECTIONS.items()
            },
            streams=tuple(
                StreamSettings(self._pattern(pattern), **self._values(path, table, StreamSettings))
                for path, pattern, table in self._tables("streams", document)
            ),
            accounts=tuple(
                AccountSettings(
                    self._account(account), **self._values(path, table, AccountSettings)
                )
                for path, account, table in self._tables("accounts", document)
            ),
            faults=tuple(
                FaultSettings(**self._values((_FAULTS, index), table, FaultSettings))
                for index, table in enumerate(self._array(_FAULTS, document))
            ),
        )
        for path, sentence in contradictions(settings):
            self._refuse(path, sentence)
        return settings

    def _tables(self, key: str, document: dict[str, Any]) -> list[tuple[tuple[str, str], str, Any]]:
        tables = document.get(key, {})
        if not isinstance(tables, dict):
            self._wrong((key,), f"tables, each named by {_TABLES_BY_NAME[key]}", tables)
        return [((key, name), name, table) for name, table in tables.items()]

    def _array(self, key: str, document: dict[str, Any]) -> list[Any]:
        tables = document.get(key, [])
        if not isinstance(tables, list):
            self._wrong((key,), f"tables, each begun by [[{key}]]", tables)
        return tables

    def _pattern(self, text: str) -> StreamPattern:
        try:
            return StreamPattern.parse(text)
        except BadName as wrong:
            path = ("streams", text)
            self._refuse(path, f"{key_name(path)} is not named by a stream pattern: {wrong.text}")

    def _account(self, name: str) -> str:
        # An account may use its own name as a client id, so it must be one.
        try:
            return check_client_id(name)
        except BadName as wrong:
            path = ("accounts", name)
            self._refuse(path, f"{key_name(path)} is no name for an account: {wrong.text}")

    def _values(self, path: KeyPath, table: Any, section: type) -> dict[str, Any]:
        if not isinstance(table, dict):
            self._wrong(path, "a table", table)
        settings = settings_of(section)
        for key in table:
            if key not in settings:
                self._unknown((*path, key), list(settings))
        for key, (field, _) in settings.items():
            if field.default is attrs.NOTHING and key not in table:
                self._refuse(path, f"{key_name((*path, key))} is missing")
        return {
            key: self._value((*path, key), value, settings[key][1]) for key, value in table.items()
        }

    def _value(self, path: KeyPath, value: object, setting: Setting[Any]) -> Any:
        try:
            return setting.kind.read(value)
        except BadElement as wrong:
            self._wrong(path, setting.kind.allowed, value, str(wrong), (*path, wrong.index))
        except ValueError as wrong:
            if setting.kind.secret:
                self._refuse(path, f"{key_name(path)} must be {setting.kind.allowed}: {wrong}")
            self._wrong(path, setting.kind.allowed, value, str(wrong))

    def _wrong(
        self, path: KeyPath, allowed: str, found: object, reason: str = "", at: KeyPath = ()
    ) -> NoReturn:
        because = f": {reason}" if reason else ""
        self._refuse(
            at or path, f"{key_name(path)} must be {allowed}, found {_shown(found)}{because}"
        )

    def _unknown(self, path: KeyPath, known: list[str]) -> NoReturn:
        near = get_close_matches(str(path[-1]), known, n=1)
        hint = f", did you mean {key_name((*path[:-1], near[0]))}?" if near else ";"
        self._refuse(
            path, f"{key_name(path)} is unknown{hint} known here: {', '.join(sorted(known))}"
        )

    def _refuse(self, path: KeyPath, sentence: str) -> NoReturn:
        at = path
        while at and at not in self.spots:
            at = at[:-1]
        line, column = self.spots.get(at, (0, 0))
        raise ConfigurationError(f"{self.name}: {sentence}", line=line, column=column)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        text = "[" + ", ".join(_shown(element) for element in value[:8]) + "]"
    elif isinstance(value, str | bool):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _where(message: str, text: str) -> tuple[str, int, int]:
    """tomllib's reason, line and column: it gives them in words, as do all its versions."""
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL)
    if found is not None:
        return found[1], int(found[2]), int(found[3])
    return message.removesuffix(" (at end of document)"), text.count("\n") + 1, 1
