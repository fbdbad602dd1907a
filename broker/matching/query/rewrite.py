"""Rewrite of a query's text for lxml.

The payload and the envelope are two documents. lxml evaluates a query on the payload, with these
replacements in its text:

- The step `/Mspaces:Event` at the start of a path becomes a variable that holds the envelope's
  element.
- In a query with such a path, every other absolute path starts at a variable too. libxml2 resolves
  `/` in a predicate by the context node, which may be in the envelope.
- Some calls become extension functions (`extension_function.py`).
"""

from __future__ import annotations

from broker.matching.query.cursor import ParseInfo


def rewrite_for_lxml(text: str, info: ParseInfo) -> str:
    """Return the text for lxml; the same text if nothing has to be replaced."""
    replacements = list(info.call_replacements)
    if info.envelope_replacements:
        replacements += (*info.envelope_replacements, *info.document_replacements)
    if not replacements:
        return text
    parts = []
    done = 0
    for replacement in sorted(replacements, key=lambda r: r.start):
        parts.append(text[done : replacement.start])
        parts.append(replacement.text)
        done = replacement.end
    parts.append(text[done:])
    return "".join(parts)
