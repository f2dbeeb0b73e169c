# SPDX-License-Identifier: Apache-2.0
"""How a checkpoint becomes a compiled TensorRT-LLM engine: convert or quantize, then build, each kept under a key.

Flags: examples/*/convert_checkpoint.py, examples/quantization/quantize.py and tensorrt_llm/commands/build.py of
NVIDIA/TensorRT-LLM up to 1.2; the whole path is gone from 1.3 on. Every flag is written out, since defaults moved.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from engines import trtllm_settings
from engines.inside_files import inside_path
from engines.launch import Checkpoint, Command, Knobs, Place, PlanError, Speculation, refuse_unused

FAMILIES: Final[Mapping[str, str]] = {
    "LlamaForCausalLM": "models/core/llama",
    "MistralForCausalLM": "models/core/llama",
    "MixtralForCausalLM": "models/core/llama",
    "Qwen2ForCausalLM": "models/core/qwen",
    "Qwen2MoeForCausalLM": "models/core/qwen",
    "Qwen3ForCausalLM": "models/core/qwen",
    "Qwen3MoeForCausalLM": "models/core/qwen",
    "GemmaForCausalLM": "models/core/gemma",
    "Gemma2ForCausalLM": "models/core/gemma",
    "Phi3ForCausalLM": "models/core/phi",
}
"""Converters by architecture: examples/models/core."""

MODES: Final[Mapping[str, str]] = {
    "draft_target": "draft_tokens_external",
    "medusa": "medusa",
    "redrafter": "explicit_draft_tokens",
    "lookahead": "lookahead_decoding",
    "eagle": "eagle",
}
"""Speculation by the names of `trtllm-build --speculative_decoding_mode`."""

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "draft_target": ("model",),
    "medusa": ("model", "choices"),
    "redrafter": ("model",),
    "lookahead": ("window", "ngram", "verification"),
    "eagle": ("model", "choices"),
}
"""Keys of the knob that each kind has."""

WEIGHT_ONLY: Final[Mapping[str, str]] = {"int8_weight_only": "int8", "int4_weight_only": "int4"}
CALIBRATED: Final[Mapping[str, tuple[str, ...]]] = {
    "fp8": ("--qformat", "fp8", "--calib_size", "512"),
    "int4_awq": ("--qformat", "int4_awq", "--awq_block_size", "128", "--calib_size", "32"),
    "int8_sq": ("--qformat", "int8_sq", "--calib_size", "512"),
}
"""Made by examples/quantization/quantize.py, which calibrates."""

REDRAFTER_BEAMS: Final = 4
EAGLE_LAYERS: Final = 4
LAST: Final = (1, 2)
"""The last minor release that builds: the pull requests 15763, 15907, 15918 and 16369 took the path away."""


@dataclass(frozen=True)
class Build:
    """The folder of an engine and the commands that make it, where it is not there yet."""

    engine: str
    commands: tuple[Command, ...]


def unsupported(checkpoint: Checkpoint, version: str) -> str | None:
    """Why there is no compiled engine of this checkpoint in this release."""
    if version and not trtllm_settings.up_to(version, LAST):
        return f"TensorRT-LLM {version} compiles no engines (end of life after 1.2.1); use an image up to 26.07"
    if checkpoint.architecture not in FAMILIES:
        return f"TensorRT-LLM has no converter for the architecture {checkpoint.architecture}"
    return None


def build(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Build:
    """Engine and commands. An engine is reused only under the same version, GPU, weights and flags: another GPU
    architecture is another key, and a file beside the engine names the GPU that it was built on."""
    given = knobs.extra.get("engine_dir")
    if given is not None:
        _refuse_built_in(knobs)
        return Build(str(given), (_check(str(given), place),))
    converted = _converted(checkpoint, knobs, place)
    flags = build_flags(knobs)
    engine = _kept(place, "engine", converted.engine, flags)
    argv = (place.python, f"{trtllm_settings.vendor(place).bin}/trtllm-build", "--checkpoint_dir", converted.engine)
    made = f"{engine}/config.json"
    words = tuple(word for name, value in flags.items() for word in (f"--{name}", str(value)))
    stamp = Command(_facts(place, "write", engine), creates=f"{engine}/built_on.json")
    compiled = Command((*argv, "--output_dir", engine, *words), place.gpu_env, creates=made)
    return Build(engine, (*converted.commands, compiled, stamp, _check(engine, place)))


def _refuse_built_in(knobs: Knobs) -> None:
    for name, written in (
        ("quantization", knobs.quantization is not None),
        ("kv_cache_dtype", knobs.kv_cache_dtype != "auto"),
        ("block_size", knobs.block_size is not None),
    ):
        if written:
            raise PlanError(
                f"knobs.{name}: the engine that knobs.extra.engine_dir names has its own; leave the key out"
            )


def _check(engine: str, place: Place) -> Command:
    return Command(_facts(place, "check", engine))


def _facts(place: Place, verb: str, engine: str) -> tuple[str, ...]:
    return (place.python, inside_path("engine_facts.py"), verb, engine, place.version, place.gpu)


def _kept(place: Place, kind: str, *parts: Any) -> str:
    """A folder kept between lives, named by what it is made of."""
    facts = json.dumps([place.version, place.gpu, *parts], sort_keys=True, default=str)
    where = re.sub(r"[^A-Za-z0-9]+", "-", f"{place.version} {place.gpu}").strip("-").lower()
    return f"{place.cache}/tensorrt-llm/{where}/{kind}-{hashlib.sha256(facts.encode()).hexdigest()[:16]}"


def _converted(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> Build:
    """A checkpoint in TensorRT-LLM's own form."""
    argv, base = _convert_argv(checkpoint, knobs, place)
    target = _kept(place, "checkpoint", checkpoint.sha256, argv[1:])
    command = Command((*argv, "--output_dir", target), place.gpu_env, creates=f"{target}/config.json")
    return Build(target, (*base, command))


