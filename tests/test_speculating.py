# SPDX-License-Identifier: Apache-2.0
"""Acceptance from raw counts, worked by hand."""

import json
from dataclasses import replace

from engines import prometheus
from engines.contract import Counters
from runners.report.speculating import drafting
from tests.test_engines import RECORDINGS
from tests.test_metrics import TRACE

BEFORE = Counters(
    generated_tokens=20.0,
    drafts=5.0,
    drafted_tokens=15.0,
    accepted_tokens=6.0,
    accepted_by_position=(3.0, 2.0, 1.0),
    steps=14.0,
)
AFTER = Counters(
    generated_tokens=80.0,
    drafts=25.0,
    drafted_tokens=75.0,
    accepted_tokens=36.0,
    accepted_by_position=(18.0, 12.0, 6.0),
    steps=44.0,
)


def test_by_counters() -> None:
    """20 drafts of 3 tokens, of which 30 were accepted: 15, 10 and 5 by their places. 60 tokens in 30 steps, a third of
    them without a draft."""
    found = drafting([], BEFORE, AFTER)
    assert found.drafted_tokens == 60
    assert found.rate == 0.5
    assert found.length == 2.5
    assert found.tokens_per_step == 2.0
    assert found.by_position == (0.75, 0.5, 0.25)


def test_counters_that_appear_with_the_first_draft() -> None:
    before = replace(BEFORE, drafts=0.0, accepted_by_position=None)
    assert drafting([], before, AFTER).by_position == (18 / 25, 12 / 25, 6 / 25)


def test_by_what_requests_told() -> None:
    """Where there are no counters; steps are then unknown."""
    told = [replace(TRACE, drafted_tokens=12, accepted_tokens=6), replace(TRACE, drafted_tokens=8, accepted_tokens=3)]
    found = drafting(told, Counters(), Counters())
    assert (found.drafted_tokens, found.rate) == (20, 0.45)
    assert (found.length, found.tokens_per_step, found.by_position) == (None, None, None)


def test_nothing_drafted() -> None:
    found = drafting([], BEFORE, replace(BEFORE, generated_tokens=30.0, steps=24.0))
    assert (found.rate, found.length, found.by_position) == (None, None, None)
    assert found.tokens_per_step == 1.0


def test_vllm_tells_steps_and_places() -> None:
    """Two requests of 8 tokens without a draft: of each a time to the first token, and seven latencies."""
    answers = json.loads((RECORDINGS / "vllm_openai-0.32.0-spec" / "answers.json").read_text("utf-8"))
    found = prometheus.counters(prometheus.parse(answers["metrics"]), prometheus.VLLM_NAMES)
    assert (found.requests, found.generated_tokens, found.steps) == (2.0, 16.0, 16.0)
    assert (found.drafts, found.accepted_by_position) == (0.0, (0.0, 0.0, 0.0))


def test_places_are_summed_over_engines() -> None:
    page = "\n".join(
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="{engine}",position="{place}"}} {value}'
        for engine, place, value in ((0, 1, 2.0), (0, 0, 5.0), (1, 0, 1.0), (1, 1, 1.0))
    )
    samples = prometheus.parse(f"# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter\n{page}\n")
    assert prometheus.counters(samples, prometheus.VLLM_NAMES).accepted_by_position == (6.0, 3.0)
