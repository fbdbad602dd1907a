"""A hardened XML parser, with its errors as ours (T23)."""

from __future__ import annotations

import re
from typing import Any, cast

from lxml import etree

from broker.errors import InvalidEvent, NotWellFormed, TooLarge
from broker.matching.document_limits import DocumentLimits
from broker.matching.separate_names import call_separately

_MAX_MESSAGE = 300
#: XML_ERR_NAME_TOO_LONG and XML_ERR_RESOURCE_LIMIT (depth, sizes).
_LIMIT_CODES = frozenset({110, 114})
#: Positions in libxml2's messages, which repeat `line` and `column`.
_PLACE = re.compile(r"(, line [0-9]+, column [0-9]+)?( \(<string>, line [0-9]+\))?$")


class DocumentParser:
    def __init__(self, limits: DocumentLimits) -> None:
        self._limits = limits
        self._parser = _make_parser()
        self._too_deep = _compile_condition("/*" * (limits.max_depth + 1))
        self._too_many = _compile_condition(f"//*[count(@*) > {limits.max_attributes}]")

    def parse(self, document: bytes, *, keep_names: bool = True) -> etree._Element:
        """Return the root element. Raises `NotWellFormed` or `TooLarge` with line and column.

        Without `keep_names`, the document's names are not stored until the process ends.
        """
        try:
            if keep_names:
                root = etree.fromstring(document, self._parser)
            else:
                root = call_separately(lambda: etree.fromstring(document, _make_parser()))
        except etree.XMLSyntaxError as error:
            # The parser would store its errors, possibly very many, until the next document.
            self._parser = _make_parser()
            raise _to_error(error) from None
        limits = self._limits
        # `<a>` and `</a>` have 7 bytes and ` a=""` has 5, so small documents can not exceed the
        # limits.
        if len(document) > 7 * limits.max_depth and self._too_deep(root):
            raise TooLarge(f"elements are nested more than {limits.max_depth} deep")
        if (
            len(document) > 5 * limits.max_attributes
            and document.count(b"=") > limits.max_attributes
            and self._too_many(root)
        ):
            raise TooLarge(f"an element has more than {limits.max_attributes} attributes")
        return root


def _make_parser() -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        huge_tree=False,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
    )


def _compile_condition(path: str) -> etree.XPath:
    return etree.XPath(f"boolean({path})", regexp=False)


def _to_error(error: etree.XMLSyntaxError) -> InvalidEvent:
    line, column = error.position
    message = " ".join(_PLACE.sub("", str(error.msg)).split())[:_MAX_MESSAGE]
    error_class = TooLarge if int(cast(Any, error).code) in _LIMIT_CODES else NotWellFormed
    return error_class(message, line=max(line, 0), column=max(column, 0))
