# SPDX-License-Identifier: Apache-2.0
"""Bundles: free of planted secrets, read like folders, and refused where they are traps."""

import io
import json
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pandas as pd
import pytest
import yaml

from runners.bundle import write_bundle
from runners.diff_command import run_diff
from runners.errors import MendableError
from runners.report.blocks import NoResultsError, read_run
from runners.report.bundle_record import MANIFEST, SUMS, BundleError
from runners.report.opened import read_results
from runners.report.redact import Redactor
from runners.report.schemas import kind_of, schema_texts
from runners.report.table import tabulate
from runners.report.trace_table import write_traces
from runners.report.unpack import unpack
from runners.report.written import RecordError
from tests.results_folder import make_folder
from tests.test_records import TRACES

SECRETS = (
    *("hf_AbCdEfGhIjKlMnOpQrStUv", "sk-proj-0123456789abcdefXYZ", "ghp_0123456789abcdefghij0123456789abcdef"),
    *("correct-horse-battery", "AKIAABCDEFGHIJKLMNOP", "vllm-lab.corp.internal", "10.17.3.44", "mzimmer"),
    *("models.secretcompany.com", "m.zimmer@secretcompany.com", "gpu07", "registry.secretcompany.com", "hunter2"),
)
PLANTED = (
    "HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUv OPENAI_API_KEY: sk-proj-0123456789abcdefXYZ "
    "see https://mzimmer:correct-horse-battery@models.secretcompany.com/llama?x=1 and http://10.17.3.44:8080/v1, "
    "ghp_0123456789abcdefghij0123456789abcdef AWS AKIAABCDEFGHIJKLMNOP on vllm-lab.corp.internal host gpu07 "
    "by mzimmer in /home/mzimmer/models and /Users/mzimmer, m.zimmer@secretcompany.com, "
    "image registry.secretcompany.com/llm/vllm:1.2 --password correct-horse-battery, db_password: hunter2"
)
HARMLESS = (
    *(
        '"prompt_tokens": 260, "ttft_token": null, "tokens": 18',
        "--tokenizer /models/demo --max-num-batched-tokens 8192",
    ),
    *("https://huggingface.co/meta-llama/Llama", "http://127.0.0.1:18100/v1", "nvcr.io/nvidia/tritonserver:26.07-py3"),
    *("prompt token processing took 3 ms", "per-token latency distribution", "max_token=18 --max-new-tokens 12345"),
    *("<|endoftext|> pad_token: null eos_token_id=2", "1.2.3.4.5 0.085 / 10.171", "tick_tokens vllm 0.20.2"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "2026-01-01-t")


def plant(folder: Path) -> None:
    """Secrets in every kind of file that a results folder has."""
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        if path.suffix == ".parquet":
            path.unlink()
            write_traces(path, [replace(TRACES[0], error=PLANTED, finish_reason="mzimmer"), *TRACES[1:]])
        elif path.name in ("server.log", "table.md"):
            path.write_text(path.read_text() + PLANTED)
        elif path.name == "config.yaml":
            config = yaml.safe_load(path.read_text())
            config["checkpoint"] = "/home/mzimmer/models/llama"
            config["contenders"][0] |= {
                "runner": "attach",
                "address": "http://vllm-lab.corp.internal:8000",
                "model": "m",
            }
            config["declared"] = {"weight dtype": PLANTED}
            path.write_text(yaml.safe_dump(config))
        else:
            path.write_text(json.dumps(planted(json.loads(path.read_text()), path.name)))


def planted(value: dict[str, object], name: str) -> dict[str, object]:
    """In a string that a record of that kind has."""
    if name == "launch.json":
        serve = {"argv": ["serve", "--api-key", "correct-horse-battery"], "env": {"NOTE": PLANTED}, "creates": None}
        return value | {"serve": serve, "files": {"a.yaml": PLANTED}}
    if name == "life.json":
        return value | {"canary": {"error": PLANTED}, "capabilities": {"notes": [PLANTED]}}
    if name.startswith("w-c"):
        flag = {"code": "failed requests", "detail": PLANTED, "no_verdict": False}
        return value | {"summary": {**dict(value["summary"]), "flags": [flag]}}  # type: ignore[call-overload]
    return value | {"environment.json": {"cpu": PLANTED}, "lame.json": {"reason": PLANTED}}.get(name, {})


def test_planted_secrets_are_in_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(folder)
    monkeypatch.setattr("socket.gethostname", lambda: "gpu07")
    record = write_bundle(folder, folder.parent / "b.zip", None)
    with zipfile.ZipFile(folder.parent / "b.zip") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert len(contents) == 2 + sum(path.is_file() for path in folder.rglob("*"))
    for name, content in contents.items():
        text = pd.read_parquet(io.BytesIO(content)).to_csv() if name.endswith(".parquet") else content.decode()
        assert [secret for secret in SECRETS if secret in text] == [], name
    assert record.redacted.keys() >= {"home", "host", "mail", "secret", "token"}


def test_redacted_records_still_are_records(folder: Path) -> None:
    plant(folder)
    write_bundle(folder, folder.parent / "b.zip", "The lab")
    results = read_results(folder.parent / "b.zip")
    assert results.by == "The lab"
    assert [cell.summary for cell in results.run.cells if cell.block == 1]
    address = results.run.config["contenders"][0]["address"]
    assert address.startswith("http://redacted-host-")
    assert address.endswith(":8000")


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor(["gpu07"])(text) == text


def test_a_user_whose_name_is_a_word_of_records_spoils_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "block")
    write_bundle(folder, folder.parent / "b.zip", None)
    assert tabulate(read_run(folder.parent / "b.zip")) == tabulate(read_run(folder))


