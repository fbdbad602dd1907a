"""Read a node's configuration file; each error names the key and the line."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import attrs

from broker.config import value_kind
from broker.config.faults import FaultSettings
from broker.config.identity import AccountSettings
from broker.config.inputs import InputSettings
from broker.config.key_location import KeyPath, Location, key_name, locate_keys
from broker.config.rules import find_contradictions
from broker.config.setting import BadElement, Setting, settings_of
from broker.config.settings import (
    SECTIONS,
    EventTypeSettings,
    Settings,
    StreamSettings,
)
from broker.config.stacks import StackInstance, find_plugins_of
from broker.dtd.reference import DtdReference
from broker.errors import BadName, ConfigurationError, StackError
from broker.event.stream import StreamPattern, check_client_id
from broker.transport.stacks.contract import IStackPlugin

_TABLES_BY_NAME = {
    "streams": "a stream pattern",
    "event_types": "an event type, or the beginning of one and *",
    "stacks": "the stack's name",
    "accounts": "the account's name",
    "inputs": "the input's name",
}
_FAULTS = "faults"

#: Yields the key at fault, and a sentence.
FindFaults: TypeAlias = Callable[[Settings], Iterable[tuple[KeyPath, str]]]


def defaults() -> Settings:
    return Settings()


def load(
    path: Path,
    *,
    accounts: Sequence[AccountSettings] | None = None,
    find_faults: FindFaults = lambda _: (),
) -> Settings:
    """`ConfigurationError` names the file, the key and the line.

    `accounts` replace those of `identity.accounts_file`. `find_faults` has further rules.
    """
    reader, document = _parse(_read_text(path), str(path))
    settings = reader.read(document, path.parent, accounts)
    for at, sentence in find_faults(settings):
        reader.fail(at, sentence)
    return settings


def load_text(text: str, name: str) -> Settings:
    """`name` stands for the file in errors. A file that it names is relative to the current
    folder."""
    reader, document = _parse(text, name)
    return reader.read(document, Path(), None)


def load_accounts(path: Path) -> tuple[AccountSettings, ...]:
    """Return the accounts of a file that only its owner can read. Raises `ConfigurationError`."""
    text = _read_text(path)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ConfigurationError(f"{path} has mode {mode:o}, so that others may use it: chmod 600")
    reader, document = _parse(text, str(path))
    return reader.read_accounts_alone(document)


def find_accounts_file(path: Path) -> Path | None:
    """Return the path that `identity.accounts_file` of a configuration names; the file may not
    exist. Raises `ConfigurationError`."""
    reader, document = _parse(_read_text(path), str(path))
    file = reader.read_section("identity", document).accounts_file
    return None if file is None else path.parent / file


def make_account(name: str, table: Mapping[str, Any]) -> AccountSettings:
    """Return an account of the values of a TOML table. Raises `ConfigurationError`."""
    (account,) = _Reader(f"account {name}", {}).read_accounts({"accounts": {name: dict(table)}})
    return account


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except OSError as wrong:
        raise ConfigurationError(f"{path} can not be read: {wrong.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not a text in UTF-8") from None


def _parse(text: str, name: str) -> tuple[_Reader, dict[str, Any]]:
    try:
        document = tomllib.loads(text)
        spots = locate_keys(text)
    except tomllib.TOMLDecodeError as wrong:
        reason, line, column = _locate_syntax_error(str(wrong), text)
        raise ConfigurationError(
            f"{name} is not TOML: {reason}", line=line, column=column
        ) from None
    except (ValueError, RecursionError):
        # tomllib raises both for very long numbers and endlessly nested arrays.
        raise ConfigurationError(f"{name} has a number or an array that is too long") from None
    return _Reader(name, spots), document


@attrs.frozen
class _Reader:
    name: str
    locations: Mapping[KeyPath, Location]

    def read(
        self, document: dict[str, Any], folder: Path, accounts: Sequence[AccountSettings] | None
    ) -> Settings:
        """`folder` is that of the file; `accounts` replace those of `identity.accounts_file`."""
        known = [*SECTIONS, *_TABLES_BY_NAME, _FAULTS]
        for key in document:
            if key not in known:
                self._fail_unknown((key,), known)
        settings = Settings(
            **{key: self.read_section(key, document) for key in SECTIONS},
            streams=tuple(
                StreamSettings(
                    self._parse_pattern(pattern), **self._read_table(path, table, StreamSettings)
                )
                for path, pattern, table in self._tables("streams", document)
            ),
            event_types=tuple(
                EventTypeSettings(
                    self._check_type_name(path, name),
                    **self._read_table(path, table, EventTypeSettings),
                )
                for path, name, table in self._tables("event_types", document)
            ),
            stacks=tuple(
                self._read_stack(path, name, table)
                for path, name, table in self._tables("stacks", document)
            ),
            inputs=tuple(
                InputSettings(
                    self._check_name(path, name), **self._read_table(path, table, InputSettings)
                )
                for path, name, table in self._tables("inputs", document)
            ),
            accounts=self.read_accounts(document),
            faults=tuple(
                FaultSettings(**self._read_table((_FAULTS, index), table, FaultSettings))
                for index, table in enumerate(self._array(_FAULTS, document))
            ),
        )
        if settings.identity.accounts_file is not None:
            file = folder / settings.identity.accounts_file
            identity = attrs.evolve(settings.identity, accounts_file=file)
            settings = attrs.evolve(settings, identity=identity)
            if accounts is None and not file.exists():
                self.fail(
                    ("identity", "accounts_file"),
                    f"{file} does not exist: `xmlbroker account add` makes it",
                )
            accounts = load_accounts(file) if accounts is None else accounts
        names = {each.name for each in settings.accounts}
        for each in accounts or ():
            if each.name in names:
                other = settings.identity.accounts_file
                self.fail(("accounts", each.name), f"{other} has the account {each.name} too")
        settings = attrs.evolve(settings, accounts=(*settings.accounts, *(accounts or ())))
        for path, sentence in find_contradictions(settings):
            self.fail(path, sentence)
        return settings

    def read_section(self, key: str, document: dict[str, Any]) -> Any:
        section = SECTIONS[key]
        return section(**self._read_table((key,), document.get(key, {}), section))

    def read_accounts_alone(self, document: dict[str, Any]) -> tuple[AccountSettings, ...]:
        for key in document:
            if key != "accounts":
                self.fail((key,), f"{key} is unknown; this file has tables [accounts.NAME] alone")
        return self.read_accounts(document)

    def read_accounts(self, document: dict[str, Any]) -> tuple[AccountSettings, ...]:
        return tuple(
            AccountSettings(
                self._check_account(account), **self._read_table(path, table, AccountSettings)
            )
            for path, account, table in self._tables("accounts", document)
        )

    def _tables(self, key: str, document: dict[str, Any]) -> list[tuple[tuple[str, str], str, Any]]:
        tables = document.get(key, {})
        if not isinstance(tables, dict):
            self._fail_value((key,), f"tables, each named by {_TABLES_BY_NAME[key]}", tables)
        return [((key, name), name, table) for name, table in tables.items()]

    def _array(self, key: str, document: dict[str, Any]) -> list[Any]:
        tables = document.get(key, [])
        if not isinstance(tables, list):
            self._fail_value((key,), f"tables, each begun by [[{key}]]", tables)
        return tables

    def _parse_pattern(self, text: str) -> StreamPattern:
        try:
            return StreamPattern.parse(text)
        except BadName as wrong:
            path = ("streams", text)
            self.fail(path, f"{key_name(path)} must be named by a stream pattern: {wrong.text}")

    def _check_type_name(self, path: KeyPath, name: str) -> str:
        try:
            if name != "*":
                DtdReference(name.removesuffix("*"), "1")
        except BadName as wrong:
            self.fail(path, f"{key_name(path)} must be named by an event type: {wrong.text}")
        return name

    def _read_stack(self, path: KeyPath, name: str, table: Any) -> StackInstance:
        if not isinstance(table, dict):
            self._fail_value(path, "a table", table)
        own = settings_of(StackInstance)
        kept = {key: value for key, value in table.items() if key in own}
        instance = StackInstance(
            self._check_name(path, name), **self._read_table(path, kept, StackInstance)
        )
        try:
            plugins = [each for each in find_plugins_of(instance) if each is not None]
        except StackError as wrong:
            key = "links" if "links" in table else "use"
            self.fail((*path, key), f"{key_name(path)}: {wrong.text}")
        options = {key: value for key, value in table.items() if key not in own}
        known = [key for plugin in plugins for key in settings_of(plugin.options)]
        for key in options:
            if key not in known:
                self._fail_removed((*path, key), plugins)
                self._fail_unknown((*path, key), [*own, *known])
        transport = self._read_options(path, options, plugins[0].options)
        if len(plugins) == 1:
            return attrs.evolve(instance, options=transport)
        links = plugins[1]
        # An option names the link stack, too.
        is_named = instance.links or not options.keys().isdisjoint(settings_of(links.options))
        return attrs.evolve(
            instance,
            links=links.name if is_named else "",
            options=transport,
            link_options=self._read_options(path, options, links.options),
        )

    def _fail_removed(self, path: KeyPath, plugins: Iterable[IStackPlugin]) -> None:
        """Raises `ConfigurationError` for an option of an earlier version."""
        for plugin in plugins:
            removed: Mapping[str, str] = getattr(plugin.options, "removed_settings", {})
            if path[-1] in removed:
                self.fail(path, f"{key_name(path)} {removed[str(path[-1])]}")

    def _read_options(self, path: KeyPath, options: dict[str, Any], section: type) -> object:
        known = settings_of(section)
        own = {key: value for key, value in options.items() if key in known}
        try:
            return section(**self._read_table(path, own, section))
        except ConfigurationError as wrong:
            if wrong.line:
                raise
            self.fail(path, f"{key_name(path)}: {wrong.text}")

    def _check_name(self, path: KeyPath, name: str) -> str:
        try:
            return value_kind.NODE_NAME.read(name)
        except ValueError:
            self.fail(path, f"{key_name(path)} must be named by {value_kind.NODE_NAME.allowed}")

    def _check_account(self, name: str) -> str:
        # An account may use its own name as a client id.
        try:
            return check_client_id(name)
        except BadName as wrong:
            path = ("accounts", name)
            self.fail(path, f"{key_name(path)} is not a valid account name: {wrong.text}")

    def _read_table(self, path: KeyPath, table: Any, section: type) -> dict[str, Any]:
        if not isinstance(table, dict):
            self._fail_value(path, "a table", table)
        settings = settings_of(section)
        table = self._rename_keys(path, table, settings)
        for key in table:
            if key not in settings:
                self._fail_unknown((*path, key), list(settings))
        for key, (field, _) in settings.items():
            if field.default is attrs.NOTHING and key not in table:
                self.fail(path, f"{key_name((*path, key))} is missing")
        return {
            key: self._read_value((*path, key), value, settings[key][1])
            for key, value in table.items()
        }

    def _rename_keys(
        self, path: KeyPath, table: dict[str, Any], settings: Mapping[str, Any]
    ) -> dict[str, Any]:
        renamed = dict(table)
        for key, (_, described) in settings.items():
            if described.previous is not None and described.previous in renamed:
                if key in renamed:
                    old = key_name((*path, described.previous))
                    self.fail((*path, key), f"{key_name((*path, key))} and {old} are the same key")
                renamed[key] = renamed.pop(described.previous)
        return renamed

    def _read_value(self, path: KeyPath, value: object, setting: Setting[Any]) -> Any:
        try:
            return setting.kind.read(value)
        except BadElement as wrong:
            self._fail_value(path, setting.kind.allowed, value, str(wrong), (*path, wrong.index))
        except ValueError as wrong:
            if setting.kind.secret:
                self.fail(path, f"{key_name(path)} must be {setting.kind.allowed}: {wrong}")
            self._fail_value(path, setting.kind.allowed, value, str(wrong))

    def _fail_value(
        self, path: KeyPath, allowed: str, found: object, reason: str = "", at: KeyPath = ()
    ) -> NoReturn:
        because = f": {reason}" if reason else ""
        self.fail(
            at or path, f"{key_name(path)} must be {allowed}, found {_format_value(found)}{because}"
        )

    def _fail_unknown(self, path: KeyPath, known: list[str]) -> NoReturn:
        near = get_close_matches(str(path[-1]), known, n=1)
        hint = f", did you mean {key_name((*path[:-1], near[0]))}?" if near else ";"
        self.fail(path, f"{key_name(path)} is unknown{hint} known here: {', '.join(sorted(known))}")

    def fail(self, path: KeyPath, sentence: str) -> NoReturn:
        at = path
        while at and at not in self.locations:
            at = at[:-1]
        line, column = self.locations.get(at, (0, 0))
        raise ConfigurationError(f"{self.name}: {sentence}", line=line, column=column)


def _format_value(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        text = "[" + ", ".join(_format_value(element) for element in value[:8]) + "]"
    elif isinstance(value, str | bool):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _locate_syntax_error(message: str, text: str) -> tuple[str, int, int]:
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL)
    if found is not None:
        return found[1], int(found[2]), int(found[3])
    return message.removesuffix(" (at end of document)"), text.count("\n") + 1, 1
