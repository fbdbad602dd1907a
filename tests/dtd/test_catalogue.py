from __future__ import annotations

from pathlib import Path

import pytest

from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.reference import DtdReference
from broker.errors import ConfigurationError

HEAD = '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">'


def write(folder: Path, entries: str) -> Path:
    (folder / "catalog.xml").write_text(f"{HEAD}{entries}</catalog>")
    return folder


def test_the_shipped_catalogue_lists_every_file_of_its_folder(catalogue: Catalogue) -> None:
    listed = set(catalogue.public.values())
    there = {file for file in catalogue.folder.iterdir() if file.suffix in (".dtd", ".mod")}
    assert listed == there == set(catalogue.system.values())


def test_the_shipped_types_are_known_by_reference(catalogue: Catalogue) -> None:
    assert [str(reference) for reference in catalogue.references()] == [
        "VOEvent 1.1",
        "VOEvent 2.0",
        "asdi 1.0",
        "chat 1.0",
        "deadletter 1.0",
        "event 1.0",
        "event 1.1",
        "flight 1.0",
        "flight 1.1",
        "json 1.0",
    ]
    assert DtdReference("flight", "1.1") in catalogue
    assert DtdReference("flight", "1.2") not in catalogue


def test_each_type_is_found_by_either_identifier(catalogue: Catalogue) -> None:
    for reference in catalogue.references():
        by_public = catalogue.read(reference.public_id, "anything.dtd")
        assert by_public is not None
        assert by_public == catalogue.read(None, reference.system_id)


def test_an_unknown_identifier_finds_nothing_even_if_it_is_a_path(catalogue: Catalogue) -> None:
    assert catalogue.read(None, "flight-1.0.dtd") is None
    assert catalogue.read(None, str(catalogue.folder / "flight-1.0.dtd")) is None
    assert catalogue.read("-//nobody//DTD x 1.0//EN", "file:///etc/passwd") is None


def test_the_folder_beside_the_package_is_the_shipped_one() -> None:
    assert shipped_folder() == Path(__file__).resolve().parents[2] / "dtd"


def test_without_a_checkout_the_installed_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "share" / "xmlbroker" / "dtd"
    installed.mkdir(parents=True)
    write(installed, "")
    monkeypatch.setattr("broker.dtd.catalogue.__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    monkeypatch.setattr("sysconfig.get_path", lambda name, scheme=None: str(tmp_path))
    assert shipped_folder() == installed


def test_where_no_folder_is_the_places_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.dtd.catalogue.__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    monkeypatch.setattr("sysconfig.get_path", lambda name, scheme=None: str(tmp_path))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(ConfigurationError, match="share/xmlbroker/dtd"):
        shipped_folder()


@pytest.mark.parametrize(
    "uri",
    ["../secret.dtd", "/etc/hostname", "file:///etc/hostname", "%2e%2e/secret.dtd", "link.dtd"],
)
def test_an_entry_that_leaves_the_folder_is_refused(tmp_path: Path, uri: str) -> None:
    (tmp_path / "secret.dtd").write_text("secret")
    folder = tmp_path / "dtd"
    folder.mkdir()
    (folder / "link.dtd").symlink_to(tmp_path / "secret.dtd")
    write(folder, f'<public publicId="x" uri="{uri}"/>')
    with pytest.raises(ConfigurationError, match="no file in the catalogue's folder"):
        Catalogue.load(folder)


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ('<nextCatalog catalog="other.xml"/>', "only public and system"),
        ('<public publicId="x"/>', "only public and system"),
        ('<group xml:base="http://example.org/"/>', "xml:base"),
        ('<public publicId="x" uri="absent.dtd"/>', "no file"),
        ("<public", "catalog.xml"),
    ],
)
def test_a_catalogue_that_is_not_understood_names_the_place(
    tmp_path: Path, entries: str, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Catalogue.load(write(tmp_path, entries))


def test_a_file_that_is_no_catalogue_or_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        Catalogue.load(tmp_path)
    (tmp_path / "catalog.xml").write_text("<catalog/>")
    with pytest.raises(ConfigurationError, match="not an OASIS catalog"):
        Catalogue.load(tmp_path)


def test_the_first_entry_counts_and_groups_are_entered(tmp_path: Path) -> None:
    (tmp_path / "a.dtd").write_text("a")
    (tmp_path / "b.dtd").write_text("b")
    entries = (
        '<group><public publicId="one  two" uri="a.dtd"/></group>'
        '<public publicId="one two" uri="b.dtd"/>'
    )
    assert Catalogue.load(write(tmp_path, entries)).read("one\ntwo", "") == b"a"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.dtd").write_text("a")
    catalogue = Catalogue.load(write(tmp_path, '<public publicId="x" uri="a.dtd"/>'))
    (tmp_path / "a.dtd").unlink()
    with pytest.raises(ConfigurationError, match=r"a\.dtd"):
        catalogue.read("x", "")
