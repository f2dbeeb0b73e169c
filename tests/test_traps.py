# SPDX-License-Identifier: Apache-2.0
"""Which test covers which known trap of vLLM, and that each of them exists."""

from pathlib import Path

import pytest

PROCESS, METRICS, WORKLOAD = "test_process.py::", "test_metrics.py::", "test_workload.py::"
TWINS, PLANS = "test_twins.py::", "test_nvidia_plans.py::"

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
    "cache not reset: new prompts for each cell": WORKLOAD + "test_what_one_life_asks_is_disjoint",
    "cached blocks dropped for the heads of EAGLE and MTP": "test_caching.py::"
    + "test_a_block_that_is_computed_all_the_same",
    "asynchronous scheduling off with n-grams": "test_config.py::"
    + "test_the_baseline_is_scheduled_as_the_speculating_contender",
    "steps without a draft missing from the count of drafts": "test_speculating.py::test_by_counters",
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

TENSORRT_TRAPS = {
    "1: decoupled in one file only": TWINS + "test_traps_1_and_40_either_file_alone_is_found_out",
    "2: infer on a decoupled model": TWINS + "test_trap_2_infer_is_refused_on_a_decoupled_model",
    "3: a stream in one event": TWINS + "test_trap_3_a_stream_of_one_event_has_no_client_times",
    "4: text so far, or new text": TWINS + "test_trap_4_cumulative_text_replaces",
    "5: spaces lost between chunks": TWINS + "test_trap_5_and_6_text_comes_in_deltas_and_metrics_as_numbers",
    "6: split letters between chunks": "test_fold.py::test_uncounted_events_are_counted_by_their_text",
    "7: empty first and last events": "test_engines.py::test_events_without_text_change_nothing",
    "8: the prompt echoed": TWINS + "test_trap_8_the_prompt_is_not_echoed",
    "9: a clone's tensorrt_llm first": PLANS + "test_the_launcher_runs_in_the_life_and_serves_loopback_only",
    "10: the image's openai package too old": PLANS + "test_trap_10_an_old_openai_package_is_told",
    "11: an engine of another version or GPU": PLANS + "test_trap_11_an_engine_of_another_gpu_or_version_is_refused",
    "11: an engine built with other flags": PLANS + "test_trap_11_an_engine_is_reused_only_under_the_same_key",
    "12: another version than the image's notes say": TWINS + "test_the_ledger_is_read_back",
    "13: too few tokenizers, BLS in series": TWINS + "test_trap_13_processes_of_tokenizer_and_detokenizer_are_told",
    "14: end tokens ignored or not": TWINS + "test_trap_14_a_length_is_forced_by_its_minimum",
    "15: drafting reported as zero": TWINS + "test_trap_15_zeros_of_drafting_are_no_report",
    "16: hit rates with the warm-up in them": TWINS + "test_traps_16_and_17_cached_tokens_come_with_each_request",
    "17: no cache metrics in Triton": TWINS + "test_traps_16_and_17_cached_tokens_come_with_each_request",
    "18: orphans keep GPU memory": PROCESS + "test_gpu_memory_that_stays_in_use_names_its_holders",
    "19: several instances": PLANS + "test_golden",
    "20: ranks by MPI": PLANS + "test_golden",
    "22: streaming asked of a model that is not decoupled": TWINS
    + "test_traps_1_and_40_either_file_alone_is_found_out",
    "23: another model's tensor names": TWINS + "test_trap_23_names_are_the_ensembles_own",
    "24: gathered logits": PLANS + "test_contradictions_are_refused_at_plan_time",
    "25: a stream interval above one": TWINS + "test_the_ledger_is_read_back",
    "26: sampling by default": TWINS + "test_trap_26_sampling_is_explicit",
    "27: a client that leaves": TWINS + "test_trap_27_and_a_client_that_leaves",
    "28: text-only models": PLANS + "test_trap_37_unknown_architectures_are_known_before_the_start",
    "29: another address than the model's": TWINS + "test_trap_2_infer_is_refused_on_a_decoupled_model",
    "30: several prompts in a request": TWINS + "test_trap_30_one_prompt_a_request",
    "31: the request id as a header": TWINS + "test_trap_31_the_request_id_is_in_the_body",
    "32: metrics as text": TWINS + "test_trap_32_metrics_are_text",
    "33: unknown keys dropped": TWINS + "test_trap_33_unknown_keys_are_dropped_so_names_are_checked",
    "34: 32 tokens by default": TWINS + "test_trap_34_the_length_is_always_sent",
    "35: no chat template": TWINS + "test_trap_35_the_template_is_rendered_by_the_client",
    "36: an id taken for a sampling field": TWINS
    + "test_trap_36_an_id_without_the_sampling_tensor_is_taken_for_sampling",
    "37: unknown architectures": TWINS + "test_trap_37_an_unsupported_engine_has_its_row_and_the_others_run",
    "38: errors that nobody is told": TWINS + "test_trap_38_an_error_before_registration_is_silence",
    "39: a dead stub behind a ready server": TWINS + "test_trap_39_a_dead_stub_is_silence_and_health_says_200",
    "40: a policy that contradicts model.yaml": TWINS + "test_traps_1_and_40_either_file_alone_is_found_out",
    "41: a failure in mid-stream": TWINS + "test_trap_41_a_failure_in_mid_stream_loses_the_token_before_it",
}
"""By their numbers in the list of known traps of TensorRT-LLM and Triton. Not tested: 21
(slower after the first request), which blocks and their order show."""


@pytest.mark.parametrize("place", sorted({*TRAPS.values(), *TENSORRT_TRAPS.values()}))
def test_the_test_exists(place: str) -> None:
    file, _, name = place.partition("::")
    assert f"def {name}(" in (Path(__file__).parent / file).read_text(encoding="utf-8")
