# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's engines from end to end over their twins, which run on a real Triton; and the traps that twins can show.

Tests are named after the trap's number in the list of known traps; test_traps.py says where the others are caught.
"""

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from engines.contract import Answer, Capabilities, Engine, Prompt, Sampling
from engines.launch import Launch
from engines.registry import ENGINES
from runners.environments import read_recipe
from runners.launch.server import LaunchError, Server
from runners.load.scrape import ask, tried
from runners.load.transport import transport_of
from runners.own_rows import Given
from runners.report.blocks import read_run
from runners.report.breakdown import breakdown
from runners.report.equivalence import equivalence_of
from runners.session import Session, open_session
from runners.verify import Verified, VerifyError, verify
from tests.live_environments import made_or_skipped
from tests.staged import compared, rows_of

pytestmark = pytest.mark.light

ROOT = Path(__file__).parent.parent
PORTS = itertools.count(18310, 3)
NAME = "twin"
PATIENCE_S = 1.5
"""How long a request that nothing answers is waited for."""


@pytest.fixture(scope="module", autouse=True)
def _environment() -> None:
    for name in ("release-1.2", "release-1.3"):
        made_or_skipped(read_recipe(ROOT / "tests" / "twins" / f"{name}.txt"))


def session(checkpoint: str = "demo", **changes: Any) -> Session:
    """The shipped config on other ports."""
    config = yaml.safe_load((ROOT / "configs" / "twins.yaml").read_text())
    for contender in config["contenders"]:
        contender["environment"] = str(ROOT / contender["environment"])
    return open_session(
        yaml.safe_dump({**config, "checkpoint": checkpoint, "port": next(PORTS), **changes}), "twins", print
    )


@dataclass(frozen=True)
class Twin:
    """A running twin."""

    engine: Engine
    server: Server
    session: Session

    def prompt(self, text: str = " the of and to in is that for it as" * 9, tokens: int = 8) -> Prompt:
        return Prompt(text, self.session.rendering.tokens(text), tokens, False, Sampling())

    def post(self, body: dict[str, Any], path: str = "generate_stream", limit_s: float = 10.0) -> httpx.Response:
        url = f"{self.server.url}/v2/models/{NAME}/{path}"
        return httpx.post(url, json=body, timeout=limit_s, trust_env=False)

    def asked(self, prompt: Prompt) -> dict[str, Any]:
        """The body that the engine sends for a prompt."""
        body: dict[str, Any] = json.loads(self.engine.encode(prompt, self.capabilities()).body)
        return body

    def capabilities(self, *, first: bool = False) -> Capabilities:
        trials = tried(self.server, self.engine, NAME, self.prompt(), first=first) if first else {}
        return replace(ask(self.server, self.engine, NAME, trials).capabilities, model=NAME)

    def folded(self, prompt: Prompt) -> Answer:
        """A whole answer by the engine's own fold."""
        answer, capabilities = Answer(), self.capabilities()
        for data in events(self.post(self.asked(prompt))):
            self.engine.fold(answer, data, capabilities)
        return answer

    def verified(self, prompt: Prompt | None = None) -> Verified:
        rendering = self.session.rendering
        transport = transport_of(self.server.address("http"), "http")
        given = Given(self.session.checkpoint, (), self.session.bakeoff.knobs.kv_cache_tokens)
        return verify(self.server, transport, self.engine, NAME, 512, prompt or self.prompt(), rendering, given=given)


def events(response: httpx.Response) -> list[bytes]:
    return [
        line.removeprefix("data:").strip().encode() for line in response.text.split("\n") if line.startswith("data")
    ]


def values(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(data) for data in events(response)]


@contextmanager
def twin(name: str, folder: Path, **changes: Any) -> Iterator[Twin]:
    opened = session(**changes)
    life = next(life for life in opened.lives if life.contender.name == name)
    contestant = opened.contestants[name]
    with contestant.runner.up(hurried(opened.plan(life, folder, NAME)), folder) as server:
        yield Twin(contestant.engine, server, opened)


