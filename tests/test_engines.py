# SPDX-License-Identifier: Apache-2.0
"""Every engine against recordings of real servers, and what its plan must hold."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engines import vllm_ledger, vllm_settings
from engines.conformance import PROMPT, Recording, check_plan, check_recording, folded
from engines.contract import Answer, Capabilities, Counters, Engine
from engines.launch import Checkpoint, Knobs, Launch, Place, PlanError, Speculation, Vendor
from engines.registry import ENGINES

RECORDINGS = Path(__file__).parent / "recordings"
CHECKPOINT = Checkpoint("/models/tiny", "ab" * 32, None, 2048, "LlamaForCausalLM")
KNOBS = Knobs(max_model_len=512, max_num_seqs=16, max_num_batched_tokens=2048, dtype="float32")
PLACE = Place(
    python="/env/bin/python",
    site_packages="/env/lib/python3.11/site-packages",
    lib_dir="/py/lib",
    python_version="3.11",
    version="0.32.0",
    folder="/life",
    cache="/cache",
    served_name="bakeoff-recorded",
    http_port=18100,
    grpc_port=18101,
    metrics_port=18102,
    vendor=Vendor("/app", "/app/examples", "/usr/local/bin"),
)
CPU_PLACE = replace(PLACE, vendor=None)
ANY = Capabilities("m", "1", "f", 512, True, True, True, False)


def recording_names() -> list[str]:
    return sorted(folder.name for folder in RECORDINGS.iterdir() if folder.is_dir())


@pytest.mark.parametrize("name", recording_names())
def test_recording(name: str) -> None:
    engine = ENGINES[name.split("-")[0]]
    reading = check_recording(engine, Recording.load(RECORDINGS / name))
    assert reading.capabilities.engine_version == name.split("-")[1]
    assert reading.capabilities.tokens_per_event or engine.name == "triton_llmapi"
    assert reading.capabilities.max_model_len == (None if engine.name == "openai_attach" else 512)


@pytest.mark.parametrize("name", [n for n in recording_names() if "+twin" not in n])
def test_tokens_are_counted_by_engines_with_counters(name: str) -> None:
    counters = ENGINES[name.split("-")[0]].read(Recording.load(RECORDINGS / name).evidence).counters
    assert counters.generated_tokens is not None
    assert counters.running == 0


def test_every_engine_has_a_recording() -> None:
    assert {name.split("-")[0] for name in recording_names()} == set(ENGINES)


@pytest.mark.parametrize("name", recording_names())
def test_second_request_finds_the_first_in_the_cache(name: str) -> None:
    """73 prompt tokens, of which the last is always computed: 64 in blocks of 32 or 16, 72 in llama.cpp. The LLM API
    model counts no tokens, Triton's vLLM backend no cached ones."""
    engine = ENGINES[name.split("-")[0]]
    recording = Recording.load(RECORDINGS / name)
    reading = engine.read(recording.evidence)
    first, second = (folded(engine, reading, stream) for stream in recording.streams)
    assert first.text == second.text
    counts_prompts = engine.name != "triton_llmapi"
    assert first.prompt_tokens == second.prompt_tokens == (PROMPT.input_tokens if counts_prompts else None)
    if reading.capabilities.reports_cached_tokens:
        assert first.cached_tokens == 0
        assert second.cached_tokens == (72 if "llamacpp" in name else 64)
    else:
        assert second.cached_tokens is None


@pytest.mark.parametrize("name", [n for n in recording_names() if n.endswith("-spec")])
def test_speculation_is_counted(name: str) -> None:
    engine = ENGINES[name.split("-")[0]]
    reading = engine.read(Recording.load(RECORDINGS / name).evidence)
    assert reading.capabilities.speculates
    if engine.name == "triton_llmapi":
        return
    assert reading.counters.drafted_tokens is not None
    assert reading.counters.accepted_tokens is not None
    assert reading.counters.drafts is not None


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_plan_obeys_the_contract(engine: Engine) -> None:
    check_plan(planned(engine))


def planned(engine: Engine, knobs: Knobs = KNOBS, place: Place = PLACE) -> Launch:
    return engine.plan(CHECKPOINT, knobs, place)


def flags(launch: Launch) -> str:
    return " ".join(launch.serve.argv)


def test_vllm_is_told_everything_explicitly() -> None:
    told = flags(planned(ENGINES["vllm_openai"]))
    for expected in (
        "serve /models/tiny --host 127.0.0.1 --port 18100 --api-server-count 1",
        "--served-model-name bakeoff-recorded",
        "--dtype float32 --seed 0 --generation-config vllm --max-model-len 512 --max-num-seqs 16",
        "--enable-prefix-caching --enable-chunked-prefill --stream-interval 1 --max-num-batched-tokens 2048",
        "--enable-prompt-tokens-details --disable-uvicorn-access-log",
    ):
        assert expected in told


