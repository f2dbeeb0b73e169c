# SPDX-License-Identifier: Apache-2.0
"""The form for the usual comparison, and the YAML that it makes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from runners.config import ConfigError

WORDS: Final = re.compile(r"[,;\s]+")
HEAD: Final = "# `bakeoff compare FILE` runs this, too.\n"


@dataclass(frozen=True)
class Asked:
    """The fields as they were typed. Lengths in tokens, times in seconds."""

    name: str = "light"
    checkpoint: str = "demo"
    engines: tuple[str, ...] = ()
    gpus: str = ""
    concurrency: str = "1, 4, 16"
    rates: str = ""
    input_low: str = "48"
    input_high: str = "64"
    output_low: str = "24"
    output_high: str = "40"
    prefix_tokens: str = "32"
    prefix_count: str = "4"
    ttft_p95_s: str = ""
    e2e_p95_s: str = ""
    max_model_len: str = "512"
    max_num_seqs: str = "16"
    max_num_batched_tokens: str = "2048"
    kv_cache_tokens: str = ""
    dtype: str = "float32"
    prefix_cache: str = "true"
    blocks: str = "4"
    window_s: str = "2"
    seed: str = "1"


def asked_of(sent: Mapping[str, Any], engines: tuple[str, ...]) -> Asked:
    """From a form's fields; what it lacks is empty."""
    names = [f.name for f in fields(Asked) if f.name != "engines"]
    return Asked(engines=engines, **{name: str(sent.get(name, "")).strip()[:500] for name in names})


def config_of_form(asked: Asked) -> str:
    """The config as YAML. Raises ConfigError for what is no number; what numbers mean is checked where configs are."""
    import yaml

    problems: list[str] = []
    number = _Numbers(problems)
    knobs = {
        "max_model_len": number.whole("longest prompt and answer", asked.max_model_len),
        "max_num_seqs": number.whole("sequences in a batch", asked.max_num_seqs),
        "max_num_batched_tokens": number.whole("tokens in a batch", asked.max_num_batched_tokens),
        "kv_cache_tokens": number.whole("KV cache", asked.kv_cache_tokens),
        "dtype": asked.dtype or None,
        "prefix_cache": {"true": True, "false": False}.get(asked.prefix_cache),
    }
    gpus = number.all_whole("GPUs", asked.gpus)
    config = {
        "name": asked.name,
        "checkpoint": asked.checkpoint,
        "knobs": _said(knobs),
        "contenders": [_said({"name": _plain(e), "engine": e, "gpus": gpus or None}) for e in asked.engines],
        "workloads": [_workload(asked, number)],
        "blocks": number.whole("blocks", asked.blocks),
        "window_s": number.real("seconds of measuring", asked.window_s),
        "idle_limit_s": 20 if not gpus else None,
        "start_limit_s": 300 if not gpus else None,
        "seed": number.whole("seed", asked.seed),
    }
    if not asked.engines:
        problems.append("engines: none is chosen; choose two or more to compare")
    if problems:
        raise ConfigError("\n".join(problems))
    return HEAD + yaml.safe_dump(_said(config), sort_keys=False, default_flow_style=None, width=88, allow_unicode=True)


def _workload(asked: Asked, number: "_Numbers") -> dict[str, Any]:
    prefix = {
        "tokens": number.whole("tokens of an opening", asked.prefix_tokens),
        "count": number.whole("openings", asked.prefix_count),
    }
    limits = [
        {"metric": metric, "percentile": 95, "at_most_s": seconds}
        for metric, seconds in (
            ("ttft_visible", number.real("TTFT p95", asked.ttft_p95_s)),
            ("e2e", number.real("E2E p95", asked.e2e_p95_s)),
        )
        if seconds is not None
    ]
    return _said(
        {
            "name": "chat",
            "input_tokens": _span(number, "prompt", asked.input_low, asked.input_high),
            "output_tokens": _span(number, "answer", asked.output_low, asked.output_high),
            "shared_prefix": prefix if prefix["tokens"] else None,
            "concurrency": number.all_whole("requests in flight", asked.concurrency) or None,
            "rates": number.all_real("requests per second", asked.rates) or None,
            "limits": limits or None,
        }
    )


def _span(number: "_Numbers", what: str, low: str, high: str) -> dict[str, int | None]:
    return _said({"low": number.whole(f"shortest {what}", low), "high": number.whole(f"longest {what}", high)})


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _plain(engine: str) -> str:
    return engine.replace("_", "-")


class _Numbers:
    """Reads numbers and notes what is none."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems

    def whole(self, what: str, text: str) -> int | None:
        return next(iter(self.all_whole(what, text)), None)

    def real(self, what: str, text: str) -> float | None:
        return next(iter(self.all_real(what, text)), None)

    def all_whole(self, what: str, text: str) -> list[int]:
        return [int(value) for value in self._all(what, text, re.compile(r"\d{1,9}"), "a whole number")]

    def all_real(self, what: str, text: str) -> list[float]:
        return [
            int(value) if value.isdigit() else float(value)
            for value in self._all(what, text, re.compile(r"\d{1,9}(\.\d{1,9})?"), "a number, as 2 or 0.5")
        ]

    def _all(self, what: str, text: str, pattern: re.Pattern[str], right: str) -> list[str]:
        words = [word for word in WORDS.split(text) if word]
        wrong = [word for word in words if not pattern.fullmatch(word)]
        self._problems += [f"{what}: {word!r} is not {right}" for word in wrong]
        return [] if wrong else words
