"""An account registers schemas that take very long, and publishes events of their types."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.errors import BadDtd, NotValid
from broker.event.envelope import EventType
from tests.dtd.xsd.schema_types import (
    FLIGHT_DTD,
    SLOW_TO_COMPILE,
    SLOW_XSD,
    slow_payload,
    with_schema,
    xsd,
)
from tests.security.account_settings import BASE, BYSTANDER, account_toml, identity_of
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

DTD = FLIGHT_DTD + "<!ELEMENT v (#PCDATA)>"


@pytest.mark.limit("time of an XML Schema", "type")
def test_slow_schemas_stop_nobody(tmp_path: Path) -> None:
    configuration = BASE + account_toml("bad", publish=["bad"], types=["slow"])
    with NodeProcess(tmp_path, configuration + "[log]\nsync = false\n") as node:

        async def work() -> None:
            async with (
                measured_bystander(node.endpoint, **BYSTANDER) as bystander,
                connect(node.endpoint, **identity_of("bad")) as bad,
            ):
                slow = with_schema(DTD, ("slow.xsd", xsd(SLOW_XSD)))
                await bad.ask("dtd-add", slow, type="slow", version="1.0", against="")
                kind = EventType("slow", "1.0")
                await bad.publish("bad", slow_payload(1), kind)
                refusals: list[str] = []

                async def publish_slow_events() -> None:
                    for _ in range(50):
                        with pytest.raises(NotValid) as refused:
                            await bad.publish("bad", slow_payload(9), kind)
                        refusals.append(refused.value.text)

                attack = asyncio.ensure_future(publish_slow_events())
                await bystander.measure()
                await attack
                assert refusals[0].startswith("its schema takes too long")
                assert all("is not used for" in each for each in refusals[1:])

                async def register_slow_schemas() -> None:
                    for number in range(3):
                        text = with_schema(DTD, (f"{number}.xsd", xsd(SLOW_TO_COMPILE)))
                        with pytest.raises(BadDtd, match="takes too long"):
                            await bad.ask(
                                "dtd-add", text, type=f"slow{number}", version="1.0", against=""
                            )

                attack = asyncio.ensure_future(register_slow_schemas())
                await bystander.measure()
                await attack

        run_within(work())
        assert "Traceback" not in node.log()
