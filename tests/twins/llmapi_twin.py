# SPDX-License-Identifier: Apache-2.0
"""The LLM API model of both generations, as far as a client can tell them apart.

What each does was seen of NVIDIA's own wrapper on a real Triton 2.51. The newer sends nothing where an error comes
before the request is in its table; the older never streams.
"""

import asyncio
import json
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
import yaml
from runtime import Metrics, Refused, Request, Runtime

KNOWN = frozenset(
    (
        *(
            "model",
            "tokenizer",
            "backend",
            "dtype",
            "tensor_parallel_size",
            "pipeline_parallel_size",
            "max_batch_size",
            "max_seq_len",
        ),
        *("max_num_tokens", "enable_chunked_prefill", "stream_interval", "return_perf_metrics", "kv_cache_config"),
        *("cuda_graph_config", "speculative_config", "disable_overlap_scheduler", "enable_iter_perf_stats"),
    )
)
FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
CANCELLED = "Request cancelled by client"


class Silent(Exception):
    """An error that nobody is told."""


@dataclass
class Live:
    """A request in the table."""

    user_id: str
    request: Request
    sender: Any
    streaming: bool
    told: bool = False


def scalar(request: Any, name: str, default: Any = None) -> Any:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().flatten()[0]


def strings(name: str, value: object) -> Any:
    return pb_utils.Tensor(name, np.array([str(value).encode()], dtype=np.object_))


