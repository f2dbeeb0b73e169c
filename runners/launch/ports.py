# SPDX-License-Identifier: Apache-2.0
"""Whether a loopback port is free, and who holds it."""

import socket
from typing import Final

OTHER_LOOPBACK: Final = "127.0.0.2"
"""Where our own probes of a port come from. A connection to a port that nobody listens on, from the
same address, can be given that very port as its own and then connects to itself; the engine that was
to listen there dies of "address already in use"."""


def is_free(port: int) -> bool:
    """Nobody listens there and it can be bound. Two servers can share a port in silence (SO_REUSEPORT),
    so a connection is tried as well."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.5)
        probe.bind((OTHER_LOOPBACK, 0))
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def holder(port: int) -> str:
    """The process that listens on a port, for a message; a guess where we may not see it."""
    import psutil

    for connection in psutil.net_connections("tcp"):
        if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
            if connection.pid:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return "another process"
