# SPDX-License-Identifier: Apache-2.0
"""Triton model: sends tokens on a schedule and logs when it did, so that a client can be checked.

The schedule is the model's engine_args: `ttft_s`, `gap_s`, and `log`, a file that gets one JSON object a
request: its id, when the model had it, and when it sent each token, in ns of CLOCK_MONOTONIC.
"""

import asyncio
import json
import threading
import time
from typing import Any

import triton_answers as tensors
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """All requests on one event loop; token k is due at start + ttft_s + k gap_s."""

    def initialize(self, args: dict[str, str]) -> None:
        settings = tensors.engine_args(args)
        self.ttft_s, self.gap_s = settings["ttft_s"], settings["gap_s"]
        self.log = open(settings["log"], "a", buffering=1, encoding="utf-8")  # noqa: SIM115
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            received_ns = time.monotonic_ns()
            want, sender = tensors.asked(request), request.get_response_sender()
            asyncio.run_coroutine_threadsafe(self._serve(request.request_id(), received_ns, want, sender), self.loop)

    async def _serve(self, request_id: str, received_ns: int, want: tensors.Asked, sender: Any) -> None:
        start_s, tokens, sent_ns = time.monotonic(), want.sampling["max_tokens"], []
        for number in range(tokens):
            due_s = start_s + self.ttft_s + number * self.gap_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            reason = "length" if number == tokens - 1 else None
            answer = tensors.answer(
                want, " word", finish_reason=reason, input_tokens=1, output_tokens=1, cached_tokens=None
            )
            sent_ns.append(time.monotonic_ns())
            sender.send(answer)
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        self.log.write(json.dumps({"id": request_id, "received_ns": received_ns, "sent_ns": sent_ns}) + "\n")

    def finalize(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.log.close()
