"""The commonest mistakes of a new user at the command line, each with its message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result

from broker.cli import main
from examples.free_ports import free_port
from tests.system.node_process import NodeProcess

pytestmark = pytest.mark.system

ALERT = "<alert xmlns='urn:oasis:names:tc:emergency:cap:1.2'><identifier>7</identifier></alert>"
FILES = {
    "alert.xml": ALERT,
    "alert-1.0.dtd": "<!ELEMENT alert (#PCDATA)>",
    "siri.xml": "<Siri xmlns='urn:siri'><Delay>90</Delay></Siri>",
    "siri-2.0.dtd": """<!ENTITY % Mspaces.content ", Siri">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
<!ELEMENT Siri (Delay)>
<!ATTLIST Siri xmlns CDATA #FIXED "urn:siri">
<!ELEMENT Delay (#PCDATA)>""",
    "wrong.xml": "<flight>\n<id>UAL1</id>\n<flightlg/></flight>",
    "open.xml": "<flight>\n<id>UAL1</flight>",
    "eleven.xml": "<?xml version='1.1'?><flight/>",
    "entity.xml": "<!DOCTYPE flight [<!ENTITY x 'y'>]><flight><id>&x;</id></flight>",
    "reading.json": '{"temperature": 21.5}',
    "picture.png": "PNG",
}


@attrs.frozen
class Mistake:
    mistake: str
    command: tuple[str, ...]
    message: str
    """The last line on stderr, or the first if there is a warning."""
    status: int = 1


def mistake(text: str, command: str, message: str, status: int = 1) -> Mistake:
    """A `~` in the command stands for a blank inside an argument."""
    arguments = tuple(part.replace("~", " ") for part in command.split())
    return Mistake(text, arguments, message, status)