def hurried(launch: Launch) -> Launch:
    """Requests that nobody answers keep Triton from ending: here for a second, not for ten."""
    slow, quick = "--exit-timeout-secs=10", "--exit-timeout-secs=1"
    files = {name: text.replace(slow, quick) for name, text in launch.files.items()}
    argv = tuple(word.replace(slow, quick) for word in launch.serve.argv)
    return replace(launch, files=files, serve=replace(launch.serve, argv=argv))


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    with twin("llmapi-1.2", tmp_path_factory.mktemp("older") / "life") as running:
        yield running


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    with twin("llmapi", tmp_path_factory.mktemp("newer") / "life") as running:
        yield running


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    with twin("engine", tmp_path_factory.mktemp("engine") / "life") as running:
        yield running


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twin]:
    with twin("triton-vllm", tmp_path_factory.mktemp("vllm") / "life") as running:
        yield running


class TestLlmApi:
    """Both generations of the LLM API model."""

    def test_trap_2_infer_is_refused_on_a_decoupled_model(self, newer: Twin) -> None:
        inputs = [{"name": "text_input", "shape": [1], "datatype": "BYTES", "data": ["a"]}]
        refused = newer.post({"inputs": inputs}, "infer")
        assert refused.status_code == 501
        assert refused.json() == {"error": "HTTP end point doesn't support models with decoupled transaction policy"}

    def test_trap_3_a_stream_of_one_event_has_no_client_times(self, older: Twin, newer: Twin) -> None:
        assert older.capabilities(first=True).incremental is False
        assert newer.capabilities(first=True).incremental is True
        assert len(events(older.post(older.asked(older.prompt())))) == 1

    def test_trap_4_cumulative_text_replaces(self, newer: Twin) -> None:
        """Steps of 1, 2, 3 and 2 tokens: three drafted each, 0, 1, 2 and 1 accepted."""
        answer = newer.folded(newer.prompt())
        told = [event["text_output"] for event in values(newer.post(newer.asked(newer.prompt())))]
        assert len(told) == 4
        assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(told))
        assert answer.text == told[-1]
        assert newer.session.rendering.tokens(answer.text) == 8

    def test_trap_8_the_prompt_is_not_echoed(self, older: Twin, newer: Twin) -> None:
        prompt = older.prompt()
        for running in (older, newer):
            assert not running.folded(prompt).text.startswith(prompt.text)
        echoed = older.post(older.asked(prompt) | {"sampling_param_exclude_input_from_output": False})
        assert values(echoed)[0]["text_output"].startswith(prompt.text)

    def test_trap_15_zeros_of_drafting_are_no_report(self, older: Twin, newer: Twin) -> None:
        """12 tokens with 3 drafted a step: steps of 1, 2, 3, 4, 1 and 1 tokens, so 18 drafted and 6 accepted."""
        drafted = newer.folded(newer.prompt(tokens=12))
        assert (drafted.drafted_tokens, drafted.accepted_tokens) == (18, 6)
        unreported = older.folded(older.prompt(tokens=12))
        assert (unreported.drafted_tokens, unreported.accepted_tokens) == (None, None)

    def test_traps_16_and_17_cached_tokens_come_with_each_request(self, older: Twin, newer: Twin) -> None:
        """Blocks hold 16 tokens, and the last token is never reused."""
        for running in (older, newer):
            prompt = running.prompt(" zone" + running.prompt().text + running.engine.name)
            first, second = running.folded(prompt), running.folded(prompt)
            assert first.cached_tokens == 0
            assert second.cached_tokens == (prompt.input_tokens - 1) // 16 * 16 > 64
            page = httpx.get(f"{running.server.metrics_url}/metrics", trust_env=False).text
            assert "nv_trt_llm" not in page

    def test_trap_31_the_request_id_is_in_the_body(self, newer: Twin) -> None:
        assert isinstance(newer.asked(newer.prompt())["id"], str)
        told = values(newer.post(newer.asked(newer.prompt()) | {"id": "mine"}))
        assert {event["id"] for event in told} == {"mine"}
        assert newer.post(newer.asked(newer.prompt()) | {"id": 7}).status_code == 500
        url = f"{newer.server.url}/v2/models/{NAME}/generate"
        stop = httpx.post(url, json={"stop": True}, headers={"triton-request-id": "mine"}, trust_env=False)
        assert "A request id must be provided for request cancellation" in stop.text

    def test_trap_32_metrics_are_text(self, older: Twin, newer: Twin) -> None:
        for running in (older, newer):
            last = values(running.post(running.asked(running.prompt())))[-1]
            assert isinstance(last["kv_cache_reused_block"], str)
            assert isinstance(last["arrival_time_ns"], str)
            times = running.folded(running.prompt()).engine_times
            assert times is not None
            assert times.arrival_ns <= times.scheduled_ns < times.first_token_ns <= times.last_token_ns

    def test_trap_33_unknown_keys_are_dropped_so_names_are_checked(self, newer: Twin) -> None:
        names = {tensor["name"] for tensor in json.loads(self.config(newer))["input"]}
        assert set(newer.asked(newer.prompt())) - {"id"} <= names
        dropped = values(newer.post(newer.asked(newer.prompt()) | {"max_tokens": 1}))
        assert newer.session.rendering.tokens(dropped[-1]["text_output"]) == 8

    def config(self, running: Twin) -> str:
        return httpx.get(f"{running.server.url}/v2/models/{NAME}/config", trust_env=False).text

    def test_trap_34_the_length_is_always_sent(self, newer: Twin) -> None:
        asked = newer.asked(newer.prompt(tokens=40))
        assert asked["sampling_param_max_tokens"] == 40
        del asked["sampling_param_max_tokens"]
        assert newer.session.rendering.tokens(values(newer.post(asked))[-1]["text_output"]) == 32

    def test_trap_35_the_template_is_rendered_by_the_client(self, newer: Twin) -> None:
        rendered = newer.session.rendering.render("hello")
        assert rendered.startswith("<|start|>user")
        assert newer.asked(newer.prompt(rendered))["text_input"] == rendered

    def test_trap_30_one_prompt_a_request(self, newer: Twin) -> None:
        """A second one would be dropped in silence."""
        assert isinstance(newer.asked(newer.prompt())["text_input"], str)

    def test_trap_38_an_error_before_registration_is_silence(self, older: Twin, newer: Twin) -> None:
        refused = older.post({"sampling_param_max_tokens": 1}, "generate")
        assert refused.status_code == 400
        assert refused.json() == {"error": "Error generating request: text_input is missing from the request"}
        with pytest.raises(httpx.ReadTimeout):
            newer.post({"sampling_param_max_tokens": 1}, "generate", PATIENCE_S)
        with pytest.raises(httpx.ReadTimeout):
            newer.post(newer.asked(newer.prompt("[[refuse]] " + newer.prompt().text)), limit_s=PATIENCE_S)
        rows = {row.name: row.value for row in newer.verified().ledger}
        assert rows["a request without text"] == "no answer"
        assert {row.name: row.value for row in older.verified().ledger}["a request without text"] == "HTTP 400"

    def test_trap_41_a_failure_in_mid_stream_loses_the_token_before_it(self, older: Twin, newer: Twin) -> None:
        """Failing in step 3 of 1, 2 and 3 tokens: the event of step 2 is still queued and goes under."""
        prompt = newer.prompt("[[fail_at=6]] " + newer.prompt().text)
        told = values(newer.post(newer.asked(prompt)))
        assert [list(event) for event in told[-1:]] == [["error"]]
        assert len(told) == 2
        assert newer.folded(prompt).error == "Error generating request: the executor failed"
        failed = older.post(older.asked(prompt))
        assert failed.status_code == 400

    def test_a_stop_by_id_is_answered_by_an_error_and_ends_the_stream(self, older: Twin, newer: Twin) -> None:
        slow = "[[step_ms=50]] " + newer.prompt().text
        for running, ending in ((older, "cancelled"), (newer, "Request cancelled by client")):
            name = f"stop-{ending}"
            body = running.asked(running.prompt(slow, 100)) | {"id": name}
            stopper = threading.Timer(0.3, lambda r=running, n=name: r.post({"id": n, "stop": True}, "generate"))
            stopper.start()
            began = time.monotonic()
            told = values(running.post(body))
            assert time.monotonic() - began < 3.0
            assert ending in json.dumps(told[-1])
        unknown = newer.post({"id": "nobody", "stop": True}, "generate")
        assert (unknown.status_code, unknown.json()) == (400, {"error": "Request cancelled by client"})

    def test_a_second_stop_is_never_answered(self, newer: Twin) -> None:
        """The first takes the request out of the table while the runtime is still in its step."""
        body = newer.asked(newer.prompt("[[step_ms=1000]] " + newer.prompt().text, 8)) | {"id": "twice"}
        url, stop = f"{newer.server.url}/v2/models/{NAME}/generate_stream", {"id": "twice", "stop": True}
        with httpx.Client(trust_env=False) as client, client.stream("POST", url, json=body) as response:
            next(response.iter_bytes())
            assert newer.post(stop, "generate").status_code == 400
            with pytest.raises(httpx.ReadTimeout):
                newer.post(stop, "generate", 0.4)

    def test_trap_27_and_a_client_that_leaves(self, newer: Twin) -> None:
        """Its request is noticed at the next write only; the server answers others meanwhile."""
        body = newer.asked(newer.prompt("[[step_ms=50]] " + newer.prompt().text, 100))
        with httpx.Client(trust_env=False) as client:
            url = f"{newer.server.url}/v2/models/{NAME}/generate_stream"
            with client.stream("POST", url, json=body) as response:
                next(response.iter_bytes())
        assert newer.folded(newer.prompt()).finish_reason == "length"

    def test_many_streams_at_once_are_exact(self, newer: Twin) -> None:
        answers: list[Answer] = []
        prompts = [newer.prompt(f" case {number}" + newer.prompt().text, 16) for number in range(16)]
        threads = [threading.Thread(target=lambda p=p: answers.append(newer.folded(p))) for p in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [newer.session.rendering.tokens(answer.text) for answer in answers] == [16] * 16

    def test_the_ledger_is_read_back(self, older: Twin, newer: Twin) -> None:
        for running, version, drafting in ((older, "1.2.1+twin", "off"), (newer, "1.3.0rc5+twin", "ngram, 3 tokens")):
            rows = {row.name: row.value for row in running.verified().ledger}
            assert rows["engine version"] == version
            assert rows["KV capacity (tokens)"] == "32768"
            assert rows["block size (tokens)"] == "16"
            assert rows["maximum length (tokens)"] == "512"
            assert rows["speculation"] == drafting
            assert rows["metrics arrive as"] == "text"
            assert rows["a stop request"] == "ends the stream"

    def test_a_forced_length_cannot_be_had(self, newer: Twin) -> None:
        with pytest.raises(VerifyError, match="set output_length: natural"):
            newer.verified(replace(newer.prompt(), forced=True))


def test_staged_inequalities_are_found(older: Twin, tmp_path: Path) -> None:
    """The same engine with another KV dtype, no prefix cache, another maximum length, stream interval and tokenizer; a
    stream of one event shows no interval, so that the engine's own word counts."""
    opened = session()
    other = shutil.copytree(opened.checkpoint.folder, tmp_path / "other")
    (other / "tokenizer.json").chmod(0o644)
    (other / "tokenizer.json").write_text(f"{(other / 'tokenizer.json').read_text()}\n")

    def changed(launch: Launch) -> Launch:
        path = next(name for name in launch.files if name.endswith("model.yaml"))
        args = json.loads(launch.files[path])
        args |= {"max_seq_len": 192, "stream_interval": 10, "tokenizer": str(other)}
        args["kv_cache_config"] |= {"dtype": "fp8", "enable_block_reuse": False}
        return hurried(replace(launch, files={**launch.files, path: json.dumps(args)}))

    theirs = rows_of(opened, "llmapi-1.2", tmp_path / "life", older.prompt(), 192, changed)
    names = {"llmapi": older.verified().ledger, "llmapi-1.2": theirs}
    found = compared(opened.bakeoff.model_dump(mode="json"), names)
    told = {name: row.values["llmapi-1.2"] for name, row in found.items() if row.forbids}
    assert told.pop("tokenizer") not in (None, found["tokenizer"].values["llmapi"])
    assert told == {
        "KV dtype": "fp8",
        "prefix cache": "off",
        "maximum length (tokens)": "192",
        "stream interval": "10",
    }


class TestCompiledEngine:
    """A real Triton ensemble of three models; the engine is made by the converter and trtllm-build."""

    def test_an_answer(self, engine: Twin) -> None:
        prompt = engine.prompt(" first" + engine.prompt().text, 12)
        first, second = engine.folded(prompt), engine.folded(prompt)
        assert (first.tokens, first.server_tokens, first.prompt_tokens) == (12, 12, prompt.input_tokens)
        assert first.cached_tokens == 0
        assert second.cached_tokens == (prompt.input_tokens - 1) // 16 * 16
        assert engine.session.rendering.tokens(first.text) == 12
        assert first.finish_reason is None
        assert first.engine_times is not None

    def test_trap_5_and_6_text_comes_in_deltas_and_metrics_as_numbers(self, engine: Twin) -> None:
        told = values(engine.post(engine.asked(engine.prompt())))
        assert len(told) == 8
        assert "".join(event["text_output"] for event in told) == engine.folded(engine.prompt()).text
        assert isinstance(told[-1]["kv_cache_reused_blocks"], int)
        assert [event["num_output_tokens"] for event in told] == [1] * 8

    def test_trap_13_processes_of_tokenizer_and_detokenizer_are_told(self, engine: Twin) -> None:
        rows = {row.name: row.value for row in engine.verified().ledger}
        assert rows["preprocessing processes"] == "2"
        assert rows["postprocessing processes"] == "1"
        assert rows["maintained"] == "end of life: the path is gone after 1.2.1"
        assert engine.capabilities().notes == ("end of life", "2 tokenizers, 1 detokenizers")
        assert rows["batch limit (tokens)"] == "2048"
        assert rows["KV capacity (tokens)"] == "32768"

    def test_trap_14_a_length_is_forced_by_its_minimum(self, engine: Twin) -> None:
        forced = replace(engine.prompt(), forced=True)
        assert engine.asked(forced)["min_tokens"] == 8
        assert engine.verified(forced).canary.error is None

    def test_trap_26_sampling_is_explicit(self, engine: Twin) -> None:
        asked = engine.asked(engine.prompt())
        assert (asked["top_k"], asked["temperature"], asked["top_p"]) == (1, 1.0, 1.0)

    def test_trap_23_names_are_the_ensembles_own(self, engine: Twin) -> None:
        config = httpx.get(f"{engine.server.url}/v2/models/{NAME}/config", trust_env=False).json()
        assert set(engine.asked(engine.prompt())) - {"id"} <= {tensor["name"] for tensor in config["input"]}

    def test_the_build_is_kept_and_its_time_reported(self, engine: Twin, tmp_path: Path) -> None:
        assert engine.server.build_s is not None
        with twin("engine", tmp_path / "life") as again:
            assert again.server.build_s == engine.server.build_s


def test_bls_accumulates_its_text(tmp_path: Path) -> None:
    extra = {"front": "bls", "bls_instance_count": 1, "preprocessing_instance_count": 1}
    contender = {
        "name": "engine",
        "engine": "triton_engine",
        "environment": str(ROOT / "tests" / "twins" / "release-1.2.txt"),
        "knobs": {"extra": extra | {"postprocessing_instance_count": 1}},
    }
    with twin("engine", tmp_path / "life", contenders=[contender], reference="engine") as running:
        capabilities = running.capabilities(first=True)
        assert capabilities.whole_text
        told = values(running.post(running.asked(running.prompt())))
        assert [running.session.rendering.tokens(event["text_output"]) for event in told] == list(range(1, 9))
        assert running.verified().canary.tokens == 8


class TestVllmBackend:
    """NVIDIA's vLLM backend: no cache, no speculation."""

    def test_it_reports_neither_cache_nor_speculation(self, backend: Twin) -> None:
        verified = backend.verified()
        assert not verified.capabilities.reports_cached_tokens
        assert not verified.capabilities.speculates
        answer = backend.folded(backend.prompt())
        assert (answer.tokens, answer.cached_tokens, answer.drafted_tokens) == (8, None, None)

    def test_trap_36_an_id_without_the_sampling_tensor_is_taken_for_sampling(self, backend: Twin) -> None:
        broken = backend.post({"text_input": "a", "stream": True, "id": "x"})
        assert "Unexpected keyword argument 'id'" in broken.text
        assert "sampling_parameters" in backend.asked(backend.prompt())


def test_any_openai_server_is_tried_for_what_it_takes(tmp_path: Path) -> None:
    with twin("trtllm-serve", tmp_path / "life") as served:
        attached = replace(served, engine=ENGINES["openai_attach"])
        trials = tried(served.server, attached.engine, NAME, served.prompt(), first=True)
        reading = ask(served.server, attached.engine, NAME, trials)
        assert reading.capabilities.front_end == "OpenAI API, extended"
        assert reading.capabilities.forces_length
        assert reading.capabilities.tokens_per_event
        assert reading.capabilities.engine_version == "1.2.1+twin"
        strict = httpx.post(
            f"{served.server.url}/v1/completions", json={"prompt": "a", "return_token_ids": True}, trust_env=False
        )
        assert strict.status_code == 400


def test_trap_39_a_dead_stub_is_silence_and_health_says_200(tmp_path: Path) -> None:
    with twin("llmapi", tmp_path / "life") as running:
        with pytest.raises((httpx.ReadTimeout, httpx.RemoteProtocolError)):
            running.post(running.asked(running.prompt("[[die]] [[step_ms=50]] x")), limit_s=PATIENCE_S)
        assert httpx.get(f"{running.server.url}/v2/health/ready", trust_env=False).status_code == 200
        with pytest.raises(VerifyError, match=r"a short stream failed: HTTP 400: .*is not healthy"):
            running.verified()


def test_trap_37_an_unknown_architecture_is_told_by_the_start(demo_folder: Path, tmp_path: Path) -> None:
    other = copy_of(demo_folder, tmp_path / "checkpoint", "UnheardOfForCausalLM")
    told = "Unknown architecture for AutoModelForCausalLM: UnheardOfForCausalLM"
    with pytest.raises(LaunchError, match=told), twin("llmapi", tmp_path / "life", checkpoint=str(other)):
        pass


def copy_of(checkpoint: Path, target: Path, architecture: str) -> Path:
    target.mkdir()
    for path in checkpoint.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | {"architectures": [architecture]}))
    return target