class LlmApiTwin:
    """`newer` is the generation from 1.3 on."""

    newer = False
    version = "0"

    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        """The policy of model.yaml, where the server asks for it."""
        triton = _settings()["triton_config"]
        config.set_model_transaction_policy({"decoupled": bool(triton["decoupled"])})
        config.set_max_batch_size(int(triton["max_batch_size"]))
        return config

    def initialize(self, args: dict[str, str]) -> None:
        settings = _settings()
        self.decoupled = bool(settings.pop("triton_config")["decoupled"])
        unknown = set(settings) - KNOWN
        if unknown:
            raise ValueError(f"LlmArgs: extra fields not permitted: {', '.join(sorted(unknown))}")
        print(f"[TensorRT-LLM] TensorRT LLM version: {self.version}", flush=True)
        pb_utils.Logger.log_info(f"[trtllm] Starting trtllm engine with args: {settings}")
        cache, drafting = settings["kv_cache_config"], settings.get("speculative_config") or {}
        self.runtime = Runtime(
            settings["model"],
            block=cache["tokens_per_block"],
            reuse=cache["enable_block_reuse"],
            draft=drafting.get("max_draft_len", 0),
            reports_drafts=self.newer,
        )
        capacity = cache.get("max_tokens", 65536)
        print(f"[TensorRT-LLM][INFO] Number of tokens per block: {cache['tokens_per_block']}.", flush=True)
        print(
            f"[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.00 GiB for max tokens in paged KV cache ({capacity}).",
            flush=True,
        )
        self.live: dict[int, Live] = {}
        self.by_user: dict[str, int] = {}
        self.winding: set[str] = set()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._watch(), self.loop)

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            asyncio.run_coroutine_threadsafe(self._serve(request), self.loop)

    async def _serve(self, request: Any) -> None:
        sender = request.get_response_sender()
        try:
            if scalar(request, "stop", False):
                self._stop(request, sender)
                return
            await self._generate(request, sender)
        except Silent as error:
            pb_utils.Logger.log_error(f"[trtllm] Error generating request: {error}")
        except Exception as error:
            pb_utils.Logger.log_error(f"[trtllm] Error generating request: {error}")
            _fail(sender, f"Error generating request: {error}")

    def _stop(self, request: Any, sender: Any) -> None:
        """Always answered by an error, the same whether there was such a request; while one winds down, not at all."""
        user_id = request.request_id()
        if not user_id:
            raise ValueError("A request id must be provided for request cancellation")
        if user_id in self.winding:
            raise Silent(user_id)
        live = self.live.get(self.by_user.pop(user_id, -1))
        if live is not None:
            live.request.cancelled = live.told = True
            self.winding.add(user_id)
            if self.newer:
                _fail(live.sender, CANCELLED)
            elif live.streaming:
                response = [strings("text_output", ""), strings("finish_reason", "cancelled")]
                live.sender.send(pb_utils.InferenceResponse(response), flags=FINAL)
        _fail(sender, CANCELLED)

    def _read(self, request: Any) -> tuple[str, bool, int]:
        """Errors here come before the request is in the table."""
        texts = pb_utils.get_input_tensor_by_name(request, "text_input")
        streaming = bool(scalar(request, "streaming", False))
        if texts is None:
            raise ValueError("text_input is missing from the request")
        text = texts.as_numpy()[0].decode("utf-8")
        if streaming and not self.decoupled:
            raise ValueError("Streaming is only supported in decoupled mode.")
        return text, streaming, int(scalar(request, "sampling_param_max_tokens", 32))

    async def _generate(self, request: Any, sender: Any) -> None:
        try:
            text, streaming, max_tokens = self._read(request)
            asked = self.runtime.request(text, max_tokens)
        except (ValueError, IndexError, Refused) as error:
            raise (Silent if self.newer else ValueError)(str(error)) from None
        live = Live(request.request_id(), asked, sender, streaming)
        self.live[id(live)] = live
        if live.user_id:
            self.by_user[live.user_id] = id(live)
        try:
            await self._steps(live, request)
        finally:
            del self.live[id(live)]
            self.by_user.pop(live.user_id, None)
            self.winding.discard(live.user_id)

    async def _steps(self, live: Live, request: Any) -> None:
        """Events with the text so far; or, in the older generation, the whole at the end."""
        asked, ids = live.request, []
        by_event = self.newer and live.streaming
        prompt = "" if by_event or scalar(request, "sampling_param_exclude_input_from_output", False) else asked.text
        waiting: Any = None
        metrics = Metrics(0, 0)
        for pause_s, step in self.runtime.answer(asked):
            await asyncio.sleep(pause_s)
            if asked.cancelled:
                return
            if "die" in asked.orders and ids:
                os._exit(9)
            if len(ids) + len(step.ids) >= asked.orders.get("fail_at", 1 << 30):
                raise RuntimeError("the executor failed")
            if waiting is not None:
                live.sender.send(waiting)
            ids += step.ids
            metrics, finish, waiting = step.metrics, step.finish, None
            if by_event and finish is None:
                waiting = self._response(request, self.runtime.text(ids), None, None)
        if waiting is not None:
            live.sender.send(waiting)
        if by_event and finish is None:
            live.sender.send(flags=FINAL)
        elif finish is not None or not live.streaming:
            live.sender.send(self._response(request, prompt + self.runtime.text(ids), finish, metrics), flags=FINAL)

    def _response(self, request: Any, text: str, finish: str | None, metrics: Metrics | None) -> Any:
        tensors = [strings("text_output", text)]
        if scalar(request, "return_finish_reason", False):
            tensors.append(strings("finish_reason", finish))
        if metrics is not None and scalar(request, "sampling_param_return_perf_metrics", False):
            tensors += [strings(name, value) for name, value in self._perf(metrics).items()]
        return pb_utils.InferenceResponse(tensors)

    def _perf(self, metrics: Metrics) -> dict[str, object]:
        """Text, whatever the configuration declares."""
        drafted, accepted = self.runtime.drafting(metrics)
        return {
            "kv_cache_reused_block": metrics.reused,
            "kv_cache_missed_block": metrics.missed,
            "kv_cache_alloc_new_blocks": metrics.new,
            "kv_cache_alloc_total_blocks": metrics.total,
            "kv_cache_hit_rate": metrics.reused / (metrics.reused + metrics.missed),
            "arrival_time_ns": metrics.arrival_ns,
            "first_scheduled_time_ns": metrics.scheduled_ns,
            "first_token_time_ns": metrics.first_ns,
            "last_token_time_ns": metrics.last_ns,
            "acceptance_rate": accepted / drafted if drafted else 0.0,
            "total_accepted_draft_tokens": accepted,
            "total_draft_tokens": drafted,
        }

    async def _watch(self) -> None:
        """A client that is gone is noticed by the sender only after a write to it has failed."""
        while True:
            await asyncio.sleep(0.1)
            for live in list(self.live.values()):
                live.request.cancelled = live.request.cancelled or live.sender.is_cancelled()

    def finalize(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)


def _fail(sender: Any, message: str) -> None:
    sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(message)), flags=FINAL)


def _settings() -> dict[str, Any]:
    path = Path(pb_utils.get_model_dir()) / os.environ.get("LLM_CONFIG_PATH", "model.yaml")
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return json.loads(json.dumps(found))
