# SPDX-License-Identifier: Apache-2.0
"""Serves a GGUF file with llama.cpp's own HTTP server: llamacpp_serve.py SETTINGS.json

The settings are those of `engines/llamacpp_settings.py`, with `port` and `served_name`.
"""

import importlib.metadata
import json
import signal
import sys
from pathlib import Path
from typing import Any

import xllamacpp


def parameters(settings: dict[str, Any]) -> Any:
    """llama.cpp's parameters; the server listens on loopback only."""
    p = xllamacpp.CommonParams()
    p.model.path = settings["gguf"]
    p.model_alias = {settings["served_name"]}
    p.hostnames = ["127.0.0.1"]
    p.port = settings["port"]
    p.n_ctx = settings["context_per_slot"] * settings["slots"]
    p.n_parallel = settings["slots"]
    p.n_batch = settings["batch_tokens"]
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = settings["threads"]
    p.cache_prompt = settings["prefix_cache"]
    p.cache_ram_mib = 0
    p.cache_type_k = p.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32  # as the weights: half of it by default
    p.sampling.seed = settings["seed"]
    p.endpoint_metrics = True
    p.ui = False
    if settings["ngram_tokens"]:
        p.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        p.speculative.ngram_simple.size_m = settings["ngram_tokens"]
        p.speculative.ngram_simple.size_n = 2
        p.speculative.ngram_simple.min_hits = 1
    return p


def announcement(p: Any) -> str:
    """One line that says what serves: version, kinds of speculation and the settings that its log does not say."""
    kinds = "+".join(kind.name.removeprefix("COMMON_SPECULATIVE_TYPE_") for kind in p.speculative.types)
    cache = xllamacpp.ggml_type(p.cache_type_k).name.removeprefix("GGML_TYPE_")
    return (
        f"engine xllamacpp {importlib.metadata.version('xllamacpp')} speculation {kinds} "
        f"drafting {p.speculative.ngram_simple.size_m} cache {cache} prefix-cache {p.cache_prompt} batch {p.n_batch}"
    )


if __name__ == "__main__":
    chosen = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    wanted = parameters(chosen)
    server = xllamacpp.Server(wanted)
    print(announcement(wanted), flush=True)
    print("listening at", server.listening_address, flush=True)
    signal.sigwait(signals)
