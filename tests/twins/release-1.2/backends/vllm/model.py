# SPDX-License-Identifier: Apache-2.0
"""Triton's vLLM backend: tensors by auto-completion, text and counts as deltas, strange sampling fields an error."""

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from runtime import Runtime

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
FLAGS = ("stream", "exclude_input_in_output", "return_finish_reason", "return_cumulative_logprob", "return_logprobs")
FLAGS += ("return_num_input_tokens", "return_num_output_tokens")
OUTPUTS = (("text_output", "TYPE_STRING", -1), ("finish_reason", "TYPE_STRING", -1), ("logprobs", "TYPE_STRING", -1))
OUTPUTS += (("cumulative_logprob", "TYPE_FP32", -1), ("num_input_tokens", "TYPE_UINT32", 1))
OUTPUTS += (("num_output_tokens", "TYPE_UINT32", -1),)
SAMPLING = frozenset(
    (
        *("max_tokens", "min_tokens", "ignore_eos", "temperature", "top_p", "top_k", "min_p", "seed", "stop"),
        *("repetition_penalty", "presence_penalty", "frequency_penalty"),
    )
)


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config: Any) -> Any:
        config.add_input({"name": "text_input", "data_type": "TYPE_STRING", "dims": [1]})
        config.add_input({"name": "sampling_parameters", "data_type": "TYPE_STRING", "dims": [1], "optional": True})
        for name in FLAGS:
            config.add_input({"name": name, "data_type": "TYPE_BOOL", "dims": [1], "optional": True})
        for name, kind, size in OUTPUTS:
            config.add_output({"name": name, "data_type": kind, "dims": [size]})
        config.set_model_transaction_policy({"decoupled": True})
        config.set_max_batch_size(0)
        return config

    def initialize(self, args: dict[str, str]) -> None:
        folder = Path(args["model_repository"]) / args["model_version"]
        arguments = json.loads((folder / "model.json").read_text("utf-8"))
        drafting = arguments.get("speculative_config") or {}
        self.runtime = Runtime(
            arguments["model"],
            block=arguments.get("block_size", 16),
            reuse=arguments["enable_prefix_caching"],
            draft=drafting.get("num_speculative_tokens", 0),
        )
        told = ", ".join(
            (
                f"dtype=torch.{arguments['dtype']}",
                f"max_seq_len={arguments['max_model_len']}",
                f"tensor_parallel_size={arguments['tensor_parallel_size']}",
                f"enable_chunked_prefill={arguments['enable_chunked_prefill']}",
                "speculative_config=None",
                f"enforce_eager={arguments.get('enforce_eager', False)}",
            )
        )
        print(f"INFO Initializing a V1 LLM engine (v0.24.0+twin) with config: {told}", flush=True)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            asyncio.run_coroutine_threadsafe(self._serve(request), self.loop)

    async def _serve(self, request: Any) -> None:
        sender = request.get_response_sender()
        try:
            await self._generate(request, sender)
        except Exception as error:
            told = pb_utils.TritonError(f"Error generating stream: {error}")
            sender.send(pb_utils.InferenceResponse(error=told), flags=FINAL)

    async def _generate(self, request: Any, sender: Any) -> None:
        """Without the sampling tensor, every request parameter is a sampling field: an id, too."""
        given = _scalar(request, "sampling_parameters")
        sampling = json.loads(given.decode() if given is not None else request.parameters() or "{}")
        strange = sorted(set(sampling) - SAMPLING)
        if strange:
            raise TypeError(f"Unexpected keyword argument '{strange[0]}'")
        streaming, excluded = bool(_scalar(request, "stream", False)), _scalar(request, "exclude_input_in_output")
        if streaming and excluded is not None and not excluded:
            raise ValueError("When streaming, `exclude_input_in_output` = False is not allowed.")
        text = _scalar(request, "text_input").decode("utf-8")
        asked = self.runtime.request(text, int(sampling.get("max_tokens", 16)))
        made: list[int] = []
        for pause_s, step in self.runtime.answer(asked):
            await asyncio.sleep(pause_s)
            made += step.ids
            if streaming or step.finish:
                answer = self.runtime.text(step.ids if streaming else made)
                prompt = "" if streaming or excluded else text
                count = len(step.ids) if streaming else len(made)
                response = _response(request, prompt + answer, step.finish, len(asked.ids), count)
                sender.send(response, flags=FINAL if step.finish else 0)

    def finalize(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)


def _response(request: Any, text: str, finish: str | None, prompt: int, count: int) -> Any:
    tensors = [_strings("text_output", text)]
    if _scalar(request, "return_finish_reason", False):
        tensors.append(_strings("finish_reason", str(finish)))
    if _scalar(request, "return_num_input_tokens", False):
        tensors.append(pb_utils.Tensor("num_input_tokens", np.array([prompt], dtype=np.uint32)))
    if _scalar(request, "return_num_output_tokens", False):
        tensors.append(pb_utils.Tensor("num_output_tokens", np.array([count], dtype=np.uint32)))
    return pb_utils.InferenceResponse(tensors)


def _scalar(request: Any, name: str, default: Any = None) -> Any:
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().flatten()[0]


def _strings(name: str, value: str) -> Any:
    return pb_utils.Tensor(name, np.array([value.encode()], dtype=np.object_))
