# SPDX-License-Identifier: Apache-2.0
"""Launches that are held by files of tests/golden; this program writes those anew, to be read before they are kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from engines.launch import Checkpoint, Knobs, Launch, Place, Speculation, Vendor
from engines.registry import ENGINES
from runners.plan_text import plan_text

GOLDEN: Final = Path(__file__).parent / "golden"
CHECKPOINT: Final = Checkpoint("/models/llama", "ab" * 32, None, 8192, "LlamaForCausalLM")
KNOBS: Final = Knobs(
    max_model_len=4096,
    max_num_seqs=64,
    max_num_batched_tokens=8192,
    dtype="bfloat16",
    kv_cache_tokens=262144,
    block_size=32,
)
PLACE: Final = Place(
    python="python3",
    site_packages="",
    lib_dir="",
    python_version="3.12",
    version="1.2.1",
    folder="/life",
    cache="/cache",
    served_name="served",
    http_port=18100,
    grpc_port=18101,
    metrics_port=18102,
    gpus=(0,),
    gpu="NVIDIA H200 sm90",
    triton="/opt/tritonserver",
    vendor=Vendor("/app", "/app/examples", "/usr/local/bin"),
)
TREE: Final = ((0,), (0, 0), (1,), (0, 1))


def _spec(kind: str, tokens: int, **fields: Any) -> dict[str, Any]:
    return {"speculation": Speculation(kind, tokens, **fields)}


CASES: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any]]]] = {
    "llmapi": ("triton_llmapi", {}, {}),
    "llmapi-1.3-eagle3": ("triton_llmapi", _spec("eagle3", 3, model="/models/eagle3"), {"version": "1.3.0rc15"}),
    "llmapi-two-instances": (
        "triton_llmapi",
        {"tensor_parallel": 2, "extra": {"instances": 2}},
        {"gpus": (0, 1, 2, 3)},
    ),
    "trtllm-serve-ngram": ("trtllm_serve", _spec("ngram", 4), {}),
    "engine": ("triton_engine", {}, {}),
    "engine-tp2": ("triton_engine", {"tensor_parallel": 2}, {"gpus": (0, 1)}),
    "engine-bls": ("triton_engine", {"extra": {"front": "bls"}}, {}),
    "engine-fp8": ("triton_engine", {"quantization": "fp8", "kv_cache_dtype": "fp8"}, {}),
    "engine-int8": ("triton_engine", {"quantization": "int8_weight_only", "dtype": "float16"}, {}),
    "engine-int4-awq": ("triton_engine", {"quantization": "int4_awq", "dtype": "float16"}, {}),
    "engine-medusa": ("triton_engine", _spec("medusa", 63, model="/models/medusa", choices=TREE), {}),
    "engine-eagle": ("triton_engine", _spec("eagle", 63, model="/models/eagle", choices=TREE), {}),
    "engine-redrafter": ("triton_engine", _spec("redrafter", 5, model="/models/redrafter"), {}),
    "engine-lookahead": ("triton_engine", _spec("lookahead", 83, window=7, ngram=7, verification=7), {}),
    "engine-draft-target": ("triton_engine", _spec("draft_target", 5, model="/models/draft"), {"gpus": (0, 1)}),
}
"""Engine, changed knobs, changed place."""


def launch_of(name: str) -> Launch:
    engine, knobs, place = CASES[name]
    return ENGINES[engine].plan(CHECKPOINT, replace(KNOBS, **knobs), replace(PLACE, **place))


def text_of(name: str) -> str:
    """Programs of this tool stand without the way to them."""
    inside = str(Path(__file__).parent.parent / "engines" / "inside")
    return plan_text(launch_of(name)).replace(inside, "INSIDE")


if __name__ == "__main__":
    for case in CASES:
        (GOLDEN / f"{case}.txt").write_text(text_of(case), "utf-8")
