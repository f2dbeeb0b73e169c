# SPDX-License-Identifier: Apache-2.0
"""The service's API and pages over results that are there already."""

import io
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from runners.bundle import write_bundle
from runners.report.blocks import read_run
from runners.report.decisions import decide_run, decisions_json
from tests.live_environments import light_environment
from tests.results_folder import make_folder
from tests.service import light, mark_of, served

needs_light = pytest.mark.usefixtures("_light_made")


@pytest.fixture(scope="module")
def _light_made() -> None:
    light_environment()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    make_folder(folder / "first")
    (folder / "first" / "verdicts.json").write_text(decisions_json(decide_run(read_run(folder / "first"))))
    return folder


@pytest.fixture
def client(results: Path) -> Iterator[TestClient]:
    with served(results) as found:
        yield found


def test_a_folder_is_listed_as_it_is(client: TestClient) -> None:
    (run,) = client.get("/api/v1/runs").json()["runs"]
    assert run["id"] == "first"
    assert run["state"] == "finished"
    assert run["contenders"] == ["a", "b", "lame"]
    assert (run["lives_done"], run["lives_planned"]) == (8, 8)
    assert run["bundle"] is False
    assert run["trouble"] is None


def test_a_run_is_found_by_what_it_is(client: TestClient, results: Path) -> None:
    shutil.copytree(results / "first", results / "second")
    (results / "second" / "verdicts.json").write_text(
        json.dumps({"comparisons": [{"contender": "b", "workload": "w", "level": None, "verdict": "slower by 2.1%"}]})
    )

    def found(**query: str) -> list[str]:
        return [run["id"] for run in client.get("/api/v1/runs", params=query).json()["runs"]]

    with served(results) as client:
        assert found() == ["second", "first"]
        assert found(verdict="slower") == ["second"]
        assert found(text="SECOND") == ["second"]
        assert found(text="%") == found(engine="vllm") == found(state="running") == []
        assert found(engine="llamacpp_openai", state="finished") == ["second", "first"]
        assert found(limit="1", offset="1") == ["first"]


def test_each_part_of_a_run(client: TestClient) -> None:
    at = "/api/v1/runs/first"
    assert {cell["contender"] for cell in client.get(f"{at}/cells").json()} == {"a", "b"}
    assert client.get(f"{at}/table", params={"format": "md"}).text.startswith("| engine |")
    (declared,) = [
        c for c in client.get(f"{at}/verdicts").json()["comparisons"] if c["level"] is None and c["contender"] == "b"
    ]
    assert declared["ratio"]["n"] == 4
    assert client.get(f"{at}/ledger").status_code == 200
    assert client.get(f"{at}/config").text.startswith("blocks: 4")
    logs = client.get(f"{at}/logs").json()
    assert "b01-a/server.log" in logs
    assert client.get(f"{at}/logs/b01-a/server.log").text == "ready\n"
    report = client.get(f"{at}/report")
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts ")
    assert "allow-same-origin" not in report.headers["content-security-policy"]
    assert "<html" in report.text
    archive = zipfile.ZipFile(io.BytesIO(client.get(f"{at}/bundle").content))
    assert "bundle.json" in archive.namelist()
    (progress,) = [client.get(at).json()["status"]["progress"]]
    assert (progress["cells_done"], progress["cells"]) == (16, 24)


@pytest.mark.parametrize("name", ["..", "../..", "%2e%2e", ".service", "first%2f..", "nothing"])
def test_no_other_folder_is_reached(client: TestClient, name: str) -> None:
    assert client.get(f"/api/v1/runs/{name}/config").status_code in (404, 400)
    assert client.get(f"/api/v1/runs/first/logs/{name}/server.log").status_code == 404


def test_a_link_among_the_results_is_no_run(client: TestClient, results: Path, tmp_path: Path) -> None:
    make_folder(tmp_path / "elsewhere")
    (results / "link").symlink_to(tmp_path / "elsewhere")
    (results / "first/lives/b01-a/engine/prepare.log").symlink_to("/etc/passwd")
    with served(results) as client:
        assert [run["id"] for run in client.get("/api/v1/runs").json()["runs"]] == ["first"]
        assert "b01-a/prepare.log" not in client.get("/api/v1/runs/first/logs").json()


