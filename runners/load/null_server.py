# SPDX-License-Identifier: Apache-2.0
"""A server that computes nothing: it streams events on a schedule, to find out what the client can hold.

    python -m runners.load.null_server TTFT_S GAP_S

It prints its port and serves until its standard input ends. Every POST is answered like a completion of
`max_tokens` tokens: the first event TTFT_S after the request, the others GAP_S apart, by the clock and not
by the event before, so that lateness does not add up.
"""

import asyncio
import json
import sys
import time
from typing import Final

HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END: Final = b"0\r\n\r\n"


def chunk(event: object) -> bytes:
    """One event as one chunk."""
    data = b"data: " + (event if isinstance(event, bytes) else json.dumps(event).encode()) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


TOKEN: Final = chunk({"choices": [{"index": 0, "text": " word", "finish_reason": None}]})
LAST: Final = chunk({"choices": [{"index": 0, "text": " word", "finish_reason": "length"}]})


def closing(tokens: int) -> bytes:
    """Usage, end mark and the end of the body."""
    return chunk({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": tokens}}) + chunk(b"[DONE]") + END


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ttft_s: float, gap_s: float) -> None:
    """Serve one connection until its client leaves."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            tokens = int(json.loads(await reader.readexactly(length)).get("max_tokens", 16))
            start_s = time.monotonic()
            for number in range(tokens):
                due_s = start_s + ttft_s + number * gap_s
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                writer.write((b"" if number else HEAD) + (LAST if number == tokens - 1 else TOKEN))
            writer.write(closing(tokens))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def serve(ttft_s: float, gap_s: float) -> None:
    server = await asyncio.start_server(lambda r, w: answer(r, w, ttft_s, gap_s), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), float(sys.argv[2])))
