"""`xmlbroker stacks`: the installed stream transports and link stacks, with their options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from broker.cli.terminal import echo, is_terminal, json_line, make_console

if TYPE_CHECKING:
    from broker.transport.stacks import IStackPlugin


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Lines of JSON.  [default in a pipe]")
def command(as_json: bool) -> None:
    """List the installed stacks: kind, version, guarantees, and options with their defaults.

    A stack that can not be imported is reported with its error.
    """
    described = list(_descriptions())
    if as_json or not is_terminal():
        for each in described:
            echo(json_line(each))
        return
    screen = make_console()
    for each in described:
        options = each.pop("options")
        screen.print(f"{each.pop('kind')} {each.pop('name')}, {each.pop('summary')}", style="bold")
        for key, value in each.items():
            text = ", ".join(value) if isinstance(value, list) else value
            screen.print(f"  {key}: {text or '-'}")
        for option in options:
            screen.print(f"  {option['name']} = {option['default']}")
            screen.print(f"      {option['meaning']} Takes {option['takes']}.")


def _descriptions() -> Iterable[dict[str, Any]]:
    from broker.streams.contract import ITransportPlugin
    from broker.transport.stacks import find_plugins, find_stacks

    for transport in find_plugins(ITransportPlugin):
        guarantees = sorted(each.value for each in transport.guarantees)
        yield _describe("stream transport", transport, guarantees=guarantees, links=transport.links)
    for links in find_stacks():
        yield _describe("link stack", links, over=sorted(each.value for each in links.transports))


def _describe(kind: str, plugin: IStackPlugin, **special: Any) -> dict[str, Any]:
    from broker.config.setting import settings_of
    from broker.transport.stacks import class_name

    return {
        "kind": kind,
        "name": plugin.name,
        "summary": plugin.summary,
        "version": plugin.version,
        "installed_as": class_name(plugin),
        **special,
        "options": [
            {
                "name": name,
                "default": setting.shown or setting.kind.write(field.default),
                "meaning": setting.doc,
                "takes": setting.kind.allowed,
            }
            for name, (field, setting) in settings_of(plugin.options).items()
        ],
    }