def _convert_argv(checkpoint: Checkpoint, knobs: Knobs, place: Place) -> tuple[tuple[str, ...], tuple[Command, ...]]:
    """The converter with its arguments, and the commands that have to run before it."""
    examples = trtllm_settings.vendor(place).examples
    shape = ("--tp_size", str(knobs.tensor_parallel), "--pp_size", str(knobs.pipeline_parallel))
    dtype = ("--dtype", knobs.dtype)
    speculation = knobs.speculation
    if knobs.quantization is not None and knobs.quantization in CALIBRATED:
        tool = (place.python, f"{examples}/quantization/quantize.py", "--model_dir", checkpoint.folder)
        kv = () if knobs.kv_cache_dtype == "auto" else ("--kv_cache_dtype", knobs.kv_cache_dtype)
        return (*tool, *dtype, *CALIBRATED[knobs.quantization], *kv, *shape), ()
    options = (*dtype, *shape, "--workers", str(knobs.tensor_parallel * knobs.pipeline_parallel), *_precision(knobs))
    if speculation is not None and speculation.kind in ("medusa", "eagle", "redrafter"):
        return _convert_heads(checkpoint, knobs, place, speculation, options)
    script = f"{examples}/{FAMILIES[checkpoint.architecture or '']}/convert_checkpoint.py"
    return (place.python, script, "--model_dir", checkpoint.folder, *options), ()


def _convert_heads(
    checkpoint: Checkpoint, knobs: Knobs, place: Place, wanted: Speculation, options: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[Command, ...]]:
    """Converters of models with extra heads; ReDrafter's starts from a converted base."""
    examples = trtllm_settings.vendor(place).examples
    heads = _model_of(wanted)
    script = (place.python, f"{examples}/{wanted.kind}/convert_checkpoint.py")
    if wanted.kind == "redrafter":
        base = _converted(checkpoint, replace(knobs, speculation=None), place)
        draft = ("--redrafter_num_beams", str(REDRAFTER_BEAMS), "--redrafter_draft_len_per_beam", str(wanted.tokens))
        sources = ("--base_model_checkpoint_dir", base.engine, "--drafter_model_dir", heads)
        return (*script, *sources, *options[:2], *draft), base.commands
    model = ("--model_dir", checkpoint.folder, f"--{wanted.kind}_model_dir", heads)
    if wanted.kind == "medusa":
        deepest = max(len(path) for path in _choices_of(wanted))
        return (*script, *model, *options, "--num_medusa_heads", str(deepest)), ()
    depth = ("--max_draft_len", str(wanted.tokens), "--num_eagle_layers", str(EAGLE_LAYERS))
    return (*script, *model, *options, *depth, "--max_non_leaves_per_layer", "10"), ()


