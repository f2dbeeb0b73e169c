# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's engines are told: whole launches by golden files, and what is refused before anything starts."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engines import engine_build, trtllm_settings
from engines.conformance import check_plan
from engines.launch import Knobs, PlanError, Speculation
from engines.registry import ENGINES
from tests.golden_plans import CASES, CHECKPOINT, GOLDEN, KNOBS, PLACE, launch_of, text_of

ROOT = Path(__file__).parent.parent
TEMPLATES = ROOT / "tests" / "twins" / "release-1.2"
LLMAPI, ENGINE, SERVE = (ENGINES[name] for name in ("triton_llmapi", "triton_engine", "trtllm_serve"))


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert text_of(name) == (GOLDEN / f"{name}.txt").read_text("utf-8"), "python tests/golden_plans.py writes it anew"
    check_plan(launch_of(name))


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def model_yaml(knobs: Knobs = KNOBS, **place: Any) -> dict[str, Any]:
    launch = LLMAPI.plan(CHECKPOINT, knobs, replace(PLACE, **place))
    text: dict[str, Any] = json.loads(launch.files["models/served/1/model.yaml"])
    return text


def test_trap_1_decoupled_is_in_both_files() -> None:
    assert model_yaml()["triton_config"] == {
        "max_batch_size": 0,
        "decoupled": True,
        "cancellation_check_period_ms": 100,
    }
    assert "model_transaction_policy { decoupled: True }" in launch_of("llmapi").files["models/served/config.pbtxt"]


def test_the_launcher_runs_in_the_life_and_serves_loopback_only() -> None:
    """From inside a clone, its tensorrt_llm/ would be imported first; the launcher itself knows no address."""
    launch = launch_of("llmapi")
    assert "--tritonserver /life/tritonserver --model_repo /life/models" in " ".join(launch.serve.argv)
    assert launch.files["tritonserver"].count("-address=127.0.0.1") == 3
    assert launch.ports == (18100, 18101, 18102)


def test_arguments_by_release() -> None:
    eagle = replace(KNOBS, speculation=Speculation("eagle3", 3, model="/models/eagle3"))
    assert model_yaml(eagle)["speculative_config"]["speculative_model_dir"] == "/models/eagle3"
    assert model_yaml(eagle, version="1.3.0rc5")["speculative_config"]["speculative_model"] == "/models/eagle3"
    mtp = replace(KNOBS, speculation=Speculation("mtp", 2))
    assert model_yaml(mtp)["speculative_config"] == {"decoding_type": "MTP", "num_nextn_predict_layers": 2}
    assert model_yaml(mtp, version="1.4.0rc1")["speculative_config"] == {"decoding_type": "MTP", "max_draft_len": 2}


def test_both_front_ends_of_the_llm_api_get_the_same_arguments() -> None:
    served = SERVE.plan(CHECKPOINT, KNOBS, PLACE)
    told = json.loads(served.files["llm_options.yaml"])
    own = {"model", "backend", "tensor_parallel_size", "pipeline_parallel_size", "max_batch_size", "max_seq_len"}
    own |= {"max_num_tokens", "triton_config"}
    assert told == {name: value for name, value in model_yaml().items() if name not in own}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("triton_llmapi", {"extra": {"max_seq_len": 1024}}, "1024 is less than knobs.max_model_len 4096"),
    ("triton_llmapi", {"extra": {"gather_generation_logits": True}}, "slows Triton about forty times"),
    ("triton_llmapi", {"extra": {"decoupled": False}}, "every request streams, which needs it on"),
    ("triton_llmapi", {"extra": {"max_batch_size": 8}}, "say it by knobs.max_num_seqs"),
    ("triton_llmapi", {"extra": {"instances": 2}}, "2 copies need 2 GPUs, `gpus` names 1"),
    ("triton_llmapi", {"extra": {"instances": 0}}, "say how many copies, 1 or more"),
    ("triton_llmapi", {"quantization": "fp8"}, "takes it from the checkpoint"),
    ("triton_llmapi", {"threads": 2}, "chooses its threads itself"),
    ("triton_llmapi", {"speculation": Speculation("medusa", 4)}, "medusa exists only for compiled engines"),
    ("triton_llmapi", {"speculation": Speculation("eagle3", 4)}, "eagle3 needs the folder of its draft model"),
    ("trtllm_serve", {"extra": {"gather_context_logits": True}}, "slows Triton about forty times"),
    ("triton_engine", {"extra": {"max_seq_len": 100}}, "100 is less than knobs.max_model_len 4096"),
    ("triton_engine", {"extra": {"gather_all_token_logits": "enable"}}, "slows Triton about forty times"),
    ("triton_engine", {"extra": {"decoupled": False}}, "every request streams, which needs it on"),
    ("triton_engine", {"extra": {"front": "x"}}, "'x'; say ensemble or bls"),
    ("triton_engine", {"extra": {"nonsense": 1}}, "knobs.extra.nonsense: unknown here; there are"),
    ("triton_engine", {"max_num_batched_tokens": None}, "a compiled engine is built for it"),
    ("triton_engine", {"speculation": Speculation("ngram", 4)}, "compiled engines have draft_target, eagle, lookahead"),
    ("triton_engine", {"speculation": Speculation("medusa", 4, model="/m")}, "medusa drafts along a tree of choices"),
    ("triton_engine", {"speculation": Speculation("lookahead", 4, window=7)}, "needs window, ngram and verification"),
    ("triton_engine", {"speculation": Speculation("draft_target", 4)}, "needs the folder of its draft model"),
    (
        "triton_llmapi",
        {"speculation": Speculation("ngram", 3), "async_scheduling": True},
        "knobs.async_scheduling: drafts of kind ngram wait for the last step; say false",
    ),
    ("triton_engine", {"async_scheduling": True}, "compiled engines prepare no step ahead; leave the key out"),
    ("openai_attach", {"extra": {"a": 1}}, "takes no settings from here"),
    ("vllm_openai", {"extra": {"max_model_len": 1}}, "a knob or this tool says it already"),
    ("vllm_openai", {"quantization": "int4_awq"}, "vLLM quantizes to fp8 at its start"),
]


