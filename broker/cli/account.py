"""`xmlbroker account`: accounts in the file that `identity.accounts_file` names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from broker.cli.failure import Failure
from broker.cli.new_secret import hash_new_secret
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.reload import print_reload
from broker.cli.terminal import echo, is_terminal, json_line, print_note

if TYPE_CHECKING:
    from broker.config.accounts_file import AccountsFile
    from broker.config.identity import AccountSettings

_F = TypeVar("_F", bound=Callable[..., Any])

_config = click.option(
    "--config",
    "config",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    envvar="XMLBROKER_CONFIG",
    metavar="FILE",
    help="The node's configuration, which names the file of accounts.  [env: XMLBROKER_CONFIG]",
)


@click.group(no_args_is_help=True)
def command() -> None:
    """Add, change, revoke and list accounts in the file of identity.accounts_file.

    A secret comes from a prompt, or from the first line of standard input. The node applies
    changes when it reloads: give --reload, with --node and the credentials of an administrator.
    """


def _changes_accounts(command: _F) -> _F:
    """Give a command `config`, and reload the node afterwards if --reload is given."""

    @functools.wraps(command)
    def with_reload(*args: Any, access: NodeAccess, reload: bool, **kwargs: Any) -> None:
        command(*args, **kwargs)
        if reload:
            print_reload(access, as_json=False)
        else:
            print_note("the node applies it at `xmlbroker reload` or SIGHUP")

    reload_option = click.option(
        "--reload", is_flag=True, help="Let the node of --node apply the change."
    )
    return _config(reload_option(node_options(with_reload)))  # type: ignore[return-value]


@command.command()
@click.argument("name")
@click.option("--publish", multiple=True, metavar="STREAMS", help="It may publish to; repeatable.")
@click.option("--subscribe", multiple=True, metavar="STREAMS", help="It may read; repeatable.")
@click.option(
    "--deny-publish", multiple=True, metavar="STREAMS", help="It may not publish to; repeatable."
)
@click.option(
    "--deny-subscribe", multiple=True, metavar="STREAMS", help="It may not read; repeatable."
)
@click.option(
    "--client-ids",
    multiple=True,
    metavar="PATTERN",
    help="Client ids that it may use; repeatable.  [default: NAME]",
)
@click.option("--types", multiple=True, metavar="PREFIX", help="DTDs that it may register.")
@click.option("--clearance", default="med", show_default=True, metavar="LEVEL", help="low to high")
@click.option("--administer", is_flag=True, help="It may administer the node.")
@_changes_accounts
def add(config: Path, name: str, **table: Any) -> None:
    """Add the account NAME with a new secret."""
    from broker.config.toml import make_account
    from broker.identity import hash_secret

    lists = {key: list(value) for key, value in table.items() if isinstance(value, tuple) and value}
    rest = {key: value for key, value in table.items() if not isinstance(value, tuple)}
    # Wrong values are reported before the prompt.
    make_account(name, {**lists, **rest, "secret": hash_secret("any")})
    file = _find_file(config)
    if name in file.read():
        raise Failure(f"{file.path} has the account {name} already: use passwd or revoke")
    account = make_account(name, {**lists, **rest, "secret": hash_new_secret()})
    with file.change() as accounts:
        if accounts.setdefault(name, account) is not account:
            raise Failure(f"{file.path} has the account {name} already: use passwd or revoke")
        _check(config, list(accounts.values()))
    echo(f"account {name} is added to {file.path}")


@command.command()
@click.argument("name")
@click.option("--keep-old", is_flag=True, help="The previous secret remains valid, too.")
@_changes_accounts
def passwd(config: Path, name: str, keep_old: bool) -> None:
    """Change the secret of the account NAME. Its sessions go on.

    To rotate a secret, change it with --keep-old, change it at all clients, and repeat the command
    without --keep-old.
    """
    import attrs

    from broker.config.identity import MOST_SECRETS
    from broker.config.toml import make_account

    file = _find_file(config)
    _find_account(file, config, file.read(), name)
    new = hash_new_secret()
    with file.change() as accounts:
        account = _find_account(file, config, accounts, name)
        kept = [str(each) for each in account.secret[: MOST_SECRETS - 1]]
        secret = make_account(name, {"secret": [new, *kept] if keep_old and kept else new}).secret
        accounts[name] = attrs.evolve(account, secret=secret)
        _check(config, list(accounts.values()))
    count = f", {len(secret)} in all" if len(secret) > 1 else ""
    echo(f"account {name} has a new secret{count}")


@command.command()
@click.argument("name")
@_changes_accounts
def revoke(config: Path, name: str) -> None:
    """Remove the account NAME. Its sessions end when the node reloads.

    Its durable subscriptions stay until they expire: see `xmlbroker durable delete`.
    """
    file = _find_file(config)
    with file.change() as accounts:
        _find_account(file, config, accounts, name)
        del accounts[name]
        _check(config, list(accounts.values()))
    echo(f"account {name} is removed from {file.path}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Lines of JSON.  [default in a pipe]")
@_config
def list_(config: Path, as_json: bool) -> None:
    """List all accounts of the configuration, without their secrets."""
    from broker.config import load

    own = _find_file(config, required=False)
    in_file = set() if own is None else set(own.read())
    for account in load(config).accounts:
        row = {
            "account": account.name,
            "file": str(own.path if own is not None and account.name in in_file else config),
            "secrets": len(account.secret),
            "certificates": list(account.certificates),
            "tokens": list(account.tokens),
            "client_ids": list(account.client_ids),
            **{
                key: [pattern.text for pattern in getattr(account, key)]
                for key in ("publish", "subscribe", "deny_publish", "deny_subscribe")
            },
            "types": list(account.types),
            "administer": account.administer,
            "clearance": account.clearance.value,
        }
        if as_json or not is_terminal():
            echo(json_line(row))
        else:
            echo(_format_row(row))


def _format_row(row: dict[str, Any]) -> str:
    words = [f"{row['account']}: clearance {row['clearance']}"]
    for key in (
        "publish",
        "subscribe",
        "deny_publish",
        "deny_subscribe",
        "types",
        "client_ids",
        "certificates",
    ):
        if row[key]:
            words.append(f"{key.replace('_', ' ')} {' '.join(row[key])}")
    words += ["administers"] if row["administer"] else []
    return ", ".join(words)


def _find_file(config: Path, *, required: bool = True) -> Any:
    """Return the `AccountsFile` of a configuration; None without one unless it is required."""
    from broker.config.accounts_file import AccountsFile
    from broker.config.toml import find_accounts_file

    path = find_accounts_file(config)
    if path is not None:
        return AccountsFile(path)
    if required:
        raise Failure(
            f'{config} names no file of accounts: add accounts_file = "accounts.toml" to its table '
            "[identity]"
        )
    return None


def _find_account(
    file: AccountsFile, config: Path, accounts: dict[str, AccountSettings], name: str
) -> AccountSettings:
    if name in accounts:
        return accounts[name]
    known = ", ".join(sorted(accounts)[:20]) or "none"
    raise Failure(
        f"{file.path} has no account {name} (accounts there: {known}); those in {config} are "
        "edited by hand"
    )


def _check(config: Path, accounts: Sequence[AccountSettings]) -> None:
    """Raise `ConfigurationError` unless the node would accept the accounts."""
    from broker.config import load

    load(config, accounts=accounts)
