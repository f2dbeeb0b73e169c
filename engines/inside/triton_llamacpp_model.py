# SPDX-License-Identifier: Apache-2.0
"""Triton model: llama.cpp in process, with the tensors of Triton's vLLM backend."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils

sys.path.insert(0, str(Path(__file__).parent))
import llamacpp_serve
import triton_answers as tensors


class TritonPythonModel:
    """One llama.cpp server object; each request holds a thread while it is answered."""

    def initialize(self, args: dict[str, str]) -> None:
        import xllamacpp

        settings = tensors.engine_args(args)
        wanted = llamacpp_serve.parameters(settings)
        self.server = xllamacpp.Server(wanted)
        pb_utils.Logger.log_info(llamacpp_serve.announcement(wanted))
        self.threads = ThreadPoolExecutor(max_workers=2 * settings["slots"] + 2)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.threads.submit(self._serve, request)

    def _serve(self, request: Any) -> None:
        sender = request.get_response_sender()
        try:
            want = tensors.asked(request)
            if want.engine_metrics:
                sender.send(tensors.metrics_answer(self.server.handle_metrics()))
            else:
                self._generate(want, sender)
        except Exception as error:
            sender.send(tensors.failure(error))
        finally:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _generate(self, want: tensors.Asked, sender: Any) -> None:
        body = {
            **want.sampling,
            "prompt": want.text,
            "stream": want.stream,
            "timings_per_token": True,
            "stream_options": {"include_usage": True},
        }
        sent = 0

        def emit(event: dict[str, Any]) -> bool:
            nonlocal sent
            if "error" in event:
                raise RuntimeError(event["error"])
            so_far = event["timings"]["predicted_n"]
            usage = event.get("usage") or {}
            choice = event["choices"][0]
            sender.send(
                tensors.answer(
                    want,
                    choice["text"],
                    finish_reason=choice["finish_reason"],
                    input_tokens=usage.get("prompt_tokens"),
                    output_tokens=so_far - sent,
                    cached_tokens=event["timings"]["cache_n"],
                )
            )
            sent = so_far
            return bool(sender.is_cancelled())

        if want.stream:
            self.server.handle_completions(body, emit)
        else:
            emit(self.server.handle_completions(body))

    def finalize(self) -> None:
        self.threads.shutdown(wait=True)
        del self.server
