"""Rules across settings."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

import attrs

from broker.config.endpoints import (
    is_encrypted_endpoint,
    is_loopback_endpoint,
    is_multicast_address,
)
from broker.config.faults import FaultSettings
from broker.config.identity_rules import check_identity
from broker.config.input_rules import check_inputs
from broker.config.key_location import KeyPath, key_name
from broker.config.settings import Settings
from broker.config.stacks import (
    DEFAULT_STACK,
    StackInstance,
    find_plugins_of,
    select_channel,
)
from broker.config.units import format_size
from broker.errors import ConfigurationError, StackError
from broker.transport.faults.configuration import KINDS, create_layer
from broker.transport.socket.loopback import LOOPBACK_INTERFACES, is_loopback_address
from broker.transport.stacks import StackSettings, Transport, build_stack


def find_contradictions(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key at fault, and a sentence."""
    yield from _check_listeners(settings)
    yield from check_identity(settings)
    yield from check_inputs(settings)
    yield from _check_network(settings)
    yield from _check_stacks(settings)
    yield from _check_event_room(settings)
    yield from _check_faults(settings)


def _check_listeners(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    for index, endpoint in enumerate(settings.listen.endpoints):
        if endpoint.startswith("haproxy:"):
            yield (
                ("listen", "endpoints", index),
                f'listen.endpoints has "{endpoint}", which takes addresses of clients from anyone: '
                "name the proxies in listen.proxies, and leave haproxy: out",
            )
        if is_loopback_endpoint(endpoint):
            continue
        if not settings.accounts:
            yield (
                ("listen", "endpoints", index),
                f'listen.endpoints has "{endpoint}", which others can reach: without accounts '
                "every endpoint must be on loopback (interface=127.0.0.1, ::1 or localhost, "
                "or unix:); add an [accounts.NAME] table or change the interface",
            )
        elif not is_encrypted_endpoint(endpoint) and not settings.listen.allow_cleartext:
            yield (
                ("listen", "endpoints", index),
                f'listen.endpoints has "{endpoint}", where clients would send secrets over a '
                "network in clear text: use an endpoint of the kind tls or ssl, or set "
                "listen.allow_cleartext",
            )


def _check_network(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    network = settings.network
    if network.key_file is None:
        for index, endpoint in enumerate(network.listen):
            if not is_loopback_endpoint(endpoint):
                yield (
                    ("network", "listen", index),
                    f'network.listen has "{endpoint}", which others can reach: without '
                    "network.key_file every endpoint must be on loopback (interface=127.0.0.1, "
                    "::1 or localhost, or unix:)",
                )
        if network.udp and not is_loopback_address(network.udp):
            yield (
                ("network", "udp"),
                f'network.udp is "{network.udp}", which others can reach: without network.key_file '
                "it must be an address of the loopback interface",
            )
        if network.group and network.group_interface not in LOOPBACK_INTERFACES:
            yield (
                ("network", "group"),
                "anyone on the segment of network.group can forge packets of any node: without "
                "network.key_file network.group_interface must be lo or 127.0.0.1",
            )
    if (network.certificate is None) != (network.authority is None):
        yield (
            ("network", "authority" if network.certificate is None else "certificate"),
            "network.certificate and network.authority must be set together",
        )
    if network.certificate is not None:
        for key, endpoints in (("listen", network.listen), ("gateways", network.gateways)):
            if any(each.partition(":")[0] in ("ssl", "tls") for each in endpoints):
                yield (
                    ("network", key),
                    f"network.{key}: with network.certificate all links over TCP are TLS; their "
                    "endpoints are of the kind tcp",
                )
    if network.transport == "udp" and not network.udp:
        yield ("network", "transport"), 'network.transport is "udp", but network.udp is empty'
    if network.group and not network.group_interface:
        yield ("network", "group"), "network.group needs network.group_interface"
    if is_multicast_address(network.discover) and not network.group_interface:
        yield (
            ("network", "discover"),
            "network.discover is a multicast group, and needs network.group_interface",
        )
    if not network.is_standalone and not (network.cluster or network.join or network.discover):
        yield (
            ("network", "cluster"),
            "network.cluster is empty, and neither network.join nor network.discover names a node "
            "to ask for one",
        )
    if network.is_standalone:
        for stream in settings.streams:
            if stream.acknowledge == "neighbour":
                yield (
                    ("streams", stream.pattern.text, "acknowledge"),
                    f'streams."{stream.pattern.text}".acknowledge is "neighbour", but the node has '
                    "no network: see [network]",
                )


def _check_stacks(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    instances = {each.name: each for each in settings.stacks}
    instances.setdefault(DEFAULT_STACK, StackInstance(DEFAULT_STACK))
    for instance in settings.stacks:
        if instance.feed and (instance.feed != DEFAULT_STACK or instance.use == DEFAULT_STACK):
            yield (
                ("stacks", instance.name, "feed"),
                f'stacks.{instance.name}.feed is "{instance.feed}": '
                f'only "{DEFAULT_STACK}" can feed other stacks',
            )
        if instance.name == DEFAULT_STACK != instance.use:
            yield (
                ("stacks", instance.name, "use"),
                f"[stacks.{DEFAULT_STACK}] is the transport {DEFAULT_STACK}: another transport "
                "needs another name",
            )
        yield from _check_links(instance, Transport(settings.network.transport))
    for stream in settings.streams:
        path = ("streams", stream.pattern.text, "stack")
        key = key_name(path)
        if stream.stack not in instances:
            near = get_close_matches(stream.stack, instances, n=1)
            hint = f', did you mean "{near[0]}"?' if near else ""
            yield path, f'{key} is "{stream.stack}", but there is no [stacks.{stream.stack}]{hint}'
            continue
        if stream.stack != DEFAULT_STACK and settings.network.is_standalone:
            yield path, f'{key} is "{stream.stack}", but the node has no network: see [network]'
        if stream.promises:
            guarantees = {
                each.value for each in find_plugins_of(instances[stream.stack])[0].guarantees
            }
            for promise in stream.promises:
                if promise not in guarantees:
                    given = ", ".join(sorted(guarantees)) or "none"
                    yield (
                        (*path[:2], "promises"),
                        f'{key_name((*path[:2], "promises"))} has "{promise}", which the stack '
                        f"{stream.stack} does not guarantee; its guarantees: {given}",
                    )


def _check_links(instance: StackInstance, of_network: Transport) -> Iterator[tuple[KeyPath, str]]:
    _, links = find_plugins_of(instance)
    if links is not None and instance.use != DEFAULT_STACK:
        try:
            select_channel(instance, links)
        except ConfigurationError as wrong:
            key = "channel" if instance.channel else "links"
            path = ("stacks", instance.name, key)
            yield path, f"{key_name(path)}: {wrong.text}"
    elif instance.channel:
        path = ("stacks", instance.name, "channel")
        yield path, f"{key_name(path)}: its links have no choice of a channel"
    if links is None:
        return
    # Links between clusters always use TCP.
    needed = {Transport.TCP, of_network} if instance.use == DEFAULT_STACK else set()
    for transport in sorted(links.transports | needed, key=lambda each: each.value):
        settings = StackSettings(incarnation=1, transport=transport, options=instance.link_options)
        try:
            build_stack(links, settings)
        except (ConfigurationError, StackError) as wrong:
            yield ("stacks", instance.name), f"{key_name(('stacks', instance.name))}: {wrong.text}"
            return


def _check_event_room(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    # A limit below the largest event would block for ever.
    event = settings.limits.max_event_bytes
    for key, room in (
        (("limits", "max_frame_bytes"), settings.limits.max_frame_bytes),
        (("limits", "window_bytes"), settings.limits.window_bytes),
        (("queue", "bytes"), settings.queue.bytes),
        (("log", "max_bytes"), settings.log.max_bytes),
    ):
        if room < event:
            yield (
                key,
                f"{'.'.join(key)} is {format_size(room)}, but must hold the largest event: "
                f"limits.max_event_bytes is {format_size(event)}",
            )


def _check_faults(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    special = frozenset().union(*(kind.uses for kind in KINDS.values()))
    defaults = {field.name: field.default for field in attrs.fields(FaultSettings)}
    for index, fault in enumerate(settings.faults):
        uses = KINDS[fault.kind].uses
        for key in sorted(special - uses):
            if getattr(fault, key) != defaults[key]:
                yield (
                    ("faults", index, key),
                    f"faults.{key} has no meaning for the kind {fault.kind}: "
                    f"it uses {', '.join(sorted(uses))}",
                )
        try:
            create_layer(fault)
        except ConfigurationError as wrong:
            yield (("faults", index), f"faults.kind is {fault.kind}: {wrong.text}")
