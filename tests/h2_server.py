# SPDX-License-Identifier: Apache-2.0
"""A gRPC server on loopback whose protocol is h2's, to check our own against."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from h2.config import H2Configuration

HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
OK = [("grpc-status", "0")]


@dataclass
class Call:
    """One call as the server got it."""

    headers: dict[str, str]
    message: bytes = b""


@dataclass
class Peer:
    """The server's side of one connection, for an `answer` to use."""

    h2: h2.connection.H2Connection
    socket: socket.socket
    stream: int = 0

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def reply(self, *pieces: bytes, trailers: list[tuple[str, str]] | None = None, pad: int | None = None) -> None:
        """Headers, a DATA frame and a write for each piece, trailers."""
        self.h2.send_headers(self.stream, HEADERS)
        for piece in pieces:
            self.h2.send_data(self.stream, piece, pad_length=pad)
            self.flush()
        self.h2.send_headers(self.stream, OK if trailers is None else trailers, end_stream=True)
        self.flush()


Answer = Callable[[Peer], None]


@dataclass
class Server:
    url: str
    calls: list[Call] = field(default_factory=list)
    connections: int = 0


@contextmanager
def h2_server(answers: list[Answer], *, window: int = 65535) -> Iterator[Server]:
    """Serves one answer for each call in turn. `window`: how much a client may send unasked."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(f"grpc://127.0.0.1:{listener.getsockname()[1]}")
    threading.Thread(target=_accept, args=(listener, server, answers, window), daemon=True).start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _accept(listener: socket.socket, server: Server, answers: list[Answer], window: int) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        server.connections += 1
        threading.Thread(target=_serve, args=(connection, server, answers, window), daemon=True).start()


def _serve(connection: socket.socket, server: Server, answers: list[Answer], window: int) -> None:
    peer = Peer(h2.connection.H2Connection(H2Configuration(client_side=False, header_encoding="utf-8")), connection)
    peer.h2.local_settings = h2.settings.Settings(
        client=False, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window}
    )
    peer.h2.initiate_connection()
    calls: dict[int, Call] = {}
    with connection, suppress(OSError, h2.exceptions.ProtocolError):
        peer.flush()
        while data := connection.recv(65536):
            for event in peer.h2.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    calls[event.stream_id] = Call({str(k): str(v) for k, v in event.headers})
                elif isinstance(event, h2.events.DataReceived):
                    calls[event.stream_id].message += event.data
                    peer.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    server.calls.append(calls[event.stream_id])
                    peer.stream = event.stream_id
                    answers.pop(0)(peer)
            peer.flush()
