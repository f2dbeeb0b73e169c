# SPDX-License-Identifier: Apache-2.0
"""A runtime that computes nothing and whose every figure is known.

Of a prompt with the token ids p and n = len(p):
- token i of the answer is word (sum(p) + i) mod W of the W words of the vocabulary that start with a space;
- blocks hold B tokens; the leading full blocks that an earlier, finished prompt left are reused, all but the last
  token's; blocks of the prompt beyond these are missed;
- with k draft tokens, step s drafts k and accepts s mod (k + 1), as far as tokens are left to make.
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STEP_S = 0.002
ORDER = re.compile(r"\[\[(\w+)(?:=(\d+))?\]\]")
ARCHITECTURES = ("LlamaForCausalLM", "Olmo3ForCausalLM")


class Refused(Exception):
    """A request that the runtime does not take."""


@dataclass
class Metrics:
    """What one request cost, in blocks, tokens and nanoseconds of the monotonic clock."""

    reused: int
    missed: int
    new: int = 0
    total: int = 0
    drafted: int = 0
    accepted: int = 0
    arrival_ns: int = 0
    scheduled_ns: int = 0
    first_ns: int = 0
    last_ns: int = 0


@dataclass
class Step:
    """What a step adds. `finish` is None while the answer goes on."""

    ids: list[int]
    finish: str | None
    metrics: Metrics


@dataclass
class Request:
    """One prompt under way; `cancelled` is looked at before each step."""

    text: str
    ids: list[int]
    max_tokens: int
    orders: dict[str, int]
    cancelled: bool = False


@dataclass
class Runtime:
    """Sizes in tokens; `folder` is the checkpoint's."""

    folder: str
    block: int = 32
    reuse: bool = True
    draft: int = 0
    reports_drafts: bool = True
    kept: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        from tokenizers import Tokenizer

        config = json.loads((Path(self.folder) / "config.json").read_text("utf-8"))
        architecture = config["architectures"][0]
        if architecture not in ARCHITECTURES:
            raise ValueError(f"Unknown architecture for AutoModelForCausalLM: {architecture}")
        self.tokenizer: Any = Tokenizer.from_file(str(Path(self.folder) / "tokenizer.json"))
        words = (i for word, i in self.tokenizer.get_vocab().items() if re.fullmatch("\u0120[a-z]+", word))
        self.words = sorted(words)

    def request(self, text: str, max_tokens: int) -> Request:
        """Raises Refused for a prompt that says so."""
        orders = {name: int(value or 1) for name, value in ORDER.findall(text)}
        if "refuse" in orders:
            raise Refused("the prompt is longer than the engine takes")
        return Request(text, self.tokenizer.encode(text, add_special_tokens=False).ids, max_tokens, orders)

    def text(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids))

    def answer(self, request: Request) -> Iterator[tuple[float, Step]]:
        """Steps, each with the seconds that it takes before it is there."""
        made, step, pause_s = 0, 0, request.orders.get("step_ms", STEP_S * 1e3) / 1e3
        metrics = self._admitted(request)
        while made < request.max_tokens:
            accepted = min(step % (self.draft + 1), request.max_tokens - made - 1)
            metrics.drafted += self.draft
            metrics.accepted += accepted
            ids = [self._word(request, made + i) for i in range(1 + accepted)]
            made, step = made + len(ids), step + 1
            last = made == request.max_tokens
            self._stamp(metrics, request, made, pause_s)
            yield pause_s, Step(ids, "length" if last and "no_finish" not in request.orders else None, metrics)
        self._keep(request)

    def _word(self, request: Request, number: int) -> int:
        return self.words[(sum(request.ids) + number) % len(self.words)]

    def _admitted(self, request: Request) -> Metrics:
        full = [hash(tuple(request.ids[: end + self.block])) for end in range(0, len(request.ids), self.block)]
        reused, most = 0, (len(request.ids) - 1) // self.block
        while self.reuse and reused < most and full[reused] in self.kept:
            reused += 1
        now = time.monotonic_ns() // 1000 * 1000
        return Metrics(reused, -(-len(request.ids) // self.block) - reused, arrival_ns=now, scheduled_ns=now)

    def _stamp(self, metrics: Metrics, request: Request, made: int, pause_s: float) -> None:
        now = (time.monotonic_ns() + round(pause_s * 1e9)) // 1000 * 1000
        metrics.first_ns = metrics.first_ns or now
        metrics.last_ns = now
        metrics.total = -(-(len(request.ids) + made) // self.block)
        metrics.new = metrics.total - metrics.reused

    def _keep(self, request: Request) -> None:
        full = len(request.ids) // self.block * self.block
        self.kept |= {hash(tuple(request.ids[: end + self.block])) for end in range(0, full, self.block)}

    def drafting(self, metrics: Metrics) -> tuple[int, int]:
        """Drafted and accepted tokens as reported: zeros up to 1.2.1, whatever was done."""
        return (metrics.drafted, metrics.accepted) if self.reports_drafts else (0, 0)
