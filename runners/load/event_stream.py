# SPDX-License-Identifier: Apache-2.0
"""Server-sent events out of a body, each with the read that completed it (WHATWG HTML, section 9.2).

Lines end in LF, CRLF or CR, and in nothing else: U+2028 and its like may stand inside JSON. The body
is whole when it is parsed, so where it was cut does not matter.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

LINE_END: Final = re.compile(rb"\r\n|\n|\r")


def events(body: bytes, ends: Sequence[float]) -> Iterator[tuple[bytes, int]]:
    """Data of each event that has some, and the number of the read whose arrival completed it.

    `ends` is the body's length after each read. An event that the body's end leaves unfinished is none.
    """
    read = 0
    for data, end in _blocks_by_line(body) if b"\r" in body else _blocks(body):
        while ends[read] < end:
            read += 1
        yield data, read


def _blocks(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Data of each event and where the empty line behind it ends; lines end in LF alone."""
    start = 0
    while (cut := body.find(b"\n\n", start)) >= 0:
        if body.startswith(b"data: ", start) and body.find(b"\n", start, cut) < 0:
            yield body[start + 6 : cut], cut + 2
        elif data := _data(body[start:cut].split(b"\n")):
            yield b"\n".join(data), cut + 2
        start = cut + 2


def _blocks_by_line(body: bytes) -> Iterator[tuple[bytes, int]]:
    lines: list[bytes] = []
    start = 0
    for end in LINE_END.finditer(body):
        line = body[start : end.start()]
        start = end.end()
        if line:
            lines.append(line)
        elif data := _data(lines):
            yield b"\n".join(data), start
            lines = []
        else:
            lines = []


def _data(lines: list[bytes]) -> list[bytes]:
    """Values of the data fields; comments and other fields are left out."""
    fields = (line.partition(b":") for line in lines)
    return [value.removeprefix(b" ") for name, _, value in fields if name == b"data"]