def test_vllm_keeps_its_statistics() -> None:
    told = flags(planned(ENGINES["vllm_openai"]))
    assert "--disable-log-stats" not in told
    assert "--disable-log-requests" not in told


def test_vllm_flags_by_version() -> None:
    engine = ENGINES["vllm_openai"]
    newer = replace(PLACE, version="0.32.0")
    assert "--enable-per-request-metrics" in flags(planned(engine, place=newer))
    assert "--per-request-spec-decode-metrics" not in flags(planned(engine, place=newer))
    drafting = replace(KNOBS, speculation=Speculation("ngram", 2))
    assert "--per-request-spec-decode-metrics summary" in flags(planned(engine, drafting, newer))
    assert "--enable-per-request-metrics" not in flags(planned(engine, place=replace(PLACE, version="0.20.2")))
    assert vllm_settings.version_tuple("0.33.0+cpu") == (0, 33, 0)


@pytest.mark.parametrize(
    ("tokens", "size", "gpus", "told"),
    [
        (1000, 32, (), "--block-size 32 --num-gpu-blocks-override 31"),
        (4096, None, (), "--block-size 128 --num-gpu-blocks-override 32"),
        (4160, None, (), "--block-size 64 --num-gpu-blocks-override 65"),
        (4096, None, (0,), "--block-size 16 --num-gpu-blocks-override 256"),
    ],
)
def test_vllm_cache_in_tokens_becomes_blocks(tokens: int, size: int | None, gpus: tuple[int, ...], told: str) -> None:
    """31 blocks of 32 are 992 tokens, within 1% of 1000; 4160 are 32.5 blocks of 128, which is not."""
    knobs = replace(KNOBS, kv_cache_tokens=tokens, block_size=size)
    assert told in flags(planned(ENGINES["vllm_openai"], knobs, replace(PLACE, gpus=gpus)))


def test_vllm_cache_that_no_blocks_make_up() -> None:
    wrong = replace(KNOBS, kv_cache_tokens=1050, block_size=100)
    with pytest.raises(PlanError, match=r"1050 is not within 1% of whole blocks of 100 tokens.*say 1000 or 1100"):
        planned(ENGINES["vllm_openai"], wrong)


def test_vllm_speculation_and_eager() -> None:
    knobs = replace(KNOBS, cuda_graphs=False, speculation=Speculation("ngram", 3), prefix_cache=False)
    told = flags(planned(ENGINES["vllm_openai"], knobs))
    assert '--speculative-config {"method": "ngram", "num_speculative_tokens": 3' in told
    assert "--enforce-eager" in told
    assert "--no-enable-prefix-caching" in told


def test_vllm_is_scheduled_as_said() -> None:
    """The first line is that of 0.20.2; later releases do not tell what became of what they were told."""
    engine, off = ENGINES["vllm_openai"], replace(KNOBS, async_scheduling=False)
    assert "async-scheduling" not in flags(planned(engine))
    assert "--no-async-scheduling" in flags(planned(engine, off))
    assert "--async-scheduling" in flags(planned(engine, replace(KNOBS, async_scheduling=True)))
    with pytest.raises(PlanError, match=r"knobs\.async_scheduling: vLLM's n-grams wait for the last step; say false"):
        planned(engine, replace(KNOBS, async_scheduling=True, speculation=Speculation("ngram", 3)))
    resolved = "INFO 11-30 08:00:00 [vllm.py:840] Asynchronous scheduling is disabled.\n"
    for log, value in (
        (resolved, "disabled"),
        ("non-default args: {'seed': 0, 'async_scheduling': False}", "off"),
        ('engine vllm settings {"seed": 0, "async_scheduling": true}', "on"),
        ("non-default args: {'seed': 0, 'async_scheduling': True}", None),
        ("non-default args: {'seed': 0}", None),
    ):
        assert {row.name: row.value for row in vllm_ledger.ledger((), log, None)}["async scheduling"] == value


@pytest.mark.parametrize(("method", "blocks"), [("eagle3", 1), ("mtp", 1), ("ngram", 0), ("draft_model", 0)])
def test_vllm_computes_the_last_block_of_a_match_for_some_drafts(method: str, blocks: int) -> None:
    said = f"speculative_config=SpeculativeConfig(method='{method}', model='/d', num_spec_tokens=3)"
    log = f"Initializing a V1 LLM engine (v0.20.2) with config: model='/m', {said}, tokenizer='/m'"
    assert vllm_ledger.spared_blocks(log) == blocks
    assert vllm_ledger.spared_blocks("") == 0


