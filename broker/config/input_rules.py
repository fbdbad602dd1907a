"""Rules across the settings of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from ipaddress import ip_network
from typing import Final

from broker.config.endpoints import local_address
from broker.config.inputs import MAX_INPUTS, InputSettings
from broker.config.key_location import KeyPath, key_name
from broker.config.settings import Settings

_URLS: Final = ("http://", "https://")
_LOOPBACK: Final = (ip_network("127.0.0.1"), ip_network("::1"))


def find_node_address(settings: Settings) -> str | None:
    """Return the address at which inputs connect to their node by default; None: there is none."""
    proxies = [ip_network(each) for each in settings.listen.proxies]
    is_proxied = any(
        own.version == each.version and own.overlaps(each) for own in _LOOPBACK for each in proxies
    )
    for endpoint in settings.listen.endpoints:
        address = local_address(endpoint)
        # Connections of a proxy have to begin with a header.
        if address is not None and not (is_proxied and address.startswith("tcp:")):
            return address
    return None


def check_inputs(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key at fault, and a sentence."""
    for each in settings.inputs[MAX_INPUTS:]:
        yield ("inputs", each.name), f"there are more than {MAX_INPUTS} tables [inputs.NAME]"
    address = find_node_address(settings)
    clients: dict[tuple[str, str], str] = {}
    for each in settings.inputs:
        path = ("inputs", each.name)
        if not each.node and address is None:
            yield (
                path,
                f"{key_name((*path, 'node'))} is missing: listen.endpoints has no unix socket, and "
                "no plain TCP endpoint on loopback with a fixed port and without a proxy",
            )
        yield from _check_sources(path, each)
        yield from _check_login(path, each, settings)
        client = each.client_id or each.account
        other = clients.setdefault((each.node, client), each.name) if client else each.name
        if other != each.name:
            yield (
                (*path, "client_id" if each.client_id else "account"),
                f"{key_name(path)} and {key_name(('inputs', other))} have the client id {client}: "
                f"give each its own {key_name((*path, 'client_id'))}",
            )


def _check_sources(path: KeyPath, each: InputSettings) -> Iterator[tuple[KeyPath, str]]:
    for index, source in enumerate(each.sources):
        if each.watch == source.startswith(_URLS):
            yield (
                (*path, "sources", index),
                f"{key_name((*path, 'sources'))} has {source!r}, which is not "
                + (
                    f"a folder, but {key_name((*path, 'watch'))} is true"
                    if each.watch
                    else "an address such as https://example.org/feed.xml; for a folder set "
                    f"{key_name((*path, 'watch'))} = true"
                ),
            )


def _check_login(
    path: KeyPath, each: InputSettings, settings: Settings
) -> Iterator[tuple[KeyPath, str]]:
    names = [account.name for account in settings.accounts]
    account = key_name((*path, "account"))
    if not each.account:
        if each.secret_file is not None:
            yield (*path, "secret_file"), f"{account} is missing: whose secret is in the file?"
        elif names and not each.node:
            yield path, f"{account} is missing: the node has accounts"
        return
    if each.secret_file is None:
        yield (*path, "account"), f"{key_name((*path, 'secret_file'))} is missing"
    if not each.node and each.account not in names:
        near = get_close_matches(each.account, names, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        yield (
            (*path, "account"),
            f"{account} is {each.account!r}, but there is no [accounts.{each.account}]{hint}",
        )
