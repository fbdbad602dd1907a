"""`xmlbroker config`: the settings of a node, and a check of its configuration file."""

from __future__ import annotations

from pathlib import Path

import click

from broker.cli.new_secret import hash_new_secret
from broker.cli.terminal import echo


@click.command(no_args_is_help=True)
@click.option("--explain", is_flag=True, help="Print every setting with its default, as TOML.")
@click.option(
    "--check",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check a node's configuration file, and the keys of [network] that it names.",
)
@click.option(
    "--hash-secret",
    "hashing",
    is_flag=True,
    help="Read a secret from a prompt or a pipe, and print its hash for the configuration.",
)
def command(explain: bool, file: Path | None, hashing: bool) -> None:
    """Explain or check a node's configuration; hash a secret for it."""
    if explain + hashing + (file is not None) != 1:
        raise click.UsageError("give one of --explain, --check FILE and --hash-secret")
    if explain:
        from broker.config import explain as explanation

        echo(explanation(), nl=False)
    elif hashing:
        echo(hash_new_secret())
    else:
        from broker.cli.publishing.configured_input import find_input_faults
        from broker.cluster.node_certificate import load_certificate
        from broker.config import load
        from broker.config.key_file import read_key

        assert file is not None
        settings = load(file, find_faults=find_input_faults)
        if settings.network.key_file is not None:
            read_key(settings.network.key_file)
        load_certificate(settings)
        echo(
            f"{file}: {len(settings.listen.endpoints)} endpoints, "
            f"{len(settings.accounts)} accounts, {len(settings.streams)} stream tables: all right"
        )