def test_equal_secrets_stay_equal_and_others_differ() -> None:
    redactor = Redactor()
    first, again, other = (redactor(f"at {host}:80") for host in ("a.corp", "a.corp", "b.corp"))
    assert first == again == "at redacted-host-1:80"
    assert other == "at redacted-host-2:80"
    assert redactor(redactor(PLANTED)) == redactor(PLANTED)


def test_a_bundle_is_read_as_its_folder(folder: Path) -> None:
    write_bundle(folder, folder.parent / "b.zip", None)
    assert tabulate(read_run(folder.parent / "b.zip")) == tabulate(read_run(folder))
    assert not run_diff(folder, folder.parent / "b.zip", "md", across_environments=False)
    command = [sys.executable, "-m", "runners", "table", str(folder.parent / "b.zip"), "--publish", "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "\nb,llamacpp_openai," in done.stdout


def test_checksums_are_those_of_sha256sum(folder: Path, tmp_path: Path) -> None:
    write_bundle(folder, tmp_path / "b.zip", None)
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(tmp_path / "out")
    done = subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=tmp_path / "out", check=False)
    assert done.returncode == 0


def test_links_and_programs_are_left_out_and_named(folder: Path) -> None:
    (folder / "lives" / "b01-a" / "engine" / "link.txt").symlink_to("/etc/hostname")
    (folder / "lives" / "b01-a" / "engine" / "lib.so").write_bytes(b"\x7fELF\0\xff")
    record = write_bundle(folder, folder.parent / "b.zip", None)
    assert set(record.left_out) == {"lives/b01-a/engine/link.txt", "lives/b01-a/engine/lib.so"}
    with pytest.raises(BundleError, match="never overwritten"):
        write_bundle(folder, folder.parent / "b.zip", None)


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def add(name: str, content: bytes = b"x", mode: int = stat.S_IFREG | 0o644) -> Callable[[zipfile.ZipFile], None]:
    return lambda archive: archive.writestr(entry(name, mode), content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add("../outside"), r"'../outside' climbs out of the bundle's folder"),
        (add("/etc/passwd"), "'/etc/passwd' climbs out"),
        (add("lives/../../x"), "climbs out"),
        (add("..\\x"), "climbs out"),
        (add("C:/x"), "climbs out"),
        (add("lives/x", b"/etc/passwd", stat.S_IFLNK | 0o777), "a folder, a link or a device"),
        (add("CONFIG.yaml"), "is there twice"),
        (add("stranger.txt"), "stranger.txt is in the archive or in SHA256SUMS, but not in both"),
        (add("bomb", bytes(2**27)), "packed like a trap"),
    ],
)
def test_traps_are_refused_and_nothing_is_unpacked(
    folder: Path, tmp_path: Path, change: Callable[[zipfile.ZipFile], None], message: str
) -> None:
    write_bundle(folder, tmp_path / "b.zip", None)
    with zipfile.ZipFile(tmp_path / "b.zip", "a") as archive:
        change(archive)
    (tmp_path / "out").mkdir()
    with pytest.raises(BundleError, match=message):
        unpack(tmp_path / "b.zip", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert not (tmp_path / "outside").exists()


def rewritten(source: Path, target: Path, **changed: bytes | None) -> Path:
    """The bundle with some entries changed, or taken out; names have _ for the dot."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = changed.get(name.replace(".", "_"), old.read(name))
            if content is not None:
                new.writestr(name, content)
    return target


def test_edited_cut_and_newer_bundles_are_refused(folder: Path, tmp_path: Path) -> None:
    write_bundle(folder, tmp_path / "b.zip", None)
    edited = rewritten(tmp_path / "b.zip", tmp_path / "edited.zip", config_yaml=b"name: other\n")
    with pytest.raises(BundleError, match=r"config.yaml is not what its checksum says"):
        read_run(edited)
    (tmp_path / "cut.zip").write_bytes((tmp_path / "b.zip").read_bytes()[:-100])
    with pytest.raises(BundleError, match="no whole ZIP archive"):
        read_run(tmp_path / "cut.zip")
    with pytest.raises(BundleError, match="SHA256SUMS is missing"):
        read_run(rewritten(tmp_path / "b.zip", tmp_path / "bare.zip", SHA256SUMS=None))
    manifest = json.dumps({"schema_version": 99, "format": "bakeoff tar"}).encode()
    with pytest.raises(RecordError, match="schema_version: 99 is newer than 1"):
        read_run(rewritten(tmp_path / "b.zip", tmp_path / "new.zip", bundle_json=manifest))


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("lives/b01-a/w-c1.json", '"block": 1', '"block": "x"', "w-c1.json: block: input should be a valid integer"),
        ("lives/b01-a/life.json", '"block"', '"mine": 1, "block"', "life.json: mine: extra inputs"),
        ("lives/b01-a/w-c1.json", '"schema_version": 1', '"schema_version": 2', "is newer than 1"),
        ("config.yaml", "blocks", "blcoks", "config.yaml: blcoks: unknown key"),
        ("environment.json", "{", "[", "environment.json: no whole JSON"),
    ],
)
def test_spoilt_records_are_refused(folder: Path, name: str, old: str, new: str, message: str) -> None:
    (folder / name).write_text((folder / name).read_text().replace(old, new, 1))
    with pytest.raises(MendableError, match=message):
        read_results(folder)


def test_a_truncated_record_is_one_message(folder: Path) -> None:
    path = folder / "lives" / "b01-a" / "w-c1.json"
    path.write_text(path.read_text()[:500])
    command = [sys.executable, "-m", "runners", "table", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"bakeoff: {path}: no whole JSON")
    assert "Traceback" not in done.stderr


def test_a_missing_cell_is_named(folder: Path) -> None:
    (folder / "lives/b01-a/w-c2.json").unlink()
    with pytest.raises(NoResultsError, match=r"b01-a/w-c2.json is missing"):
        read_run(folder)


def test_schemas_are_those_that_are_shipped_and_records_obey_them(folder: Path) -> None:
    shipped = Path(__file__).parent.parent / "results" / "schemas"
    assert {path.name: path.read_text() for path in shipped.iterdir()} == schema_texts()
    write_bundle(folder, folder.parent / "b.zip", None)
    unpack(folder.parent / "b.zip", folder.parent / "out")
    kinds = set()
    for path in (folder.parent / "out").rglob("*"):
        kind = kind_of(path.relative_to(folder.parent / "out").as_posix())
        if kind and path.is_file():
            kinds.add(kind)
            value = yaml.safe_load(path.read_text())
            jsonschema.validate(value, json.loads(schema_texts()[f"{kind}.schema.json"]))
    assert len(kinds) == len(schema_texts())
    assert MANIFEST in {path.name for path in (folder.parent / "out").iterdir()}