@pytest.mark.parametrize(("engine", "changes", "message"), REFUSED, ids=[f"{r[0]}: {r[2]}" for r in REFUSED])
def test_contradictions_are_refused_at_plan_time(engine: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        ENGINES[engine].plan(CHECKPOINT, replace(KNOBS, **changes), PLACE)


def test_the_overlap_scheduler_is_off_where_drafts_need_it_and_where_it_is_said() -> None:
    def told(**changes: Any) -> object:
        return trtllm_settings.llm_args("/m", replace(KNOBS, **changes), "1.2.1")["disable_overlap_scheduler"]

    assert told() is False
    assert told(async_scheduling=False) is True
    assert told(speculation=Speculation("ngram", 3)) is True
    assert told(speculation=Speculation("eagle3", 3, "/d")) is False
    log = "[trtllm] Starting trtllm engine with args: {'max_seq_len': 512, 'disable_overlap_scheduler': True}"
    assert {row.name: row.value for row in trtllm_settings.ledger(log, None)}["async scheduling"] == "off"


def test_an_environment_without_nvidias_files_is_refused() -> None:
    with pytest.raises(PlanError, match="it names no folder with NVIDIA's files"):
        LLMAPI.plan(CHECKPOINT, KNOBS, replace(PLACE, vendor=None))


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({}, {"gpu": "NVIDIA L40S sm89"}),
        ({}, {"version": "1.2.0"}),
        ({"tensor_parallel": 2}, {}),
        ({"dtype": "float16"}, {}),
        ({"max_num_seqs": 32}, {}),
        ({"quantization": "fp8"}, {}),
        ({"extra": {"multiple_profiles": "enable"}}, {}),
    ],
)
def test_trap_11_an_engine_is_reused_only_under_the_same_key(changes: dict[str, Any], place: dict[str, Any]) -> None:
    before = engine_build.build(CHECKPOINT, KNOBS, PLACE).engine
    assert engine_build.build(CHECKPOINT, KNOBS, PLACE).engine == before
    assert engine_build.build(CHECKPOINT, replace(KNOBS, **changes), replace(PLACE, **place)).engine != before
    assert engine_build.build(replace(CHECKPOINT, sha256="cd" * 32), KNOBS, PLACE).engine != before


def facts(verb: str, engine: Path, version: str, gpu: str) -> subprocess.CompletedProcess[str]:
    return inside("engine_facts.py", verb, str(engine), version, gpu)


def test_trap_11_an_engine_of_another_gpu_or_version_is_refused(tmp_path: Path) -> None:
    assert "config.json is missing; correct engine_dir" in facts("check", tmp_path, "1.2.1", "NVIDIA H200 sm90").stderr
    (tmp_path / "config.json").write_text('{"version": "1.2.1"}')
    assert "does not say on which GPU it was built" in facts("check", tmp_path, "1.2.1", "NVIDIA H200 sm90").stdout
    facts("write", tmp_path, "1.2.1", "NVIDIA H200 sm90")
    assert facts("check", tmp_path, "1.2.1", "NVIDIA H200 sm90").returncode == 0
    other = facts("check", tmp_path, "1.2.1", "NVIDIA L40S sm89")
    assert other.returncode == 1
    assert "was built on NVIDIA H200 sm90, here is NVIDIA L40S sm89; build it anew on this one" in other.stderr
    assert "was built by TensorRT-LLM 1.2.1, here is 1.2.0" in facts("check", tmp_path, "1.2.0", "x").stderr