@pytest.mark.parametrize("missing", ["yaml", "pbtxt"])
def test_traps_1_and_40_either_file_alone_is_found_out(tmp_path: Path, missing: str) -> None:
    """With only the policy, the newer wrapper answers no stream at all; with only model.yaml, one event."""
    opened = session()
    life = opened.lives[0]
    launch = hurried(opened.plan(life, tmp_path / "life", NAME))
    config, settings = f"models/{NAME}/config.pbtxt", f"models/{NAME}/1/model.yaml"
    files = dict(launch.files)
    if missing == "yaml":
        files[settings] = files[settings].replace('"decoupled": true', '"decoupled": false')
    else:
        files[config] = files[config].replace("model_transaction_policy { decoupled: True }\n", "")
    contestant = opened.contestants["llmapi"]
    engine = replace(contestant.engine, trials=lambda p: contestant.engine.trials(p)[:1])
    short = replace(engine, trials=lambda p: tuple(replace(t, limit_s=PATIENCE_S) for t in engine.trials(p)))
    with contestant.runner.up(replace(launch, files=files), tmp_path / "life") as server:
        running = Twin(short, server, opened)
        with pytest.raises(VerifyError) as caught:
            running.verified()
    told = {"yaml": "a short stream was not answered in time", "pbtxt": "the model is not decoupled"}
    assert told[missing] in str(caught.value)