def test_secrets_in_logs_and_configs_are_not_told(client: TestClient, results: Path) -> None:
    secret = "hf_" + "a" * 30
    with (results / "first/lives/b01-a/engine/server.log").open("a") as log:
        log.write(f"token {secret}\n")
    assert secret not in client.get("/api/v1/runs/first/logs/b01-a/server.log").text
    with (results / "first/config.yaml").open("a") as config:
        config.write(f"# {secret}\n")
    assert secret not in client.get("/api/v1/runs/first/config").text
    assert secret not in client.get("/runs/first").text


def test_html_in_names_stays_text(client: TestClient, results: Path) -> None:
    evil = '<img src=x onerror="alert(1)">'
    host = json.loads((results / "first/environment.json").read_text())
    host["gpus"][0]["name"] = evil
    (results / "first/environment.json").write_text(json.dumps(host))
    (results / "broken").mkdir()
    (results / "broken/config.yaml").write_text(f"name: '{evil}'\ncheckpoint: '{evil}'\ncontenders: []\n")
    with served(results) as client:
        for path in ("/", "/runs/first", "/runs/broken", "/diff", f"/?text={evil}", f"/nothing{evil}"):
            text = client.get(path).text
            assert "<img" not in text
        assert "&lt;img src=x onerror" in client.get("/").text


def test_two_runs_of_one_plan_are_compared(client: TestClient, results: Path) -> None:
    faster = {"a": (110.0, 114.0, 108.0, 112.0), "b": (150.0, 158.0, 146.0, 153.0)}
    make_folder(results / "second", faster)
    make_folder(results / "other", margin=0.2)
    with served(results) as client:
        found = client.get("/api/v1/diff", params={"before": "first", "after": "second"}).json()
        both = [c for c in found["comparisons"] if c["ratio"] and c["level"] is None]
        declared = {c["contender"]: c["ratio"]["value"] for c in both}
        assert declared["b after"] == pytest.approx(1.0)
        assert declared["a after"] == pytest.approx(1.0990, abs=1e-3)
        refused = client.get("/api/v1/diff", params={"before": "first", "after": "other"})
        assert refused.status_code == 409
        assert "margin 0.05 -> 0.2" in refused.json()["errors"][0]
        page = client.get("/diff", params={"before": "first", "after": "second"}).text
        assert "a: " in page and "1.099 times what it was" in page


def test_a_bundle_made_elsewhere_is_shown_once_it_holds_together(
    client: TestClient, results: Path, tmp_path: Path
) -> None:
    write_bundle(results / "first", tmp_path / "b.zip", "somebody")
    taken = client.post("/api/v1/bundles", content=(tmp_path / "b.zip").read_bytes())
    assert taken.status_code == 201
    assert (taken.json()["id"], taken.json()["bundle"], taken.json()["lives_done"]) == ("first.2", True, 8)
    assert client.post("/api/v1/runs/first.2/resume").status_code == 409
    mark = mark_of(client)
    files = {"bundle": ("b.zip", (tmp_path / "b.zip").read_bytes())}
    page = client.post("/bundles", data={"mark": mark}, files=files, follow_redirects=False)
    assert page.headers["location"] == "/runs/first.3"


def test_a_bundle_that_climbs_out_or_lies_is_refused_and_leaves_nothing(
    client: TestClient, results: Path, tmp_path: Path
) -> None:
    before = sorted(os.listdir(results))
    write_bundle(results / "first", tmp_path / "b.zip", None)
    with zipfile.ZipFile(tmp_path / "b.zip", "a") as archive:
        archive.writestr("../../evil.txt", "x")
    for content in ((tmp_path / "b.zip").read_bytes(), b"", b"PK\3\4nonsense"):
        answer = client.post("/api/v1/bundles", content=content)
        assert answer.status_code == 422
        assert str(tmp_path) not in answer.text
    assert "climbs out" in client.post("/api/v1/bundles", content=(tmp_path / "b.zip").read_bytes()).text
    assert sorted(os.listdir(results)) == before
    assert not [name for name in os.listdir(results / ".service") if name.startswith(("incoming", "upload"))]
    assert not (tmp_path / "evil.txt").exists()