def test_both_vllms_get_the_same_engine_arguments() -> None:
    launch = planned(ENGINES["triton_vllm"])
    text = launch.files["models/bakeoff-recorded/config.pbtxt"]
    quoted = text.split("string_value: ")[1].split(" } }")[0]
    args = json.loads(json.loads(quoted))
    assert args == vllm_settings.engine_args("/models/tiny", KNOBS, PLACE)
    assert "disable_log_stats" not in args


def test_triton_repository() -> None:
    launch = planned(ENGINES["triton_vllm"])
    text = launch.files["models/bakeoff-recorded/config.pbtxt"]
    assert "model_transaction_policy { decoupled: True }" in text
    assert "max_batch_size: 0" in text
    assert launch.ports == (18100, 18101, 18102)
    assert launch.serve.env["LD_LIBRARY_PATH"] == "/py/lib"
    assert launch.serve.env["PATH"].startswith("/env/bin:")
    stub = launch.links["backends/python/triton_python_backend_stub"]
    assert stub.endswith("python_backend_stubs/3.11/triton_python_backend_stub")
    assert "--exit-timeout-secs=10" in launch.serve.argv


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        (replace(KNOBS, dtype="bfloat16"), "knobs.dtype"),
        (replace(KNOBS, kv_cache_tokens=1), "knobs.kv_cache_tokens"),
        (replace(KNOBS, block_size=16), "knobs.block_size"),
        (replace(KNOBS, tensor_parallel=2), "knobs.tensor_parallel"),
    ],
)
def test_llamacpp_refuses_what_it_lacks(knobs: Knobs, message: str) -> None:
    for name in ("llamacpp_openai", "triton_llamacpp"):
        with pytest.raises(PlanError, match=message):
            planned(ENGINES[name], knobs)


