# SPDX-License-Identifier: Apache-2.0
"""A loopback server that plays back scripted bytes, one script for each request in turn."""

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

Script = Sequence[bytes]
"""What is sent, one write each. After the last the connection stays open, unless that is CLOSE."""
CLOSE = b"\0close"


@contextmanager
def scripted(scripts: Sequence[Script], tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """Address of the server, and the requests as they came."""
    requests: list[bytes] = []
    remaining = list(scripts)
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, remaining, requests, tls), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _accept(listener: socket.socket, scripts: list[Script], requests: list[bytes], tls: ssl.SSLContext | None) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, scripts, requests, tls), daemon=True).start()


def _serve(plain: socket.socket, scripts: list[Script], requests: list[bytes], tls: ssl.SSLContext | None) -> None:
    with plain, suppress(OSError), tls.wrap_socket(plain, server_side=True) if tls else plain as connection:
        while request := _request(connection):
            requests.append(request)
            for part in scripts.pop(0) if scripts else [CLOSE]:
                if part == CLOSE:
                    return
                connection.sendall(part)


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    _, _, stated = head.lower().partition(b"content-length: ")
    length = int(stated.split(b"\r\n")[0] or 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def chunked(*parts: bytes, head: bytes = b"") -> bytes:
    """A whole chunked answer, each part a chunk."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + head + b"\r\n" + chunks + b"0\r\n\r\n"
