# SPDX-License-Identifier: Apache-2.0
"""Server-sent events out of a body, each with the read that completed it (WHATWG HTML, section 9.2).

Lines end in LF, CRLF or CR, and in nothing else: U+2028 and its like may stand inside JSON. The body
is whole when it is parsed, so where it was cut does not matter.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

LINE_END: Final = re.compile(rb"\r\n|\n|\r")


class Event(NamedTuple):
    """The data of one event, and the number of the read whose arrival completed it."""

    data: str
    read: int


def events(body: bytes, ends: Sequence[float]) -> Iterator[Event]:
    """Events with data, in order. `ends` is the body's length after each read. An event that the
    body's end leaves unfinished is none."""
    read = 0
    for data, end in _blocks(body):
        while ends[read] < end:
            read += 1
        yield Event(data.decode("utf-8", "replace"), read)


def _blocks(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Data of each event and where the empty line behind it ends."""
    if b"\r" in body:
        yield from _blocks_by_line(body)
        return
    start = 0
    while (cut := body.find(b"\n\n", start)) >= 0:
        block = body[start:cut]
        start = cut + 2
        if block.startswith(b"data: ") and b"\n" not in block:
            yield block[6:], start
        elif data := _data(block.split(b"\n")):
            yield b"\n".join(data), start


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
