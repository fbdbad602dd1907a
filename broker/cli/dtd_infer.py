"""`xmlbroker dtd infer`: a DTD from sample documents."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import attrs
import click
from lxml import etree

from broker.cli.dtd_options import type_options, write_output
from broker.cli.failure import Failure
from broker.cli.publishing.collection_splitter import Split
from broker.cli.publishing.document_reader import is_transcoded, read_xml
from broker.cli.publishing.payload import UnusableDocument, make_payload
from broker.cli.publishing.publication import RawDocument
from broker.cli.publishing.source import READ_ERRORS, OpenedSource, describe_error, open_sources
from broker.cli.publishing.split_options import split_option
from broker.cli.standard_input import open_stdin
from broker.cli.terminal import echo, print_note
from broker.dtd.derivation.driver import write_driver
from broker.dtd.derivation.inference import counted, infer_dtd
from broker.dtd.derivation.report import report_lines
from broker.dtd.derivation.sample_statistics import SampleStatistics
from broker.dtd.dtd import ENVELOPE_NAMESPACE, ENVELOPE_TAG
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd, BadName
from broker.ingest.quarantine import is_details_file


@attrs.define
class _Reading:
    reference: DtdReference
    split: Split | None = None
    statistics: SampleStatistics = attrs.field(factory=SampleStatistics)
    refused: int = 0
    other_types: Counter[str] = attrs.field(factory=Counter)
    without_payload: int = 0
    json_sources: int = 0

    def read(self, sources: tuple[str, ...]) -> None:
        for source in open_sources(sources, open_stdin):
            if not isinstance(source, OpenedSource):
                self._refuse(str(source))
            elif source.form == "json":
                self.json_sources += not is_details_file(Path(source.name))
            else:
                self._read_source(source)

    def _read_source(self, source: OpenedSource) -> None:
        try:
            for raw in read_xml(source, self.split):
                try:
                    self._add(raw, transcoded=is_transcoded(source, self.split))
                except UnusableDocument as error:
                    self._refuse(f"{raw.location.plus_lines(error.line - 1)}: {error}")
                except BadDtd as error:
                    raise Failure(f"{raw.location}: {error.text}") from None
        except READ_ERRORS as error:
            self._refuse(f"{source.name}: {describe_error(error)}")

    def _add(self, raw: RawDocument, *, transcoded: bool) -> None:
        if raw.problem:
            raise UnusableDocument(raw.problem)
        root = make_payload(raw.data, transcoded=transcoded).root
        if root.tag != ENVELOPE_TAG:
            self.statistics.add_payload(root)
            return
        name = _type_of_event(root)
        if name != self.reference.type:
            if name in self.other_types or len(self.other_types) < 100:
                self.other_types[name] += 1
            return
        payloads = [child for child in root if _is_payload(child)]
        if len(payloads) > 1:
            raise UnusableDocument(f"the event has {len(payloads)} payloads")
        if not payloads:
            self.without_payload += 1
            return
        self.statistics.add_payload(payloads[0])

    def _refuse(self, problem: str) -> None:
        self.refused += 1
        echo(problem, err=True)

    def print_summary(self) -> None:
        if self.json_sources:
            print_note(f"left out, since samples are XML: {self.json_sources:,} of JSON")
        for name, count in sorted(self.other_types.items()):
            print_note(f"left out: {counted(count, 'event')} of type {name}")
        if self.without_payload:
            print_note(f"left out: {counted(self.without_payload, 'event')} without a payload")
        if self.refused:
            print_note(f"left out, since unreadable: {counted(self.refused, 'sample')}")


def _type_of_event(root: etree._Element) -> str:
    try:
        return DtdReference.from_public_id(root.getroottree().docinfo.public_id or "").type
    except BadName as error:
        raise UnusableDocument(f"the DOCTYPE of the event: {error.text}") from None


def _is_payload(child: etree._Element) -> bool:
    return isinstance(child.tag, str) and etree.QName(child).namespace != ENVELOPE_NAMESPACE


@click.command()
@click.argument("samples", nargs=-1, required=True, metavar="SAMPLE...")
@type_options(required=True)
@split_option
def infer(samples: tuple[str, ...], type_: str, version: str, split: Split | None) -> None:
    """Write a DTD that accepts all samples, and report on stderr how it was guessed.

    A SAMPLE is a file, a folder, a tar archive, or - for a pipe, with whole events or bare
    payloads; also the folder `quarantine` in a node's data. Events of other types are left out. No
    node is asked.

    The exit status is 1 if a sample can not be read. The DTD accepts the others.
    """
    reading = _Reading(DtdReference(type_, version), split)
    reading.read(samples)
    try:
        derivation = infer_dtd(reading.statistics, reading.reference)
        written = write_driver(derivation)
    except BadDtd as error:
        reading.print_summary()
        raise Failure(error.text) from None
    for line in report_lines(derivation, written.widened):
        print_note(line)
    reading.print_summary()
    write_output(written.text)
    if reading.refused:
        raise SystemExit(1)