def test_trap_37_unknown_architectures_are_known_before_the_start() -> None:
    newer = replace(CHECKPOINT, architecture="DeepseekV4ForCausalLM")
    reason = "TensorRT-LLM 1.2.1 does not know the architecture DeepseekV4ForCausalLM"
    assert trtllm_settings.unsupported(newer, "1.2.1") == reason
    assert trtllm_settings.unsupported(newer, "1.4.0rc4") is None
    assert trtllm_settings.unsupported(CHECKPOINT, "1.2.1") is None
    no_converter = "TensorRT-LLM has no converter for the architecture DeepseekV4ForCausalLM"
    assert engine_build.unsupported(newer, "1.2.1") == no_converter
    gone = engine_build.unsupported(CHECKPOINT, "1.3.0rc25")
    assert gone is not None
    assert "compiles no engines (end of life after 1.2.1); use an image up to 26.07" in gone
    assert engine_build.unsupported(CHECKPOINT, "1.2.1+twin") is None


def test_values_survive_nvidias_template_filler(tmp_path: Path) -> None:
    """It splits at commas, then at colons, and undoes one level of backslashes each time."""
    from engines.triton_engine import _escaped

    values = {"medusa_choices": "{{0}, {0, 1}}", "tokenizer_dir": "/a:b,c", "engine_dir": "back\\slash"}
    template = tmp_path / "config.pbtxt"
    template.write_text("".join(f'{name}: "${{{name}}}"\n' for name in (*values, "unset")))
    pairs = ",".join(f"{name}:{_escaped(value)}" for name, value in values.items())
    filler = TEMPLATES / "tools" / "fill_template.py"
    subprocess.run([sys.executable, str(filler), "-i", str(template), pairs], check=True)
    told = "".join(f'{name}: "{value}"\n' for name, value in values.items())
    assert template.read_text() == told + 'unset: "${unset}"\n'
    wrong = subprocess.run([sys.executable, str(filler), "-i", str(template), "nobody:1"], capture_output=True)
    assert b"key 'nobody' does not exist" in wrong.stderr


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[0] == "triton_engine"])
def test_every_filled_key_is_in_its_template(name: str) -> None:
    """A key that a template lacks ends NVIDIA's filler."""
    from engines.triton_engine import parameters

    _, changes, place = CASES[name]
    models = {"tensorrt_llm": "/e", "tensorrt_llm_draft": "/d"} if "draft" in name else {"tensorrt_llm": "/e"}
    front = "bls" if "draft" in name or "bls" in name else "ensemble"
    knobs, where = replace(KNOBS, **changes), replace(PLACE, **place)
    folder = {"served": "ensemble" if front == "ensemble" else "tensorrt_llm_bls", "tensorrt_llm_draft": "tensorrt_llm"}
    for model, values in parameters(CHECKPOINT, knobs, where, front, models).items():
        path = TEMPLATES / "all_models" / "inflight_batcher_llm" / folder.get(model, model) / "config.pbtxt"
        template = path.read_text()
        assert [key for key in values if f"${{{key}}}" not in template] == []


def inside(program: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = ROOT / "engines" / "inside" / program
    return subprocess.run([sys.executable, str(path), *arguments], capture_output=True, text=True, env=env, check=False)


def test_trap_10_an_old_openai_package_is_told(tmp_path: Path) -> None:
    assert inside("openai_check.py").returncode == 0, "without the package there is nothing to tell"
    responses = tmp_path / "openai" / "types" / "responses"
    responses.mkdir(parents=True)
    (tmp_path / "openai" / "__init__.py").touch()
    (responses / "part.py").write_text("class Part: ...\n")
    told = inside("openai_check.py", PYTHONPATH=str(tmp_path))
    assert told.returncode == 1
    assert "the openai package here is too old for TensorRT-LLM" in told.stderr
    (responses / "part.py").write_text("class PartReasoningText: ...\n")
    assert inside("openai_check.py", PYTHONPATH=str(tmp_path)).returncode == 0


def test_a_checkout_of_another_version_is_refused(tmp_path: Path) -> None:
    app = tmp_path / "TensorRT-LLM" / "triton_backend"
    app.mkdir(parents=True)
    assert inside("version_check.py", str(app), "1.2.1").returncode == 0, "an image has no such file"
    (app.parent / "tensorrt_llm").mkdir()
    (app.parent / "tensorrt_llm" / "version.py").write_text('__version__ = "1.3.0rc5"\n')
    assert inside("version_check.py", str(app), "1.3.0rc5").returncode == 0
    told = inside("version_check.py", str(app), "1.2.1")
    assert told.returncode == 1
    assert "is a checkout of 1.3.0rc5, TensorRT-LLM 1.2.1 is installed: check out the tag v1.2.1" in told.stderr
