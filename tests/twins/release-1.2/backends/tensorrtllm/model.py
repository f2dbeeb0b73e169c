# SPDX-License-Identifier: Apache-2.0
"""The compiled engine's backend: token ids in, token ids out, one response a step, metrics as numbers."""

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from runtime import Metrics, Request, Runtime

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    """A Triton backend in Python, in the place of the one in C++."""

    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        self.parameters = {name: value["string_value"] for name, value in config["parameters"].items()}
        engine = json.loads((Path(self.parameters["gpt_model_path"]) / "config.json").read_text("utf-8"))
        build = engine["build_config"]
        self.decoupled = config["model_transaction_policy"]["decoupled"]
        self.runtime = Runtime(
            engine["pretrained_config"]["twin_of"],
            block=build["tokens_per_block"],
            reuse=self.parameters["enable_kv_cache_reuse"] == "true" and build["use_paged_context_fmha"] == "enable",
            draft=build["max_draft_len"],
        )
        capacity = self.parameters["max_tokens_in_paged_kv_cache"]
        self._tell(engine["version"], build, "65536" if capacity.startswith("${") else capacity)
        self._gauge("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", tokens_per=build["tokens_per_block"])
        self.running = self._gauge("nv_trt_llm_request_metrics", "request_type", active=0, waiting=0)["active"]
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def _tell(self, version: str, build: dict[str, Any], capacity: str) -> None:
        """The C++ runtime's lines."""
        for line in (
            f"Engine version {version} found in the config file, assuming engine(s) built by new builder API.",
            f"TRTGptModel maxBatchSize: {build['max_batch_size']}",
            f"TRTGptModel maxSequenceLen: {build['max_seq_len']}",
            f"TRTGptModel maxDraftLen: {build['max_draft_len']}",
            f"TRTGptModel maxNumTokens: {build['max_num_tokens']}",
            f"Number of tokens per block: {build['tokens_per_block']}.",
            f"[MemUsageChange] Allocated 0.00 GiB for max tokens in paged KV cache ({capacity}).",
        ):
            print(f"[TensorRT-LLM][INFO] {line}", flush=True)

    def _gauge(self, name: str, label: str, **values: int) -> dict[str, Any]:
        family = pb_utils.MetricFamily(name=name, description=name, kind=pb_utils.MetricFamily.GAUGE)
        self.families = [*getattr(self, "families", []), family]
        gauges = {kind: family.Metric(labels={"model": "tensorrt_llm", "version": "1", label: kind}) for kind in values}
        for kind, value in values.items():
            gauges[kind].set(value)
        return gauges

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            asyncio.run_coroutine_threadsafe(self._serve(request, request.get_response_sender()), self.loop)

    async def _serve(self, request: Any, sender: Any) -> None:
        ids = [int(i) for i in _array(request, "input_ids").flatten()]
        streaming = bool(_scalar(request, "streaming", False))
        asked = Request("", ids, int(_scalar(request, "request_output_len")), {})
        if streaming and not self.decoupled:
            error = pb_utils.TritonError("Streaming is only supported in decoupled mode.")
            sender.send(pb_utils.InferenceResponse(error=error), flags=FINAL)
            return
        self.running.increment(1)
        echo = not streaming and not _scalar(request, "exclude_input_in_output", False)
        made: list[int] = list(ids) if echo else []
        for pause_s, step in self.runtime.answer(asked):
            await asyncio.sleep(pause_s)
            made += step.ids
            last = step.finish is not None
            if streaming or last:
                response = self._response(
                    request, step.ids if streaming else made, len(ids), step.metrics if last else None
                )
                sender.send(response, flags=FINAL if last else 0)
        self.running.increment(-1)

    def _response(self, request: Any, ids: list[int], prompt: int, metrics: Metrics | None) -> Any:
        tensors = [_tensor("output_ids", [[ids]]), _tensor("sequence_length", [[len(ids)]])]
        if _scalar(request, "return_num_input_tokens", False):
            tensors.append(_tensor("num_input_tokens", [[prompt]]))
        if _scalar(request, "return_num_output_tokens", False):
            tensors.append(_tensor("num_output_tokens", [[len(ids)]]))
        if metrics is not None and _scalar(request, "return_perf_metrics", False):
            drafted, accepted = self.runtime.drafting(metrics)
            tensors += [
                _tensor("kv_cache_reused_blocks", [[metrics.reused]]),
                _tensor("kv_cache_alloc_new_blocks", [[metrics.new]]),
                _tensor("kv_cache_alloc_total_blocks", [[metrics.total]]),
                _tensor("arrival_time_ns", [[metrics.arrival_ns]], np.int64),
                _tensor("first_scheduled_time_ns", [[metrics.scheduled_ns]], np.int64),
                _tensor("first_token_time_ns", [[metrics.first_ns]], np.int64),
                _tensor("last_token_time_ns", [[metrics.last_ns]], np.int64),
                _tensor("acceptance_rate", [[accepted / drafted if drafted else 0.0]], np.float32),
                _tensor("total_accepted_draft_tokens", [[accepted]]),
                _tensor("total_draft_tokens", [[drafted]]),
            ]
        return pb_utils.InferenceResponse(tensors)


def _array(request: Any, name: str) -> Any:
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()


def _scalar(request: Any, name: str, default: Any = None) -> Any:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().flatten()[0]


def _tensor(name: str, value: Any, kind: Any = np.int32) -> Any:
    return pb_utils.Tensor(name, np.array(value, dtype=kind))
