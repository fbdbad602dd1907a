"""Which document a path of a query means, and the text that makes lxml see it so.

The payload is evaluated as a document of its own, the envelope stays in another. A path that
starts with `/Mspaces:Event` gets that step replaced by a variable that holds the envelope's
element. Inside the predicates of such a path libxml2 takes `/` for the *envelope's* document,
since it goes by the context node; so in a query that has such a path every other absolute path is
made to start at the payload's document, by a variable too. Some calls of functions on texts become
calls of ours (`texts.py`). All else stays as it was written.
"""

from __future__ import annotations

from broker.matching.query.cursor import ParseInfo


def rewrite_for_lxml(text: str, info: ParseInfo) -> str:
    """The text to compile; the text itself when nothing has to be replaced."""
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
