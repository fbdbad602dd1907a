from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.catalogue_source import CatalogueSource
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import UnknownType

FLIGHT = DtdReference("flight", "1.0")


class CatalogueSourceTests(SynchronousTestCase):
    def test_it_is_a_source(self) -> None:
        source = CatalogueSource(Catalogue.load(shipped_folder()))
        self.assertTrue(verifyObject(IDtdSource, source))

    def test_it_gives_the_text_of_the_file_at_once(self) -> None:
        source = CatalogueSource(Catalogue.load(shipped_folder()))
        text = self.successResultOf(source.fetch(FLIGHT, FetchHint()))
        self.assertEqual(text, (shipped_folder() / "flight-1.0.dtd").read_bytes())

    def test_a_type_that_it_does_not_have_is_unknown(self) -> None:
        source = CatalogueSource(Catalogue.load(shipped_folder()))
        self.failureResultOf(source.fetch(DtdReference("x", "1"), FetchHint()), UnknownType)

    def test_a_file_that_vanished_makes_the_type_unknown(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "a.dtd").write_text("")
            (folder / "catalog.xml").write_text(
                '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">'
                f'<public publicId="{FLIGHT.public_id}" uri="a.dtd"/></catalog>'
            )
            source = CatalogueSource(Catalogue.load(folder))
            (folder / "a.dtd").unlink()
            failure = self.failureResultOf(source.fetch(FLIGHT, FetchHint()), UnknownType)
        self.assertIn("a.dtd", str(failure.value))

    def test_hints_are_equal_whatever_the_link(self) -> None:
        self.assertEqual(FetchHint("p", object()), FetchHint("p", object()))
        self.assertNotEqual(FetchHint("p"), FetchHint("q"))