TABLE = (
    mistake(
        "no DTD for the type",
        "pub --type NasFlight 3.0 alert.xml",
        "alert.xml:1: refused by the node: no DTD for NasFlight 3.0; register one with "
        "`xmlbroker dtd add` (`xmlbroker dtd infer` writes one from samples), or at "
        "the node set types.folders to a folder with it, or types.undescribed to "
        '"accept" for events without one (the catalogue: no such DTD; other nodes: no '
        "node can be asked; the event's pointer: this node does not fetch DTDs from "
        "https://xmlbroker.example/dtd/NasFlight-3.0.dtd)",
    ),
    mistake(
        "a new version without DTD",
        "pub --type flight 2.0 alert.xml",
        "alert.xml:1: refused by the node: no DTD for flight 2.0; known versions are "
        "1.0, 1.1; register one with `xmlbroker dtd add` (`xmlbroker dtd infer` writes "
        "one from samples), or at the node set types.folders to a folder with it, or "
        'types.undescribed to "accept" for events without one (the catalogue: no such '
        "DTD; other nodes: no node can be asked; the event's pointer: this node does "
        "not fetch DTDs from https://xmlbroker.example/dtd/flight-2.0.dtd)",
    ),
    mistake(
        "no type",
        "pub alert.xml",
        "alert.xml:1: the type of <{urn:oasis:names:tc:emergency:cap:1.2}alert> is not "
        "one of VOEvent, asdi, flight: name it with --type NAME VERSION (`xmlbroker "
        "dtd list` lists the node's types)",
    ),
    mistake(
        "a type without version",
        "pub --type alert alert.xml",
        "Error: --type takes a name and a version, such as: --type alert 1.0 alert.xml",
        2,
    ),
    mistake(
        "a version that is a word",
        "pub --type alert latest alert.xml",
        "alert.xml:1: version 'latest' is not numbers joined by dots, such as 1.0",
    ),
    mistake(
        "no source",
        "pub --dry-run",
        "Error: Missing argument 'SOURCE...': a file, a folder, or - for a pipe.",
        2,
    ),
    mistake(
        "a wrong file name",
        "pub nosuch.xml",
        "nosuch.xml:1: can not be read: No such file or directory",
    ),
    mistake(
        "a file that is no XML",
        "pub picture.png",
        "picture.png:1: this is neither XML nor JSON lines nor a tar archive: it begins with 'PNG'",
    ),
    mistake(
        "malformed XML",
        "pub open.xml",
        "open.xml:2: not well-formed: Opening and ending tag mismatch: id and flight",
    ),
    mistake(
        "a misspelt element",
        "pub wrong.xml",
        "wrong.xml:1: refused by the node: Element flight content does not follow the "
        "DTD, expecting (id , flightleg+), got (id flightlg) (DTD flight 1.0)",
    ),
    mistake(
        "XML 1.1",
        "pub eleven.xml",
        "eleven.xml:1: it declares XML 1.1, and only 1.0 is accepted: declare version 1.0",
    ),
    mistake(
        "an internal subset",
        "pub entity.xml",
        "entity.xml:1: the DOCTYPE has an internal subset, which no event may have: "
        "remove it; its declarations belong in the DTD of a type",
    ),
    mistake(
        "JSON of one's own",
        "pub reading.json",
        "reading.json:1: the object has no key of an event (application_types, level, "
        "payload, stream, summary, type, version); --json-payload publishes any JSON",
    ),
    mistake(
        "a stream name with a blank",
        "pub --stream my~feed wrong.xml",
        "xmlbroker: the stream name 'my feed': token 'my feed' is not 1 to 64 of A-Z "
        "a-z 0-9 _ -; see the grammar of names in docs/cli.md",
    ),
    mistake(
        "a query that the shell cut at >",
        "sub /flight[flightleg/altitude",
        "xmlbroker: expected ']' after the predicate, found the end of the query (line "
        "1, column 27); quote the whole query: a shell takes > and blanks for itself",
    ),
    mistake(
        "a query without quotes",
        "sub /flight [flightleg]",
        "Error: a query is one argument: quote it, as in '/flight [flightleg]'",
        2,
    ),
    mistake(
        "an unbound prefix",
        "sub //s:Delay",
        "xmlbroker: the prefix 's' is not bound: bind it in the subscription (line 1, "
        "column 3): --namespace s=URI",
    ),
    mistake(
        "a URI without prefix or colon",
        "sub //s:Delay --namespace s",
        "Error: Invalid value for '--namespace': 's' is neither PREFIX=URI nor, for "
        "names without prefix, a URI such as http://example.org/feed or "
        "urn:example:feed",
        2,
    ),
    mistake(
        "no namespace",
        "sub //Delay --idle 0.01",
        "warning: 'Delay' is in no namespace in the query, but in urn:siri in the DTD "
        "siri 2.0: use --namespace siri=urn:siri and siri:Delay, or --namespace "
        "urn:siri for all names without prefix",
        0,
    ),
    mistake(
        "a misspelt name",
        "sub /flight/idd --idle 0.01",
        "warning: no event of the known types can match: the DTD flight 1.1 has no "
        "element 'idd' in flight (column 9); there is 'id'",
        0,
    ),
    mistake(
        "a function of XPath 2.0",
        "sub matches(id,'UAL.*')",
        "xmlbroker: there is no function matches() in XPath 1.0 (line 1, column 1); "
        "use its functions, such as contains() and starts-with()",
    ),
    mistake(
        "a stream as query",
        "sub asdi.zbw --idle 0.01",
        "warning: no event of the known types can match: the DTD asdi 1.0 has no "
        "element 'asdi.zbw' in asdi (column 1); there is 'asdi'. 'asdi.zbw' is a "
        "query; --streams 'asdi.zbw' names streams",
        0,
    ),
    mistake(
        "a pattern as query",
        "sub asdi.>",
        "xmlbroker: expected an operand, found the end of the query (line 1, column "
        "7); 'asdi.>' is a query; --streams 'asdi.>' names streams",
    ),
    mistake(
        "a glob as pattern",
        "sub --streams asdi.**",
        "xmlbroker: the stream pattern 'asdi.**': token '**' is neither '*', '>' nor 1 "
        "to 64 of A-Z a-z 0-9 _ -; see the grammar of names in docs/cli.md",
    ),
    mistake(
        "a durable one of nobody",
        "sub --durable alarms",
        "Error: --durable needs --client-id or --account: the name is one client's",
        2,
    ),
    mistake(
        "a time in words",
        "sub --from yesterday",
        "Error: Invalid value for '--from': 'yesterday': give new, all, stored, a time "
        "such as 2026-11-20T12:00:00Z or ms since 1970, or a position such as "
        "ORIGIN:EPOCH:OFFSET",
        2,
    ),
    mistake(
        "another word for a command",
        "subscribe //alert",
        "Error: No such command 'subscribe'. Did you mean 'sub'?",
        2,
    ),
    mistake(
        "a node without kind",
        "sub --node localhost:8765",
        "Error: Invalid value for '--node': 'localhost:8765': an endpoint is "
        "tcp:HOST:PORT, tls:HOST:PORT or unix:PATH, such as tcp:localhost:8765",
        2,
    ),
    mistake(
        "no node there",
        "status --node {nobody} --timeout 0.1",
        "xmlbroker: no node answered at NOBODY in 0.1 s: Connection refused; start a "
        "node with `twistd -n xmlbroker`, or give another --node",
    ),
    mistake(
        "a DTD without envelope",
        "dtd add alert-1.0.dtd",
        "xmlbroker: alert-1.0.dtd:1: the DTD does not declare Mspaces:Event: it does "
        "not include the envelope; 'New types' in docs/dtds.md shows the lines, and "
        "`xmlbroker dtd infer` writes them",
    ),
    mistake(
        "a DTD file without version",
        "dtd add alert.xml",
        "xmlbroker: alert.xml does not name a type, as flight-1.1.dtd does: give "
        "--type NAME and --version VERSION",
    ),
    mistake(
        "a changed DTD",
        "dtd add changed/siri-2.0.dtd",
        "xmlbroker: another DTD is known for siri 2.0: a changed DTD needs a new "
        "version (content a29c0e5008ed, known 1d769e1e3da3)",
    ),
    mistake(
        "a durable one that is not there",
        "durable show alarms --client desk",
        "xmlbroker: this node has no durable subscription 'alarms' of client 'desk'; "
        "`xmlbroker durable list` lists those of this node; the client's last node may "
        "have it",
    ),
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("mistakes") / "node") as running:
        yield running
        assert "Traceback" not in running.log()


@pytest.fixture(scope="module", autouse=True)
def folder(node: NodeProcess) -> Iterator[Path]:
    folder = node.folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XMLBROKER_NODE", node.endpoint)
        for name, text in FILES.items():
            (folder / name).write_text(text)
        (folder / "changed").mkdir()
        changed = FILES["siri-2.0.dtd"].replace("(Delay)", "(Delay?)")
        (folder / "changed" / "siri-2.0.dtd").write_text(changed)
        assert run("dtd", "add", "siri-2.0.dtd").exit_code == 0
        yield folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="xmlbroker")


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.mistake)
def test_the_message_names_the_way_out(row: Mistake) -> None:
    nobody = f"tcp:127.0.0.1:{free_port()}"
    result = run(*(part.format(nobody=nobody) for part in row.command))
    lines = result.stderr.splitlines()
    line = next((each for each in lines if each.startswith("warning: ")), lines[-1])
    assert (line.replace(nobody, "NOBODY"), result.exit_code) == (row.message, row.status)
