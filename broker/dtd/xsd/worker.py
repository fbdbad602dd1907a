"""The child process that compiles schemas and validates documents by them, within limits.

Its standard input is a socket. A hostile schema may need any time or memory, or hit an error in
libxml2. The limits end this process, and another one is started.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any, Final, cast
from urllib.parse import quote, unquote

import msgspec
from lxml import etree

from broker.dtd.xsd.bundle import SchemaBundle, parse_schema_file
from broker.dtd.xsd.frames import Reply, Request, receive_frame, send_frame
from broker.errors import BadDtd

#: Seconds of processor time.
COMPILE_SECONDS: Final = 0.5
CHECK_SECONDS: Final = 0.25
MAX_MEMORY: Final = 1 << 30
#: The least recently used compiled schema is dropped.
MAX_SCHEMAS: Final = 64
#: Documents, and bytes of resident memory, after which the process ends: libxml2 keeps names.
MAX_DOCUMENTS: Final = 200_000
MAX_RESIDENT: Final = 256 << 20

_BASE: Final = "http://schema.invalid/"
_MAX_MESSAGE: Final = 400
_MAX_LOCATIONS: Final = 3
#: libxml2 has no more lines for elements.
_MAX_LINE: Final = 65_000
_XSD: Final = "{http://www.w3.org/2001/XMLSchema}"
_REQUESTS: Final = msgspec.msgpack.Decoder(Request)


class _BundleResolver(etree.Resolver):
    """Serves the files of one schema, and nothing else."""

    def __init__(self, bundle: SchemaBundle) -> None:
        self._bundle = bundle
        self._files = dict(bundle.files)

    def resolve(self, system_url: str, public_id: str, context: Any = None) -> Any:
        location = unquote(str(system_url or ""))
        name = self._bundle.find("", location.removeprefix(_BASE))
        if name is None:
            raise BadDtd(f"{location} is not among the schema's files")
        return cast(Any, self).resolve_string(
            self._files[name], context, base_url=_BASE + quote(name)
        )


class _CompiledSchema:
    def __init__(self, bundle: SchemaBundle) -> None:
        """Raises `BadDtd`, `XMLSchemaParseError`."""
        self._roots = {}
        for name, content in bundle.files:
            try:
                self._roots[name] = parse_schema_file(content)
            except BadDtd as error:
                raise _FileError(name, error) from None
        main, content = bundle.files[0]
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        parser.resolvers.add(_BundleResolver(bundle))
        root = etree.fromstring(content, parser, base_url=_BASE + quote(main))
        self._schema: Any = etree.XMLSchema(root)

    def check(self, document: bytes) -> Reply:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
        try:
            root = etree.fromstring(document, parser)
        except etree.XMLSyntaxError as error:
            return Reply(str(error.msg))
        try:
            if self._schema.validate(root):
                return Reply()
            # libxml2 reports lines: those of the elements become their numbers.
            for number, element in enumerate(root.iter("*"), 1):
                element.sourceline = min(number, _MAX_LINE)
            self._schema._clear_error_log()
            self._schema.validate(root)
            first: Any = next(iter(self._schema.error_log), None)
            self._schema._clear_error_log()
        except etree.XMLSchemaValidateError:
            return Reply("the schema's patterns take too long for this document")
        if first is None:
            return Reply("it is not valid by the schema")
        number = first.line if 0 < first.line < _MAX_LINE else 0
        message = " ".join(first.message.split())[:_MAX_MESSAGE]
        return Reply(message + self._declared_at(root, number), element=number)

    def _declared_at(self, root: etree._Element, number: int) -> str:
        """Return the places at which the schema declares the element with this number."""
        found = next((e for n, e in enumerate(root.iter("*"), 1) if n == number), None)
        if found is None:
            return ""
        local = etree.QName(found).localname
        places = [
            f"{name}:{each.sourceline}"
            for name, schema in self._roots.items()
            for each in schema.iter(f"{_XSD}element")
            if each.get("name") == local
        ]
        more = ", ..." if len(places) > _MAX_LOCATIONS else ""
        return f" [{', '.join(places[:_MAX_LOCATIONS])}{more}]" if places else ""


class _FileError(Exception):
    def __init__(self, name: str, error: BadDtd) -> None:
        super().__init__(error.text)
        self.reply = Reply(error.text, error.line, name)


class _Worker:
    def __init__(self) -> None:
        self._schemas: OrderedDict[str, _CompiledSchema] = OrderedDict()
        self.documents = 0

    def answer(self, request: Request) -> Reply:
        if request.packed is not None:
            reply = _within(COMPILE_SECONDS, lambda: self._compile(request))
            if reply.error is not None or request.document is None:
                return reply
        schema = self._schemas.get(request.schema)
        document = request.document
        if schema is None or document is None:
            return Reply(is_unknown=True)
        self._schemas.move_to_end(request.schema)
        self.documents += 1
        return _within(CHECK_SECONDS, lambda: schema.check(document))

    def _compile(self, request: Request) -> Reply:
        try:
            compiled = _CompiledSchema(SchemaBundle.unpack(request.packed or b""))
        except _FileError as error:
            return error.reply
        except BadDtd as error:
            return Reply(error.text, error.line)
        except etree.XMLSchemaParseError as error:
            return _describe(error)
        except (etree.LxmlError, ValueError, RecursionError) as error:
            return Reply(str(error)[:_MAX_MESSAGE])
        self._schemas[request.schema] = compiled
        while len(self._schemas) > MAX_SCHEMAS:
            self._schemas.popitem(last=False)
        return Reply()


def _describe(error: etree.XMLSchemaParseError) -> Reply:
    # Warnings, such as a second import of a namespace, come first.
    entries: list[Any] = list(cast(Any, error).error_log)
    first = next((each for each in entries if each.level >= 2), None)
    if first is None:
        return Reply(str(error)[:_MAX_MESSAGE])
    file = unquote(str(first.filename)).removeprefix(_BASE)
    return Reply(" ".join(first.message.split())[:_MAX_MESSAGE], max(first.line, 0), file)


def _within(seconds: float, call: Any) -> Reply:
    """Call a function that returns a reply. The system ends the process after `seconds`."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    started = time.process_time()
    try:
        reply: Reply = call()
        reply.seconds = time.process_time() - started
        return reply
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit_resources(descriptor: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # No file or socket can be opened.
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptor + 1, descriptor + 1))


def main() -> None:
    """Answer requests until the other end closes the connection."""
    with socket.socket(fileno=0) as connection:
        memory = None
        with suppress(OSError):
            memory = os.open("/proc/self/statm", os.O_RDONLY)
        _limit_resources(max(connection.fileno(), memory or 0))
        worker = _Worker()
        while (frame := receive_frame(connection)) is not None:
            send_frame(connection, worker.answer(_REQUESTS.decode(frame)))
            if worker.documents >= MAX_DOCUMENTS or _resident_bytes(memory) > MAX_RESIDENT:
                return


def _resident_bytes(statm: int | None) -> int:
    # The maximum of `getrusage` includes the memory of the parent process.
    if statm is None:
        return 0
    return int(os.pread(statm, 100, 0).split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
