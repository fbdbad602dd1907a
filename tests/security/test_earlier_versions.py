"""Logins between this version and an earlier one, which sends and expects secrets."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.errors import VersionMismatch
from broker.identity.secret import hash_secret
from tests.capability import PREVIOUS
from tests.security.login_refusal import SECRET, expect
from tests.system.node_process import NodeProcess
from tests.system.previous_version import previous_tree
from tests.system.traffic import run_within

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Run in the tree of the earlier version: prints the error, or nothing.
_CLIENT = """
import asyncio, sys
from broker.client.asyncio_face import connect

async def main():
    client = connect(sys.argv[1], account="alice", secret=sys.argv[2])
    try:
        await client.when_connected(60.0)
    except Exception as error:
        print(error.code, error)
    await client.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return previous_tree(tmp_path_factory.mktemp("earlier"), PREVIOUS)


async def run_earlier_client(endpoint: str, tree: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _CLIENT, endpoint, SECRET),
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=PIPE,
    )
    output, _ = await process.communicate()
    return output.decode()


@pytest.mark.parametrize("accept", [False, True])
def test_an_earlier_client_logs_in_by_the_setting_only(
    accept: bool, earlier: Path, tmp_path: Path
) -> None:
    configuration = (
        f"[identity]\naccept_sent_secrets = {str(accept).lower()}\n"
        f'[accounts.alice]\nsecret = "{hash_secret(SECRET)}"\n'
    )

    async def work(node: NodeProcess) -> None:
        printed = await run_earlier_client(node.endpoint, earlier)
        if accept:
            assert printed == ""
        else:
            assert printed.startswith("version-mismatch ") and "version 7" in printed

    with NodeProcess(tmp_path, configuration) as node:
        run_within(work(node))


def test_an_earlier_node_gets_no_secret_and_a_clear_error(earlier: Path, tmp_path: Path) -> None:
    salt = os.urandom(16)
    digest = hashlib.scrypt(SECRET.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
    parts = "$".join(base64.b64encode(each).decode() for each in (salt, digest))
    configuration = f'[accounts.alice]\nsecret = "scrypt$16384$8$1${parts}"\n'

    async def work(node: NodeProcess) -> None:
        assert await run_earlier_client(node.endpoint, earlier) == ""
        client = connect(node.endpoint, account="alice", secret=SECRET)
        assert "too old for a login" in await expect(VersionMismatch, client)

    with NodeProcess(tmp_path, configuration, code=earlier) as node:
        run_within(work(node))