def _model_of(wanted: Speculation) -> str:
    if wanted.model is None:
        raise PlanError(f"knobs.speculation.model: missing; {wanted.kind} needs the folder of its heads or draft model")
    return wanted.model


def _choices_of(wanted: Speculation) -> tuple[tuple[int, ...], ...]:
    if not wanted.choices:
        raise PlanError(f"knobs.speculation.choices: missing; {wanted.kind} drafts along a tree of choices")
    return wanted.choices


def _precision(knobs: Knobs) -> tuple[str, ...]:
    flags: tuple[str, ...] = ()
    if knobs.quantization is not None and knobs.quantization in WEIGHT_ONLY:
        flags = ("--use_weight_only", "--weight_only_precision", WEIGHT_ONLY[knobs.quantization])
    elif knobs.quantization is not None:
        known = ", ".join(sorted([*WEIGHT_ONLY, *CALIBRATED]))
        raise PlanError(f"knobs.quantization: compiled engines have {known}, not {knobs.quantization}")
    return flags if knobs.kv_cache_dtype == "auto" else (*flags, f"--{knobs.kv_cache_dtype}_kv_cache")


def build_flags(knobs: Knobs) -> dict[str, Any]:
    """trtllm-build's flags by name. Paged caches, packed input and paged context FMHA are what in-flight batching,
    reuse and chunked prefill rest on. Raises PlanError."""
    if knobs.max_num_batched_tokens is None:
        raise PlanError("knobs.max_num_batched_tokens: not set; a compiled engine is built for it")
    mode = knobs.speculation and MODES.get(knobs.speculation.kind)
    if knobs.speculation is not None and mode is None:
        known = ", ".join(sorted(MODES))
        raise PlanError(f"knobs.speculation.kind: compiled engines have {known}, not {knobs.speculation.kind}")
    if knobs.speculation is not None:
        refuse_unused(knobs.speculation, *KEYS[knobs.speculation.kind])
    flags: dict[str, Any] = {
        "max_batch_size": knobs.max_num_seqs,
        "max_input_len": knobs.max_model_len,
        "max_seq_len": knobs.max_model_len,
        "max_num_tokens": knobs.max_num_batched_tokens,
        "opt_num_tokens": knobs.max_num_seqs,
        "max_beam_width": 1,
        "gemm_plugin": "auto",
        "gpt_attention_plugin": "auto",
        "remove_input_padding": "enable",
        "context_fmha": "enable",
        "kv_cache_type": "paged",
        "use_paged_context_fmha": "enable",
        "use_fp8_context_fmha": "enable" if knobs.quantization == "fp8" else "disable",
        "tokens_per_block": knobs.block_size or trtllm_settings.BLOCK_TOKENS,
        "multiple_profiles": "disable",
        "reduce_fusion": "disable",
        "logits_dtype": "float32",
        "workers": knobs.tensor_parallel * knobs.pipeline_parallel,
    }
    if knobs.speculation is not None and mode is not None:
        flags |= {"speculative_decoding_mode": mode, "max_draft_len": knobs.speculation.tokens}
    return flags | {name: value for name, value in knobs.extra.items() if name in BUILD_EXTRAS}


BUILD_EXTRAS: Final = frozenset(("gemm_plugin", "multiple_profiles", "reduce_fusion", "opt_num_tokens", "context_fmha"))
"""Flags of the build that no knob says."""
