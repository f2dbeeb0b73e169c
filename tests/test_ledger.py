# SPDX-License-Identifier: Apache-2.0
"""The ledger compared across contenders and lives, on records made by hand."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from engines import vllm_ledger
from engines.ledger_rows import plain, same
from engines.prometheus import Sample
from runners.report.decisions import decide_run
from runners.report.ledger import ComparedRow, forbidding, ledger_of, remedy
from runners.report.ledger_text import ledger_json, ledger_markdown
from runners.report.record import LedgerEntry, LifeRecord, Run
from runners.report.table import tabulate
from tests.test_config import refusal, written
from tests.test_records import life, record
from tests.test_verdicts import run

Rows = Mapping[str, str | None]
RATES = {"a": {1: [100.0] * 4}, "b": {1: [101.0, 102.0, 101.5, 101.7]}}
IDENTITY = ("engine version", "kernels")


def lived(contender: str, block: int, rows: Rows) -> LifeRecord:
    entries = tuple(
        LedgerEntry(name=name, value=value, source="a log", kind="identity" if name in IDENTITY else "must match")
        for name, value in rows.items()
    )
    return life(record(contender, block, 1.0)).model_copy(update={"ledger": entries})


def ran(a: Rows, b: Rows, *later_b: Rows, **changes: Any) -> Run:
    """Four blocks; `later_b` are the rows of b in the last blocks, in place of its usual ones."""
    of_b = [b] * (4 - len(later_b)) + list(later_b)
    lives = [life for n in range(4) for life in (lived("a", n + 1, a), lived("b", n + 1, of_b[n]))]
    return run(RATES, **changes).model_copy(update={"lives": tuple(lives)})


def row(found: Run, name: str) -> ComparedRow:
    (only,) = [compared for compared in ledger_of(found) if compared.name == name]
    return only


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("weight dtype", "torch.float32", "fp32"),
        ("weight dtype", "bfloat16", "BF16"),
        ("KV dtype", "fp8", "fp8_e4m3"),
        ("KV dtype", "auto", "float32"),
        ("prefix cache", "True", "true"),
        ("chunked prefill", "on", "1"),
        ("speculation", "None", "off"),
        ("quantization", "None", "none"),
        ("KV capacity (tokens)", "32768", "32512"),
    ],
)
def test_one_setting_in_two_dialects(name: str, one: str, other: str) -> None:
    same_weights = {} if name == "weight dtype" else {"weight dtype": "float32"}
    compared = row(ran({name: one, **same_weights}, {name: other, **same_weights}), name)
    assert (compared.state, compared.unequal_to) == ("equal", ())


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("KV capacity (tokens)", "32768", "32000"),
        ("KV dtype", "auto", "fp8"),
        ("prefix cache", "True", "False"),
        ("speculation", "off", "ngram, 3 tokens"),
        ("chat template", "0123", "4567"),
    ],
)
def test_an_undeclared_inequality_forbids_the_verdict(name: str, one: str, other: str) -> None:
    found = ran({name: one}, {name: other})
    compared = row(found, name)
    assert (compared.state, compared.unequal_to, compared.forbids) == ("unequal", ("b",), True)
    assert {c.verdict for c in decide_run(found).comparisons} == {f"no verdict: unequal {name}"}
    assert f"unequal: {name}" in tabulate(found)[1]["flags"]
    assert f"unequal: {name}" not in tabulate(found)[0]["flags"]


def test_the_refusal_says_what_to_add() -> None:
    found = ran({"KV dtype": "auto", "KV capacity (tokens)": "9"}, {"KV dtype": "fp8", "KV capacity (tokens)": "8"})
    assert remedy(ledger_of(found), "b", "a") == (
        "b is not comparable with a: KV dtype is fp8, auto in a; KV capacity (tokens) is 8, 9 in a. If that is what "
        'is compared, add to the config `declared: {KV dtype: WHY, "KV capacity (tokens)": WHY}`, or for this folder '
        'say --accept-unequal "KV dtype" --accept-unequal "KV capacity (tokens)"'
    )
    assert remedy(ledger_of(found), "b", "a") in decide_run(found).remarks


def test_a_declared_inequality_is_a_footnote() -> None:
    changes = {"declared": {"speculation": "what is compared"}}
    found = ran({"speculation": "off"}, {"speculation": "ngram, 3 tokens"}, **changes)
    assert row(found, "speculation").state == "unequal (declared)"
    assert decide_run(found).comparisons[0].verdict == "equal within 5%"
    assert "unequal (declared): speculation" in tabulate(found)[1]["flags"]
    said = "b differs from a in speculation: ngram, 3 tokens against off (what is compared)"
    assert said in decide_run(found).remarks


def test_an_inequality_accepted_afterwards() -> None:
    found = ran({"KV dtype": "auto"}, {"KV dtype": "fp8"}).model_copy(update={"accepted": ("KV dtype",)})
    assert row(found, "KV dtype").state == "unequal (declared)"
    assert row(found, "KV dtype").note == "accepted by --accept-unequal"
    assert decide_run(found).comparisons[0].verdict == "equal within 5%"


def test_what_only_one_side_says_is_not_read_back() -> None:
    found = ran({"prefix cache": "True"}, {"prefix cache": None})
    compared = row(found, "prefix cache")
    assert (compared.state, compared.values) == ("not read back", {"a": "on", "b": None})
    assert compared.note == "b: a log"
    assert decide_run(found).comparisons[0].verdict == "equal within 5%"


def test_a_row_that_an_engine_does_not_have_at_all() -> None:
    compared = row(ran({"stream interval": "1"}, {}), "stream interval")
    assert (compared.state, compared.note) == ("not read back", "b: not among what this engine says")


def test_a_value_that_changes_between_lives_of_one_contender() -> None:
    """Within block 4 the two are unequal."""
    found = ran({"KV capacity (tokens)": "1000"}, {"KV capacity (tokens)": "1000"}, {"KV capacity (tokens)": "500"})
    compared = row(found, "KV capacity (tokens)")
    assert compared.state == "unequal"
    assert compared.values == {"a": "1000", "b": "1000 (blocks 1, 2, 3); 500 (block 4)"}
    assert compared.note == "changed between lives of b"


def test_both_may_change_from_block_to_block_but_not_gpu_and_versions() -> None:
    for name, state in (("KV capacity (tokens)", "equal"), ("GPU model", "unequal"), ("engine version", "unequal")):
        values = ["1", "1", "1", "2"]
        lives = [lived(who, n, {name: value}) for n, value in enumerate(values, start=1) for who in ("a", "b")]
        compared = row(run(RATES).model_copy(update={"lives": tuple(lives)}), name)
        assert (compared.name, compared.state) == (name, state)


def test_what_each_is_never_forbids() -> None:
    found = ran({"kernels": "x"}, {"kernels": "y"})
    assert row(found, "kernels").state == "unequal"
    assert not forbidding(ledger_of(found), "b")
    assert decide_run(found).comparisons[0].verdict == "equal within 5%"


def test_the_printed_ledger_has_unequal_rows_first() -> None:
    found = ran(
        {"kernels": "x", "weight dtype": "float32", "prefix cache": "True"},
        {"kernels": "x", "weight dtype": "float32", "prefix cache": "False"},
    )
    text = ledger_markdown(ledger_of(found))
    assert text == (
        "## Must match\n\n"
        "| setting | state | a | b | note |\n| --- | --- | --- | --- | --- |\n"
        "| prefix cache | unequal | on | off | - |\n"
        "| weight dtype | equal | float32 | float32 | - |\n\n"
        "## What each is\n\n"
        "| setting | state | a | b | note |\n| --- | --- | --- | --- | --- |\n"
        "| kernels | equal | x | x | - |\n"
    )
    assert next(one["name"] for one in json.loads(ledger_json(ledger_of(found)))) == "prefix cache"


def test_a_declared_row_has_to_exist_and_to_have_a_reason() -> None:
    told = refusal(written(declared={"kv dtype": "why"}))
    assert "declared.kv dtype" in told
    assert "no row of the ledger that must match; those are checkpoint revision, weights (sha256), weight dtype" in told
    assert "declared.KV dtype" in refusal(written(declared={"KV dtype": ""}))


def test_auto_is_the_weights_dtype_where_that_is_known() -> None:
    assert plain("KV dtype", "auto", {"weight dtype": "torch.bfloat16"}) == "bfloat16"
    assert plain("KV dtype", "auto", {}) == "auto"
    assert same("KV capacity (tokens)", "100", "99")
    assert not same("KV capacity (tokens)", "100", "98")


ARGUMENTS = (
    "(APIServer pid=20381) INFO 11-30 23:38:08 [api_utils.py:286] non-default args: {'model_tag': '/models/demo', "
    "'enable_prompt_tokens_details': True, 'host': '127.0.0.1', 'port': 18100, 'model': '/models/demo', "
    "'dtype': 'float32', "
    "'max_model_len': 512, 'enforce_eager': True, 'served_model_name': ['bakeoff-37bd9ee3cd10'], %s'block_size': 32, "
    "'enable_prefix_caching': True, 'max_num_batched_tokens': 2048, 'max_num_seqs': 16, 'enable_chunked_prefill': True}"
)
"""As vLLM 0.32.0 wrote it, with room for more."""
EMBEDDED = (
    'engine vllm settings {"max_num_seqs": 8, "max_num_batched_tokens": 8192, "stream_interval": 1, '
    '"async_scheduling": false, "generation_config": "vllm", "override_generation_config": {}}'
)


def vllm_said(log: str) -> dict[str, str | None]:
    return {row.name: row.value for row in vllm_ledger.ledger((), log, "0.32.0")}


def test_vllm_arguments_that_are_missing_have_their_defaults() -> None:
    plain_log = ARGUMENTS % ""
    rows, loaded = vllm_said(plain_log), vllm_ledger.loaded(plain_log, renders=True)
    assert (rows["batch limit (sequences)"], rows["batch limit (tokens)"]) == ("16", "2048")
    assert rows["stream interval"] == "1"
    assert loaded.sampling_defaults == "generation_config auto"
    assert loaded.template_file is None


def test_vllm_arguments_that_were_given() -> None:
    given = "'generation_config': 'vllm', 'chat_template': '/t.jinja', 'stream_interval': 10, "
    log = ARGUMENTS % given
    loaded = vllm_ledger.loaded(log, renders=True)
    assert vllm_said(log)["stream interval"] == "10"
    assert (loaded.sampling_defaults, loaded.template_file) == ("neutral", "/t.jinja")


def test_vllm_embedded_says_the_same_by_a_line_of_ours() -> None:
    rows, loaded = vllm_said(EMBEDDED), vllm_ledger.loaded(EMBEDDED, renders=False)
    assert (rows["batch limit (sequences)"], rows["batch limit (tokens)"], rows["stream interval"]) == (
        "8",
        "8192",
        "1",
    )
    assert loaded.sampling_defaults == "neutral"


def test_without_a_line_nothing_is_known() -> None:
    assert set(vllm_said("").values()) == {None, "0.32.0"}
    assert vllm_ledger.loaded("", renders=True).sampling_defaults is None


@pytest.mark.parametrize(
    ("said", "requests", "tokens"),
    [
        ("4096", "16.0", "4096"),  # requests of 256 tokens: two blocks of 128 each
        ("3072", "16.0", "4096"),  # of 192 tokens: two blocks too, the second half empty
        ("2048", "8.0", "2048"),  # of 256 tokens in two groups: four blocks
        (None, None, "4096"),  # 0.20.2
    ],
)
def test_vllm_capacity_is_of_blocks_and_not_of_requests(said: str | None, requests: str | None, tokens: str) -> None:
    labels = {"num_gpu_blocks": "32", "block_size": "128"}
    if said and requests:
        labels |= {"kv_cache_size_tokens": said, "kv_cache_max_concurrency": requests}
    rows = vllm_ledger.ledger((Sample("vllm:cache_config_info", labels, 1.0),), "", None)
    assert next(row.value for row in rows if row.name == "KV capacity (tokens)") == tokens