@pytest.mark.parametrize(
    ("engine", "knobs", "message"),
    [
        ("vllm_openai", replace(KNOBS, kv_cache_dtype="int8"), "knobs.kv_cache_dtype: vLLM has auto and fp8, not int8"),
        ("triton_llmapi", replace(KNOBS, kv_cache_dtype="int8"), "knobs.kv_cache_dtype: the LLM API has auto and fp8"),
        ("llamacpp_openai", replace(KNOBS, chunked_prefill=False), "knobs.chunked_prefill: llama.cpp always splits"),
        (
            "vllm_openai",
            replace(KNOBS, speculation=Speculation("ngram", 3, model="/m")),
            "knobs.speculation.model: ngram",
        ),
        ("vllm_openai", replace(KNOBS, speculation=Speculation("mtp", 3, window=2)), "knobs.speculation.window: mtp"),
        ("trtllm_serve", replace(KNOBS, speculation=Speculation("mtp", 3, ngram=2)), "knobs.speculation.ngram: mtp"),
        (
            "llamacpp_openai",
            replace(KNOBS, speculation=Speculation("ngram", 3, ngram=2)),
            "knobs.speculation.ngram: ngram",
        ),
        (
            "triton_engine",
            replace(KNOBS, speculation=Speculation("redrafter", 3, model="/m", ngram=2)),
            "knobs.speculation.ngram: redrafter has none in this engine",
        ),
        (
            "triton_engine",
            replace(KNOBS, block_size=32, extra={"engine_dir": "/e"}),
            "knobs.block_size: the engine .*engine_dir.* has its own",
        ),
    ],
)
def test_a_knob_that_an_engine_lacks_is_never_dropped(engine: str, knobs: Knobs, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        planned(ENGINES[engine], knobs)


def test_vllm_refuses_threads() -> None:
    with pytest.raises(PlanError, match=r"knobs\.threads"):
        planned(ENGINES["vllm_openai"], replace(KNOBS, threads=2))


def test_sampling_is_sent_in_full_on_every_leg() -> None:
    for name in ("vllm_openai", "llamacpp_openai", "triton_vllm", "triton_llamacpp"):
        body = json.loads(ENGINES[name].encode(PROMPT, ANY).body)
        fields = json.loads(body["sampling_parameters"]) if "sampling_parameters" in body else body
        for field in ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty"):
            assert field in fields, (name, field)
        assert fields["max_tokens"] == 8
        assert fields["ignore_eos"] is True


def test_triton_requests_have_no_stray_keys() -> None:
    """Keys that match no tensor are dropped or taken for sampling fields; `id` breaks the vLLM backend."""
    launch = planned(ENGINES["triton_vllm"])
    text = launch.files["models/bakeoff-recorded/config.pbtxt"]
    body = json.loads(ENGINES["triton_vllm"].encode(PROMPT, ANY).body)
    assert "id" not in body
    for key in body:
        assert f'name: "{key}"' in text


VLLM = ENGINES["vllm_openai"]


def fold_all(engine: Engine, *events: str) -> Answer:
    answer = Answer()
    for event in events:
        engine.fold(answer, event.encode(), ANY)
    return answer


def test_vllm_event_without_text_can_hold_tokens() -> None:
    answer = fold_all(VLLM, '{"choices":[{"text":"","token_ids":[7],"finish_reason":null}],"usage":null}')
    assert (answer.tokens, answer.text) == (1, "")


def test_vllm_event_can_hold_several_tokens() -> None:
    answer = fold_all(VLLM, '{"choices":[{"text":" a b c","token_ids":[1,2,3]}]}')
    assert answer.tokens == 3


def test_vllm_usage_event_has_no_choices() -> None:
    """0.20.2 leaves out a count of cached tokens that is zero."""
    answer = fold_all(
        VLLM,
        '{"choices":[{"text":"x","token_ids":[1],"finish_reason":"length"}]}',
        '{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}',
        "[DONE]",
    )
    assert answer == Answer("x", 1, 1, 5, 0, "length", None, True)


def test_vllm_error_event_inside_200() -> None:
    answer = fold_all(VLLM, '{"error":{"message":"EngineCore died","code":500}}', "[DONE]")
    assert answer.error == "EngineCore died"
    assert answer.ended


def test_line_separators_inside_json_survive() -> None:
    answer = fold_all(VLLM, '{"choices":[{"text":"a\u2028b\u2029c\u0085","token_ids":[1]}]}')
    assert answer.text == "a\u2028b\u2029c\u0085"


def test_triton_error_event() -> None:
    answer = fold_all(ENGINES["triton_vllm"], '{"error":"Stub process \'m_0_0\' is not healthy."}')
    assert answer.error == "Stub process 'm_0_0' is not healthy."


def test_events_without_text_change_nothing() -> None:
    """The LLM API model repeats a text when half a letter is held back, and may end without any output."""
    engine = ENGINES["triton_llmapi"]
    first = '{"text_output":" a","finish_reason":"None"}'
    answer = fold_all(engine, first, first, '{"model_name":"m","model_version":"1"}')
    assert (answer.text, answer.tokens, answer.ended) == (" a", 1, False)
    answer = fold_all(engine, first, '{"text_output":" a b","finish_reason":"length","total_draft_tokens":"0"}')
    assert (answer.text, answer.tokens, answer.finish_reason, answer.ended) == (" a b", 2, "length", True)


def test_triton_open_reason_is_the_word_none() -> None:
    engine = ENGINES["triton_vllm"]
    event = '{"text_output":" a","finish_reason":"None","num_output_tokens":2,"num_input_tokens":5}'
    answer = fold_all(engine, event)
    assert (answer.finish_reason, answer.ended, answer.tokens) == (None, False, 2)
    answer = fold_all(engine, event, event.replace("None", "length"))
    assert answer == Answer(" a a", 4, 4, 5, None, "length", None, True)


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
@pytest.mark.parametrize("data", ["not json", "[1]", '"text"', "{"])
def test_nonsense_is_an_error_and_no_crash(engine: Engine, data: str) -> None:
    assert fold_all(engine, data).error is not None


def test_counters_take_exact_names_and_sum_engines() -> None:
    """`_created` looks like a huge value, and data parallelism has one series for each engine."""
    page = (
        "# TYPE vllm:prompt_tokens counter\n"
        'vllm:prompt_tokens_total{engine="0"} 5\nvllm:prompt_tokens_total{engine="1"} 7\n'
        'vllm:prompt_tokens_created{engine="0"} 1.79e9\n'
    )
    from engines import prometheus

    counters = prometheus.counters(prometheus.parse(page), prometheus.VLLM_NAMES)
    assert counters == Counters(prompt_tokens=12.0)


@pytest.mark.parametrize("recording", ["vllm_openai-0.32.0", "triton_vllm-0.32.0"])
def test_vllm_says_where_the_time_went(recording: str) -> None:
    """Of its own metrics page, alone or inside Triton: queue, prefill and decode add up to no more than all."""
    name = recording.partition("-")[0]
    counters = check_recording(ENGINES[name], Recording.load(RECORDINGS / recording)).counters
    assert counters.timed_requests == counters.requests
    assert counters.queue_s is not None and counters.prefill_s is not None and counters.decode_s is not None
    assert 0 <= counters.queue_s < counters.prefill_s + counters.decode_s