@needs_light
def test_the_queue_is_ordered_and_taken_out_of(client: TestClient) -> None:
    ids = [client.post("/api/v1/runs", json={"config": light(name=name)}).json()["id"] for name in ("x", "y", "z")]
    assert client.get("/api/v1/queue").json()["queue"] == ids
    assert client.get("/api/v1/queue").json()["busy"]["what"] == "something else"
    assert client.put("/api/v1/queue", json={"runs": ids[::-1]}).json()["queue"] == ids[::-1]
    assert client.put("/api/v1/queue", json={"runs": ids[:1]}).status_code == 409
    assert client.post(f"/runs/{ids[0]}/earlier", data={"mark": mark_of(client)}).status_code == 200
    assert client.get("/api/v1/queue").json()["queue"] == [ids[2], ids[0], ids[1]]
    assert client.get(f"/api/v1/runs/{ids[1]}").json()["status"]["place"] == 3
    cancelled = client.post(f"/api/v1/runs/{ids[2]}/cancel").json()
    assert (cancelled["state"], cancelled["status"]["reason"]) == ("cancelled", "cancelled before it was started")
    assert client.post(f"/api/v1/runs/{ids[2]}/cancel").status_code == 409
    assert client.get("/api/v1/queue").json()["queue"] == [ids[0], ids[1]]
    assert client.post(f"/api/v1/runs/{ids[2]}/resume").status_code == 202


@needs_light
def test_the_queue_outlives_the_service(results: Path) -> None:
    with served(results) as client:
        run = client.post("/api/v1/runs", json={"config": light(), "most_hours": 2}).json()["id"]
    with served(results) as client:
        assert client.get("/api/v1/queue").json()["queue"] == [run]


@needs_light
def test_the_form_makes_a_config_that_is_taken(client: TestClient) -> None:
    mark = mark_of(client)
    fields = {
        "mark": mark, "name": "mine", "checkpoint": "demo", "engines": ["llamacpp_openai", "triton_llamacpp"],
        "concurrency": "1, 2", "input_low": "60", "input_high": "70", "output_low": "6", "output_high": "10",
        "max_model_len": "256", "max_num_seqs": "4", "dtype": "float32", "blocks": "2", "window_s": "0.5",
    }  # fmt: skip
    made = client.post("/new/yaml", data=fields)
    assert made.status_code == 200
    config = made.json()["config"]
    assert "concurrency: [1, 2]" in config
    assert client.post("/api/v1/plans", json={"config": config}).json() == {
        "name": "mine", "contenders": ["llamacpp-openai", "triton-llamacpp"], "lives": 4, "cells": 8,
        "minutes": pytest.approx((4 * 30 + 8 * 2.7) / 60), "thorough": True,
    }  # fmt: skip
    sent = client.post("/new", data={**fields, "config": config, "deed": "submit"}, follow_redirects=False)
    assert sent.headers["location"].endswith("-mine")
    wrong = client.post("/new/yaml", data={**fields, "concurrency": "1, many", "engines": []})
    assert wrong.json() == {
        "config": None,
        "errors": [
            "requests in flight: 'many' is not a whole number",
            "engines: none is chosen; choose two or more to compare",
        ],
    }


def test_what_cannot_run_here_is_told(client: TestClient) -> None:
    engines = client.get("/api/v1/engines").json()
    assert {"engine", "environment", "complaints", "made"} <= engines[0].keys()
    config = light(contenders=[{"name": "x", "engine": "nothing"}])
    told = client.post("/api/v1/runs", json={"config": config}).json()["errors"]
    assert told[0].startswith("config: contenders.x.engine: unknown engine 'nothing'; known are ")
    config = light(contenders=[{"name": "x", "engine": "llamacpp_openai", "gpus": [99]}])
    told = client.post("/api/v1/runs", json={"config": config}).json()["errors"]
    assert told == ["config: contenders.x.gpus: there is no GPU 99 here; take it out"]
