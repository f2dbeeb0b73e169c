# SPDX-License-Identifier: Apache-2.0
"""Triton model: vLLM's AsyncLLM with the tensors of Triton's vLLM backend, run by Triton's Python stub.

The stub embeds Python with the C locale whatever the environment says, and vLLM's imports read
UTF-8 files, so the locale is set before them.
"""

import asyncio
import json
import locale
import threading
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any

locale.setlocale(locale.LC_CTYPE, "C.UTF-8")

import sys

import triton_python_backend_utils as pb_utils

sys.path.insert(0, str(Path(__file__).parent))
import triton_answers as tensors


class TritonPythonModel:
    """One engine on an event loop of its own; every request is a task there."""

    def initialize(self, args: dict[str, str]) -> None:
        engine_args = tensors.engine_args(args)
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
        sender = request.get_response_sender()
        try:
            want = tensors.asked(request)
            if want.engine_metrics:
                sender.send(tensors.metrics_answer(_metrics_page()))
            else:
                await self._generate(want, sender)
        except Exception as error:
            sender.send(tensors.failure(error))
        finally:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    async def _generate(self, want: tensors.Asked, sender: Any) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        kind = RequestOutputKind.DELTA if want.stream else RequestOutputKind.FINAL_ONLY
        sampling = SamplingParams(**want.sampling, output_kind=kind)
        name = uuid.uuid4().hex
        async for output in self.engine.generate(want.text, sampling, name):
            if sender.is_cancelled():
                await self.engine.abort(name)
                return
            completion = output.outputs[0]
            sender.send(
                tensors.answer(
                    want,
                    completion.text,
                    finish_reason=completion.finish_reason,
                    input_tokens=len(output.prompt_token_ids or ()),
                    output_tokens=len(completion.token_ids),
                    cached_tokens=output.num_cached_tokens,
                    spans_ns=_spans_ns(output),
                )
            )

    def finalize(self) -> None:
        self.engine.shutdown()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)


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
