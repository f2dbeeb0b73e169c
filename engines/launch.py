# SPDX-License-Identifier: Apache-2.0
"""What an engine is told and what it makes of it: checkpoint, knobs and place in, a launch out. All pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final


class PlanError(ValueError):
    """A knob that this engine cannot honour; the message names the knob and what would be right."""


@dataclass(frozen=True)
class Checkpoint:
    """A Hugging Face folder on this machine.

    `revision` is the commit of the hub, or None for a local folder; `sha256` covers the weight
    files, so it names the weights wherever the folder lies. `context` is in tokens, `architecture` the
    first that config.json names. `tokenizer_sha256` and `template_sha256` are of tokenizer.json and of the chat
    template's text, None where there is none; `files_sha256` covers every file that engines read beside the weights.
    """

    folder: str
    sha256: str
    revision: str | None
    context: int | None
    architecture: str | None = None
    tokenizer_sha256: str | None = None
    template_sha256: str | None = None
    files_sha256: str = ""

    @property
    def identity(self) -> str:
        """Names weights, tokenizer, template and settings together: what a converted copy is a copy of."""
        return sha256(f"{self.sha256} {self.files_sha256}".encode()).hexdigest()


MADE_BETWEEN_STEPS: Final = ("ngram", "draft_target")
"""Kinds whose drafts wait for the last step's tokens. vLLM 0.20.2 (config/vllm.py) and TensorRT-LLM schedule no step
ahead with them, newer releases of vLLM with n-grams only."""


@dataclass(frozen=True)
class Speculation:
    """Drafting of tokens ahead: `tokens` is the draft length in tokens, `model` the folder of the draft
    model or heads where the kind has one.

    `choices` is the tree of Medusa and EAGLE heads; `window`, `ngram` and `verification` are Lookahead's.
    """

    kind: str
    tokens: int
    model: str | None = None
    choices: tuple[tuple[int, ...], ...] | None = None
    window: int | None = None
    ngram: int | None = None
    verification: int | None = None


def refuse_unused(wanted: Speculation, *used: str) -> None:
    """Keys of speculation that this kind does not have in this engine. Raises PlanError."""
    written = {
        "model": wanted.model,
        "choices": wanted.choices,
        "window": wanted.window,
        "ngram": wanted.ngram,
        "verification": wanted.verification,
    }
    for name, value in written.items():
        if value is not None and name not in used:
            raise PlanError(f"knobs.speculation.{name}: {wanted.kind} has none in this engine; leave the key out")


def draft_model(wanted: Speculation) -> str:
    """The folder of a kind's draft model. Raises PlanError where none is named."""
    if wanted.model is None:
        raise PlanError(f"knobs.speculation.model: missing; {wanted.kind} needs the folder of its draft model")
    return wanted.model


@dataclass(frozen=True)
class Knobs:
    """Matched settings, said once and translated by each engine's `plan`.

    None leaves the choice to the engine; a knob that an engine lacks is a PlanError, never
    dropped. Lengths, batch limits and cache capacity are in tokens or sequences. `quantization` is what
    an engine makes of the weights itself; `async_scheduling` prepares a step while the one before it
    runs; `extra` are settings of one engine under its own names.
    """

    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int | None = None
    dtype: str = "auto"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_tokens: int | None = None
    block_size: int | None = None
    prefix_cache: bool = True
    chunked_prefill: bool = True
    cuda_graphs: bool = True
    async_scheduling: bool | None = None
    speculation: Speculation | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    threads: int | None = None
    seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


def overlaps(knobs: Knobs) -> bool:
    """Whether a step is prepared while the one before it runs: unless said otherwise, where the kind of speculation
    lets it. Raises PlanError where it is said and cannot be."""
    able = knobs.speculation is None or knobs.speculation.kind not in MADE_BETWEEN_STEPS
    if knobs.async_scheduling and not able:
        kind = knobs.speculation.kind if knobs.speculation else ""
        raise PlanError(f"knobs.async_scheduling: drafts of kind {kind} wait for the last step; say false")
    return able if knobs.async_scheduling is None else knobs.async_scheduling


@dataclass(frozen=True)
class Vendor:
    """Where NVIDIA's own files lie that no package index has: in its images, or in a checkout.

    `app` holds scripts/, tools/ and all_models/, `examples` the converters, `bin` the console scripts;
    `backends` are Triton backends beside the Python one, where the server is not an installed one.
    """

    app: str
    examples: str
    bin: str
    backends: str | None = None


@dataclass(frozen=True)
class Place:
    """Where a launch happens: an engine's environment, a folder of its own, ports, GPUs.

    `version` is the version of the package that `Engine.package` names, as installed there;
    `cache` is a folder kept between lives for what is derived from the checkpoint once. `triton` is the
    folder of an installed Triton; None where it is the server of the nvidia-pytriton wheel. `gpu` names
    the GPU's model and compute capability, as "NVIDIA H200 sm90".
    """

    python: str
    site_packages: str
    lib_dir: str
    python_version: str
    version: str
    folder: str
    cache: str
    served_name: str
    http_port: int
    grpc_port: int
    metrics_port: int
    gpus: tuple[int, ...] = ()
    gpu: str = ""
    triton: str | None = None
    vendor: Vendor | None = None

    @property
    def url(self) -> str:
        """Where the server answers over HTTP."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def gpu_env(self) -> dict[str, str]:
        """What makes a process see its GPUs only; nothing where it has none."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in self.gpus)} if self.gpus else {}


@dataclass(frozen=True)
class Command:
    """A program to run: its argv, what is added to its environment, and a file it makes once."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    creates: str | None = None


@dataclass(frozen=True)
class Launch:
    """Everything a runner needs to bring an engine up: files first, then commands, then the server.

    `files` maps paths below `Place.folder` to their text, `links` to the files they point at.
    `metrics_url` is where probes of the metrics port go, `grpc_url` (grpc://HOST:PORT) where Triton's
    calls go, `gpus` whose memory has to be free again after the end.
    """

    files: Mapping[str, str]
    links: Mapping[str, str]
    prepare: tuple[Command, ...]
    serve: Command
    url: str
    metrics_url: str
    ready_path: str
    ports: tuple[int, ...]
    gpus: tuple[int, ...] = ()
    grpc_url: str | None = None
