"""Records and documents of a frame: plain, or in a zstd frame.

Proofs of one batch have much in common: compressed, a record has about 40 bytes of its proof. That
takes less time than copying the rest at each hop. So records are compressed on all links, documents
by setting.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import zstandard

from broker.errors import ProtocolError

#: `ZSTD` is the encoding of the documents alone, in versions before 5.
PLAIN, ZSTD, ZSTD_ALL, ZSTD_RECORDS = 0, 1, 2, 3
#: Decompressed.
MAX_BODY_BYTES: Final = 64 << 20
MAX_RECORDS_BYTES: Final = 64 << 20
#: Compression would save less than one packet.
MIN_COMPRESSED_BYTES: Final = 512
#: The fastest level, since each hop waits for it.
_compressor = zstandard.ZstdCompressor(level=1)


def compress(content: bytes) -> bytes:
    """Return the content itself if it is short, or would not become shorter."""
    if len(content) < MIN_COMPRESSED_BYTES:
        return content
    compressed = _compressor.compress(content)
    return compressed if len(compressed) < len(content) else content


def decompress(data: bytes, length: int) -> bytes:
    """Raises `ProtocolError` for malformed bytes, or another length."""
    try:
        # `decompress` trusts the size in the data over `max_output_size`.
        if zstandard.frame_content_size(data) not in (-1, length):
            raise ProtocolError("the length in the body of a frame differs from its header")
        content = zstandard.ZstdDecompressor().decompress(
            data, max_output_size=max(length, 1), allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise ProtocolError(f"the body of a frame can not be decompressed: {error}") from None
    if len(content) != length:
        raise ProtocolError("the body of a frame has another length than its header states")
    return content


def check_lengths(
    encoding: int,
    record_lengths: Sequence[int],
    document_lengths: Sequence[int],
    records: int,
    body: int,
) -> None:
    """Raise ValueError if the lengths of a frame's parts are not those in its header."""
    stated = 0 if encoding == ZSTD_ALL else sum(record_lengths)
    is_wrong = encoding != ZSTD_RECORDS and stated != records
    if len(record_lengths) != len(document_lengths) or is_wrong:
        raise ValueError("event counts differ")
    if sum(document_lengths) > MAX_BODY_BYTES or sum(record_lengths) > MAX_RECORDS_BYTES:
        raise ValueError("too many bytes for one frame")
    if encoding in (PLAIN, ZSTD_RECORDS) and sum(document_lengths) != body:
        raise ValueError("lengths do not add up")


def split_bytes(data: bytes, lengths: Sequence[int]) -> list[bytes]:
    ends = list(itertools.accumulate(lengths, initial=0))
    return [data[start:end] for start, end in itertools.pairwise(ends)]
