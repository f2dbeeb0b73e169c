# SPDX-License-Identifier: Apache-2.0
"""Which test covers which known trap of vLLM, and that each of them exists."""

from pathlib import Path

import pytest

PROCESS, METRICS, WORKLOAD = "test_process.py::", "test_metrics.py::", "test_workload.py::"

TRAPS = {
    "cached tokens missing where they are zero": "test_engines.py::test_vllm_usage_event_has_no_choices",
    "over-long requests clamped in silence": "test_fold.py::test_what_counts_as_failed",
    "prompt and answer longer than the context": "test_config.py::test_refused",
    "engine processes outlive a killed launcher": "test_process.py::test_children_that_ignore_the_end_are_ended",
    "two servers share one port: checked before": PROCESS + "test_a_taken_port_is_refused_before_anything_starts",
    "two servers share one port: served name checked after": "test_verify.py::test_another_server_on_the_port",
    "sampling defaults of the checkpoint": "test_engines.py::test_vllm_is_told_everything_explicitly",
    "temperature not sent": "test_engines.py::test_sampling_is_sent_in_full_on_every_leg",
    "gaps between events are not gaps between tokens": METRICS + "test_tpot_leaves_out_the_tokens_of_the_first_event",
    "several tokens in one event": "test_engines.py::test_vllm_event_can_hold_several_tokens",
    "tokens without text": "test_engines.py::test_vllm_event_without_text_can_hold_tokens",
    "renamed and absent metrics are not zero": "test_engines.py::test_recording",
    "_created series, several engines": "test_engines.py::test_counters_take_exact_names_and_sum_engines",
    "several API servers": "test_engines.py::test_vllm_is_told_everything_explicitly",
    "log statistics off, flags that are gone": "test_engines.py::test_vllm_keeps_its_statistics",
    "flags of one release only": "test_engines.py::test_vllm_flags_by_version",
    "cache not reset: new prompts for each cell": WORKLOAD
    + "test_the_same_seed_asks_the_same_and_another_something_else",
    "error events inside HTTP 200": "test_engines.py::test_vllm_error_event_inside_200",
    "line separators inside JSON": "test_engines.py::test_line_separators_inside_json_survive",
    "prompts of the wrong length, BOS twice": "test_workload.py::test_lengths_are_exact_and_survive_decoding",
    "client's queue hidden from latency": "test_metrics.py::test_times_run_from_the_due_time_and_use_kernel_stamps",
    "foreign requests: success counter against requests sent": "test_records.py::test_flags",
    "inherited VLLM_* and PROMETHEUS_MULTIPROC_DIR": "test_process.py::test_inherited_settings_do_not_reach_engines",
    "keep-alive ended by the server": "test_wire.py::test_a_connection_that_the_server_closes_is_replaced",
    "a stream that stalls": "test_wire.py::test_a_stalled_stream_ends_by_the_idle_limit",
    "health answers though the engine is dead: a real request": "test_verify.py::test_a_canary_that_fails",
}


@pytest.mark.parametrize("place", sorted(set(TRAPS.values())))
def test_the_test_exists(place: str) -> None:
    file, _, name = place.partition("::")
    assert f"def {name}(" in (Path(__file__).parent / file).read_text(encoding="utf-8")