def bakeoff(
    folder: Path, checkpoint: str, names: set[str], *arguments: str, program: Path | None = None, **changes: Any
) -> subprocess.CompletedProcess[str]:
    """The command itself, or a program in its place, over some of the twins; results lie in the folder's out/."""
    config = yaml.safe_load((ROOT / "configs" / "twins.yaml").read_text())
    contenders = [contender for contender in config["contenders"] if contender["name"] in names]
    config |= {
        "contenders": contenders,
        "blocks": 1,
        "window_s": 0.4,
        "idle_limit_s": 3,
        "port": next(PORTS),
        "checkpoint": checkpoint,
    }
    config["workloads"][0]["concurrency"] = [2]
    config |= changes
    (folder / "twins.yaml").write_text(yaml.safe_dump(config))
    run = [str(program)] if program else ["-m", "runners"]
    command = [sys.executable, *run, *arguments, str(folder / "twins.yaml")]
    tail = ["--out", str(folder / "out")] if arguments == ("compare",) else []
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*command, *tail], capture_output=True, text=True, cwd=ROOT, env=env, check=False)


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    found = json.loads((folder / "out" / "table.json").read_text())
    return {row["engine"]: row for row in found}


def test_all_engines_are_compared(tmp_path: Path) -> None:
    """Throughput, TTFT, cache hits and speculation of each, or a dash where it reports none."""
    names = {"llmapi", "llmapi-grpc", "llmapi-1.2", "engine", "trtllm-serve", "triton-vllm"}
    done = bakeoff(tmp_path, "demo", names, "compare")
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path)
    assert set(found) == names
    for name, row in found.items():
        assert row["requests_done"] == row["requests_due"] > 0, (name, row)
        assert row["token_mismatches"] == 0
        assert row["output_tokens_per_s"] > 0
        assert (row["cache_hit_rate"] is None) == (name == "triton-vllm")
        drafts = name in ("llmapi", "llmapi-grpc")
        assert (row["acceptance_rate"] is None) == (not drafts)
        assert (row["ttft_engine_p50_s"] is None) == (name in ("trtllm-serve", "triton-vllm"))
        assert row["ttft_visible_p50_reason"] == ("one event" if name == "llmapi-1.2" else None)
        assert "tokens of completed requests (1 of 1 blocks)" in row["flags"], "no ratio mixes clocks"
    assert found["llmapi"]["acceptance_rate"] == pytest.approx(0.4, abs=0.1)
    assert 64 / 112 < found["engine"]["cache_hit_rate"] < 64 / 80
    assert found["engine"]["build_s"] > 0
    assert found["engine"]["engine_version"] == "1.2.1+twin"
    assert "| llmapi-1.2 | 1.2.1+twin | chat | 2 |" in done.stdout
    assert "end of life (1 of 1 blocks)" in found["engine"]["flags"]
    assert "| one event |" in done.stdout
    check_answers_and_times(tmp_path, names)


