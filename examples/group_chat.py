"""Let clients at three sites, here in one process, talk in one order: group_chat.py"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import react

from broker.event.site_notice import SiteStatus
from broker.streams.messaging import Delivery, IGroupClient
from broker.transport.message import Message
from examples.free_ports import free_port
from plugins.rcm.group_site import create_site
from plugins.rcm.options import RcmOptions

NAMES = {"a": "anna", "b": "ben", "c": "cleo"}


async def talk(client: IGroupClient) -> list[str]:
    connected: set[str] = set()
    lines: list[str] = []
    async for item in client:
        if isinstance(item, SiteStatus) and item.state == "connected":
            connected.add(item.site)
            if len(connected) == len(NAMES) - 1:
                outcomes = await client.send(Message(b"hello", destinations=client.sites))
                print(client.address, {site: each.value for site, each in outcomes.items()})
        elif isinstance(item, Delivery):
            late = " (late)" if item.late else ""
            lines.append(f"{item.source.client}: {item.message.payload.decode()}{late}")
            if len(lines) == len(NAMES):
                break
    return lines


async def main(reactor: Any) -> None:
    options = RcmOptions(sites={name: f"tcp:host=127.0.0.1:port={free_port()}" for name in NAMES})
    with tempfile.TemporaryDirectory() as folder:
        sites = {name: create_site(name, options, Path(folder, name), reactor) for name in NAMES}
        for site in sites.values():
            site.listen()
            site.start()
        clients = [sites[name].open_client(client) for name, client in NAMES.items()]
        heard = await gatherResults([Deferred.fromCoroutine(talk(each)) for each in clients])
        print(*heard[0], sep="\n")
        print("all sites have the same order:", heard[0] == heard[1] == heard[2], flush=True)
        await gatherResults([site.stop() for site in sites.values()])


react(lambda reactor: Deferred.fromCoroutine(main(reactor)), [])
