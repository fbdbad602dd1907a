"""Inputs of a node's configuration as command lines of `pub`, and their checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

from broker.cli.namespaces import parse_binding
from broker.cli.node_access import check_address, read_secret
from broker.cli.publishing.event_time import parse_time_option
from broker.cli.publishing.input_options import InputOptions, check_content_options
from broker.cli.publishing.key_options import KeyOptions
from broker.cli.publishing.split_options import parse_split
from broker.config.inputs import InputSettings
from broker.config.key_location import KeyPath, key_name
from broker.config.settings import Settings

_OPTION: Final = re.compile(r"(?<!\S)--([a-z][a-z-]*)")


def pub_arguments(each: InputSettings, address: str, table: Path) -> list[str]:
    """Return the arguments of `pub` that run an input of the node at `address`.

    The secret is not among them.
    """
    arguments = [
        *("pub", "--supervised", "--node", each.node or address, "--account", each.account),
        *("--published", str(table), "--published-max", str(each.published_max)),
        *(("--watch",) if each.watch else ("--every", f"{each.every}s")),
    ]
    for option, value in (
        ("--stream", each.stream),
        ("--security-level", each.security_level),
        ("--split", each.split),
        ("--id", each.id),
        ("--time", each.time),
        ("--client-id", each.client_id),
        ("--secret-file", str(each.secret_file or "")),
    ):
        if value:
            arguments += [option, value]
    if each.type:
        arguments += ["--type", *each.type]
    for copied in each.copy:
        arguments += ["--copy", copied]
    for binding in _bindings(each):
        arguments += ["--namespace", binding]
    arguments += ["--changed"] * each.changed + ["--json-payload"] * each.json_payload
    return [*arguments, "--", *each.sources]


def find_input_faults(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """Make the checks of `pub` for each input; yield the key at fault, and a sentence."""
    for each in settings.inputs:
        for key, check in _checks(each):
            try:
                check()
            except click.ClickException as error:
                path = ("inputs", each.name, key)
                yield path, f"{key_name(path)}: {_OPTION.sub(_name_key, error.message)}"
                break


def _checks(each: InputSettings) -> Iterator[tuple[str, Callable[[], object]]]:
    namespaces: dict[str, str] = {}

    def bind() -> None:
        for (prefix, uri), binding in zip(each.namespaces.items(), _bindings(each), strict=True):
            if parse_binding(binding) != (prefix, uri):
                raise click.UsageError(f"{prefix!r} can not be bound to {uri!r}")
            namespaces[prefix] = uri

    keys = KeyOptions(each.id or None, each.changed)
    yield "namespaces", bind
    yield "split", lambda: parse_split(each.split or None, (), namespaces)
    yield "copy", lambda: parse_split(each.split or None, each.copy, namespaces)
    yield "changed" if not each.id else "id", lambda: keys.parse_rule(namespaces)
    yield "time", lambda: parse_time_option(each.time or None, namespaces)
    options = InputOptions(each.watch, None if each.watch else each.every)
    yield "sources", lambda: options.check_sources(each.sources, folders_exist=False)
    yield (
        "json_payload" if each.json_payload else "namespaces",
        lambda: check_content_options(
            split=bool(each.split),
            namespaces=namespaces,
            expressions=(each.id, each.time),
            json_payload=each.json_payload,
        ),
    )
    if each.node:
        yield "node", lambda: check_address(each.node)
    if each.secret_file is not None:
        yield "secret_file", lambda: read_secret(each.secret_file)


def _name_key(option: re.Match[str]) -> str:
    name = option[1].replace("-", "_")
    return "namespaces" if name == "namespace" else name


def _bindings(each: InputSettings) -> list[str]:
    return [f"{prefix}={uri}" if prefix else uri for prefix, uri in each.namespaces.items()]