def check_answers_and_times(folder: Path, names: set[str]) -> None:
    """Twins answer by one rule, and admit a request at once: no queue, and a step of 2 ms at least before a token."""
    run = read_run(folder / "out")
    held = {e.contender: e for e in equivalence_of(run)}
    assert set(held) == names
    for name in names - {"llmapi"}:
        assert (held[name].identical, held[name].length_ratio, held[name].passed) == (1.0, 1.0, None), name
        assert held[name].reason.startswith("one start of llmapi only")
        assert "llmapi reports no prompt counts" in held[name].reason
    found = {b.contender: b for b in breakdown(run)}
    assert set(found) == {"llmapi", "llmapi-grpc", "llmapi-1.2", "engine"}
    for name, one in found.items():
        assert (one.of, one.queue.mean_s) == ("requests", 0.0), name
        assert one.prefill.mean_s >= 0.002
        assert one.decode.mean_s > one.prefill.mean_s
        assert one.front_end.mean_s > 0
        layers = (one.queue, one.prefill, one.decode, one.front_end)
        assert sum(layer.mean_s for layer in layers) == pytest.approx(one.e2e_s)
        assert (one.to_first_s is None) == (name == "llmapi-1.2")


def test_hits_and_acceptance_are_those_of_the_construction(tmp_path: Path) -> None:
    """An answer of 20 tokens takes steps that accept 0, 1, 2, 3, 0, 1, 2 and 3 of 3 drafted tokens. A cell whose
    prompts were sent before, the second of one file, is found out."""
    lengths = {"input_tokens": {"low": 80, "high": 112}, "output_tokens": 20, "concurrency": [2]}
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(f'{{"prompt": "{n} times {n + 7}, say it", "max_tokens": 20}}\n' for n in range(400)))
    workloads = [
        {"name": "cold", **lengths},
        {"name": "some", **lengths, "shared_prefix": {"tokens": 72, "count": 5, "share": 0.5}},
        {"name": "turns", **lengths, "turns": 3},
        {"name": "own", "file": str(prompts), "concurrency": [2]},
        {"name": "again", "file": str(prompts), "concurrency": [2]},
    ]
    done = bakeoff(tmp_path, "demo", {"llmapi", "engine"}, "compare", workloads=workloads, gate=False)
    assert done.returncode == 0, done.stderr
    for contender, workload in itertools.product(("llmapi", "engine"), ("cold", "some", "turns", "own", "again")):
        found = json.loads((tmp_path / "out" / "lives" / f"b01-{contender}" / f"{workload}-c2.json").read_text())
        summary = found["summary"]
        codes = [flag["code"] for flag in summary["flags"]]
        assert ("cache leak" in codes) == (workload == "again"), (contender, codes)
        if workload != "again":
            assert summary["cache_hit_rate"] == pytest.approx(summary["cache_expected"], abs=0.02), (
                contender,
                workload,
            )
            assert "cache hits not as constructed" not in codes
        assert summary["acceptance_rate"] == (0.5 if contender == "llmapi" else None)
        assert (summary["acceptance_length"], summary["tokens_per_step"]) == (None, None)


