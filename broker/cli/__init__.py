"""The command line `xmlbroker`: each command is a module, imported when it runs."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, Final

import click

import broker
from broker.cli.failure import failure_of
from broker.errors import BrokerError

#: Help line of each command.
COMMANDS: Final = {
    "pub": "Publish XML documents from files, folders, archives or a pipe.",
    "sub": "Subscribe: print the events that match an XPath query.",
    "chat": "Read and write in a chat room whose messages have one order at all sites.",
    "recover": "Replay published events, or show their sources.",
    "explain": "Show how a query is evaluated, and why an event matches or not.",
    "durable": "Show, pause, reset and delete durable subscriptions.",
    "account": "Add, change, revoke and list accounts of a node's configuration.",
    "reload": "Let a node apply changed accounts, limits and certificates.",
    "client": "Reset the state that a node stores for a client.",
    "status": "Show the state of one node, or of several side by side.",
    "top": "Watch nodes, their links and their traffic.",
    "archive": "List, verify, compact and expire the archive of a network.",
    "order": "Verify the order of events by signed certificates; create keys for them.",
    "mesh": "Show a mesh, check what failures would do to it, and change its links.",
    "log": "Verify and repair the event log of a node.",
    "dtd": "List and show DTDs; infer, import, check and register your own.",
    "node": "Prepare a node's data, while the node is down, for its next start.",
    "stacks": "List the installed stacks, with their guarantees and options.",
    "config": "Explain or check a node's configuration; hash a secret for it.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"broker.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = [name for name in COMMANDS if args[0].startswith(name)]
            close = close or difflib.get_close_matches(args[0], COMMANDS, 1)
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokerError as error:
            raise failure_of(error) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(broker.__version__, prog_name="xmlbroker")
def main() -> None:
    """Publish and subscribe to XML events by their content.

    Start a node with `twistd -n xmlbroker`.
    """
