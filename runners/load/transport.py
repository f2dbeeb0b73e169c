# SPDX-License-Identifier: Apache-2.0
"""How requests travel: HTTP/1.1, gRPC on our own wire, or gRPC through grpc.aio."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from engines.contract import Call, EventData
from runners.load import event_stream, http1
from runners.load.clock import CellClock
from runners.load.link import AddressError, Target, target_of
from runners.load.trace import Exchange

TRANSPORTS: Final = ("http", "grpc", "grpc-aio")
Split = Callable[[bytes, Sequence[float]], Iterator[tuple[EventData, int]]]
"""From a body and its length after each read to events, and the read that completed each."""


class Carrier(Protocol):
    """One connection, one exchange at a time; see `Connection`."""

    connects: int
    refused: str

    async def open(self) -> None: ...
    async def exchange(self, request: bytes, exchange: Exchange) -> None: ...
    def abort(self, reason: str) -> None: ...
    async def aclose(self) -> None: ...


@dataclass(frozen=True)
class Transport:
    """`prepare` makes a call ready to be sent, its id given, before the clock starts; `split` reads a body."""

    name: str
    prepare: Callable[[Call, str], bytes]
    connect: Callable[[CellClock], Carrier]
    split: Split


def transport_of(url: str, name: str) -> Transport:
    """The transport to an address. Raises AddressError."""
    if name == "http":
        return _http(target_of(url))
    return _grpc(target_of(url, ("grpc", "grpcs")), name)


def check_address(url: str, transport: Transport) -> None:
    """One connection, opened and closed. Raises AddressError where nobody answers."""

    async def attempt() -> str:
        connection = transport.connect(CellClock.now())
        await connection.open()
        await connection.aclose()
        return connection.refused

    if refused := asyncio.run(attempt()):
        raise AddressError(f"{url}: {refused}")


def _http(target: Target) -> Transport:
    def prepare(call: Call, request_id: str) -> bytes:
        return http1.request_bytes(call, target.authority, request_id)

    return Transport("http", prepare, lambda clock: http1.Http1Connection(target, clock), event_stream.events)


def _grpc(target: Target, name: str) -> Transport:
    """The models' inputs are asked for once each, when their first call is prepared."""
    from runners.load import grpc_calls, h2c

    if target.encrypted and name == "grpc":
        name = "grpc-aio"
    known: dict[str, dict[str, tuple[str, int]]] = {}

    def message(call: Call) -> bytes:
        model = grpc_calls.model_of(call)
        if model not in known:
            known[model] = dict(grpc_calls.inputs_of(target, model))
        return grpc_calls.infer_message(call, known[model])

    def prepare(call: Call, request_id: str) -> bytes:
        block = h2c.header_block(target.authority, grpc_calls.STREAM_PATH, request_id)
        return h2c.request_bytes(block, message(call))

    if name == "grpc":
        return Transport(name, prepare, lambda clock: h2c.H2cConnection(target, clock), grpc_calls.outputs)
    from runners.load.grpc_aio import AioConnection

    return Transport(
        name, lambda call, _: message(call), lambda clock: AioConnection(target, clock), grpc_calls.outputs
    )