def test_trap_39_an_engine_that_dies_while_driven_voids_the_life(tmp_path: Path) -> None:
    """The server answers health checks to the end, so that a request has to be asked."""
    driving = replaced_prompts(tmp_path)
    assert driving.returncode == 1
    assert "and none is answered any more" in driving.stderr
    assert not list(tmp_path.glob("out/lives/*/life.json"))


def replaced_prompts(folder: Path) -> subprocess.CompletedProcess[str]:
    """The command with the measured prompts of the second half ordering the twin's death."""
    program = folder / "run.py"
    program.write_text(
        "import itertools, sys\n"
        "from dataclasses import replace\n"
        "from runners import cell\n"
        "from runners.load.workload import Draw\n"
        "plain = Draw.prompts\n"
        "def prompts(self):\n"
        "    numbered = enumerate(plain(self))\n"
        "    kill = self.seed[-1:] == ('measured',)\n"
        "    deadly = '[[die]] [[step_ms=20]]'\n"
        "    return (replace(p, text=deadly + p.text) if kill and n > 6 else p for n, p in numbered)\n"
        "Draw.prompts = prompts\n"
        "from runners.cli import app\n"
        "app()\n"
    )
    return bakeoff(folder, "demo", {"llmapi"}, "compare", program=program)


def test_trap_37_an_unsupported_engine_has_its_row_and_the_others_run(demo_folder: Path, tmp_path: Path) -> None:
    other = copy_of(demo_folder, tmp_path / "checkpoint", "Olmo3ForCausalLM")
    done = bakeoff(tmp_path, str(other), {"llmapi", "llmapi-1.2"}, "compare")
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path)
    assert found["llmapi"]["requests_done"] > 0
    assert found["llmapi-1.2"]["verdict"] == "unsupported on this engine"
    reason = "TensorRT-LLM 1.2.1+twin does not know the architecture Olmo3ForCausalLM"
    assert found["llmapi-1.2"]["flags"] == [reason]
    assert "| llmapi-1.2 | - | - |" in done.stdout
    planned = bakeoff(tmp_path, str(other), {"llmapi", "llmapi-1.2"}, "plan")
    assert f"# llmapi-1.2: unsupported on this engine: {reason}" in planned.stdout
    assert "# llmapi: TensorRT-LLM's LLM API inside Triton" in planned.stdout
