# SPDX-License-Identifier: Apache-2.0
"""Server-sent events out of stamped pieces of a body, cut anywhere (WHATWG HTML, section 9.2).

Lines end in LF, CRLF or CR, and in nothing else: U+2028 and its like may stand inside JSON.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from runners.load.trace import Piece


class Event(NamedTuple):
    """The data of one event, with the piece whose arrival completed it."""

    data: str
    piece: Piece


def events(pieces: Iterable[Piece]) -> Iterator[Event]:
    """Events with data, in order. An event that the body's end leaves unfinished is none."""
    pending = bytearray()
    data: list[bytes] = []
    for piece, last in _with_last(pieces):
        pending += piece.data
        lines, pending = _complete_lines(pending, final=last)
        for line in lines:
            if line:
                _take_field(line, data)
            elif data:
                yield Event(b"\n".join(data).decode("utf-8", "replace"), piece)
                data = []


def _with_last(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bool]]:
    listed = list(pieces)
    return ((piece, i == len(listed)) for i, piece in enumerate(listed, start=1))


def _complete_lines(pending: bytearray, *, final: bool) -> tuple[list[bytes], bytearray]:
    """Lines that have ended, and the rest. A CR at the very end may be half of a CRLF, so it waits
    for the next piece where there is one."""
    held = b"\r" if pending.endswith(b"\r") and not final else b""
    text = bytes(pending).removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *lines, rest = text.split(b"\n")
    return lines, bytearray(rest + held)


def _take_field(line: bytes, data: list[bytes]) -> None:
    name, _, value = line.partition(b":")
    if name == b"data":
        data.append(value.removeprefix(b" "))
