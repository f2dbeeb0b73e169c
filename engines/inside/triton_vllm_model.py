# SPDX-License-Identifier: Apache-2.0
"""Triton model: vLLM's AsyncLLM with the tensors of Triton's vLLM backend, run by Triton's Python stub.

The stub embeds Python with the C locale whatever the environment says, and vLLM's imports read
UTF-8 files, so the locale is set before them.
"""

import asyncio
import json
import locale
import queue
import threading
import uuid
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

locale.setlocale(locale.LC_CTYPE, "C.UTF-8")

import sys

import triton_python_backend_utils as pb_utils

sys.path.insert(0, str(Path(__file__).parent))
import triton_answers as tensors


@dataclass
class Client:
    """Who waits for a request's responses; `cancelled` is as of the last one that was sent."""

    sender: Any
    cancelled: bool = False


class Outbox:
    """Sends responses from a thread of its own, in order, the last of a request with its end, as Triton's vLLM backend
    does (src/model.py, 8de0c14): each is a round trip to the server's process, and the engine goes on meanwhile."""

    def __init__(self) -> None:
        self.responses: queue.SimpleQueue[tuple[Client, Any, bool] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._send_all, name="outbox", daemon=True)
        self.thread.start()

    def put(self, client: Client, response: Any, *, last: bool) -> None:
        """A response, or None for none, to be sent after those before it."""
        self.responses.put((client, response, last))

    def close(self) -> None:
        """Send what is left, and end."""
        self.responses.put(None)
        self.thread.join(5)

    def _send_all(self) -> None:
        while (item := self.responses.get()) is not None:
            try:
                _send(*item)
            except Exception as error:
                pb_utils.Logger.log_error(f"a response could not be sent: {error!r}")


def _send(client: Client, response: Any, last: bool) -> None:
    flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL if last else 0
    if response is None:
        client.sender.send(flags=flags)
    else:
        client.sender.send(response, flags)
    client.cancelled = not last and client.sender.is_cancelled()


class TritonPythonModel:
    """One engine on an event loop of its own; every request is a task there."""

    def initialize(self, args: dict[str, str]) -> None:
        engine_args = tensors.engine_args(args)
        self.outbox = Outbox()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="engine-loop", daemon=True)
        self.thread.start()
        starting = asyncio.run_coroutine_threadsafe(self._start(engine_args), self.loop)
        self.engine = starting.result()
        print("engine vllm settings", json.dumps(_settings(self.engine.vllm_config)), flush=True)

    async def _start(self, engine_args: dict[str, Any]) -> Any:
        import vllm
        from vllm.v1.engine.async_llm import AsyncLLM

        return AsyncLLM.from_engine_args(vllm.AsyncEngineArgs(**engine_args))

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            asyncio.run_coroutine_threadsafe(self._serve(request), self.loop)

    async def _serve(self, request: Any) -> None:
        client = Client(request.get_response_sender())
        try:
            want = tensors.asked(request)
            if want.engine_metrics:
                self.outbox.put(client, tensors.metrics_answer(_metrics_page()), last=True)
            else:
                await self._generate(want, client)
        except Exception as error:
            self.outbox.put(client, tensors.failure(error), last=True)

    async def _generate(self, want: tensors.Asked, client: Client) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        kind = RequestOutputKind.DELTA if want.stream else RequestOutputKind.FINAL_ONLY
        sampling = SamplingParams(**want.sampling, output_kind=kind)
        name = uuid.uuid4().hex
        async for output in self.engine.generate(want.text, sampling, name):
            if client.cancelled:
                await self.engine.abort(name)
                self.outbox.put(client, None, last=True)
                return
            completion = output.outputs[0]
            response = tensors.answer(
                want,
                completion.text,
                finish_reason=completion.finish_reason,
                input_tokens=len(output.prompt_token_ids or ()),
                output_tokens=len(completion.token_ids),
                cached_tokens=output.num_cached_tokens,
                spans_ns=_spans_ns(output),
            )
            self.outbox.put(client, response, last=output.finished)

    def finalize(self) -> None:
        self.engine.shutdown()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)
        self.outbox.close()


def _spans_ns(output: Any) -> list[int] | None:
    """Of a finished request, by the engine core's monotonic clock: vllm/v1/metrics/stats.py, 0.32.0."""
    stats = output.metrics
    if not output.finished or stats is None:
        return None
    stamps = (stats.queued_ts, stats.scheduled_ts, stats.first_token_ts, stats.last_token_ts)
    if not all(stamps):
        return None
    return [round((later - earlier) * 1e9) for earlier, later in pairwise(stamps)]


def _settings(config: Any) -> dict[str, Any]:
    """Settings in force that vLLM's own log does not say."""
    scheduler, model = config.scheduler_config, config.model_config
    return {
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "stream_interval": scheduler.stream_interval,
        "async_scheduling": bool(scheduler.async_scheduling),
        "generation_config": model.generation_config,
        "override_generation_config": model.override_generation_config,
    }


def _metrics_page() -> str:
    """vLLM keeps its counters in prometheus_client's registry of this process."""
    from prometheus_client import REGISTRY, generate_latest

    return generate_latest(REGISTRY).decode()
