# SPDX-License-Identifier: Apache-2.0
"""Who may do what over the web, and what nobody may."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from runners.config import ConfigError
from runners.service.guard import MOST_BODY
from runners.service.keys import FAILURES_S, MOST_FAILURES, SESSION_S, Keys
from runners.service.policy import web_config
from runners.service.problems import Problem
from runners.service.settings import Settings, SettingsError, checked
from tests.results_folder import make_folder
from tests.service import LIGHT, light, mark_of, served

TOKEN = "correct horse battery staple"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with served(tmp_path / "results") as found:
        yield found


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[TestClient]:
    with served(tmp_path / "results", token=TOKEN) as found:
        yield found


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "node7"])
def test_elsewhere_than_on_loopback_a_token_is_demanded(tmp_path: Path, host: str) -> None:
    with pytest.raises(SettingsError, match=f"--host {host} can be reached from elsewhere"):
        checked(Settings(tmp_path, host=host))
    with pytest.raises(SettingsError, match="fewer than 16 characters"):
        checked(Settings(tmp_path, host=host, token="short"))
    assert checked(Settings(tmp_path, host=host, token=TOKEN)).token == TOKEN


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8600", "127.0.0.1.evil.example", ""])
def test_a_name_that_was_rebound_to_loopback_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/api/v1/runs", headers={"host": host})
    assert answer.status_code == 421
    assert answer.headers["content-type"] == "application/problem+json"


def test_names_of_this_host_are_taken(client: TestClient, tmp_path: Path) -> None:
    for host in ("localhost:8600", "127.0.0.1", "[::1]:8600", "LOCALHOST"):
        assert client.get("/api/v1/runs", headers={"host": host}).status_code == 200
    with served(tmp_path / "other", names=("node7.example",)) as named:
        assert named.get("/", headers={"host": "node7.example:8600"}).status_code == 200


@pytest.mark.parametrize(
    "headers", [{"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_pages_of_other_sites_send_nothing_here(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/api/v1/plans", json={"config": light()}, headers=headers)
    assert answer.status_code == 403
    assert client.get("/api/v1/runs", headers=headers).status_code == 200


def test_a_form_needs_the_mark_of_a_page_that_this_browser_got(client: TestClient, tmp_path: Path) -> None:
    mark = mark_of(client)
    assert client.post("/new", data={"deed": "yaml"}).status_code == 403
    assert client.post("/new", data={"deed": "yaml", "mark": "0" * 64}).status_code == 403
    with served(tmp_path / "elsewhere") as other:
        assert other.post("/new", data={"deed": "yaml", "mark": mark}).status_code == 403
    assert client.post("/new", data={"deed": "yaml", "mark": mark}).status_code == 422


@pytest.mark.parametrize("path", ["/", "/new", "/login", "/api/v1/runs", "/nothing", "/static/service.js", "/api/v1/x"])
def test_every_answer_has_the_headers_that_browsers_obey(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "style-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


def test_no_page_has_script_or_style_within(client: TestClient, tmp_path: Path) -> None:
    make_folder(tmp_path / "results" / "old")
    for path in ("/", "/new", "/engines", "/diff", "/runs/old"):
        text = client.get(path).text
        assert "<style" not in text and " style=" not in text and " onclick" not in text
        assert text.count("<script") == text.count("<script src=") == 1


def test_without_the_token_nothing_is_shown(locked: TestClient) -> None:
    answer = locked.get("/api/v1/runs")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert locked.get("/api/v1/openapi.json").status_code == 401
    page = locked.get("/runs/x", follow_redirects=False)
    assert (page.status_code, page.headers["location"]) == (303, "/login?next=/runs/x")
    assert locked.get("/api/v1/runs", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert locked.get("/api/v1/runs", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_token_once_then_a_cookie(locked: TestClient) -> None:
    mark = mark_of(locked, "/login")
    wrong = locked.post("/login", data={"token": "wrong", "mark": mark})
    assert wrong.status_code == 401 and "this is not the token" in wrong.text
    right = locked.post("/login", data={"token": TOKEN, "mark": mark, "next": "/new"}, follow_redirects=False)
    assert (right.status_code, right.headers["location"]) == (303, "/new")
    assert "HttpOnly" in right.headers["set-cookie"] and "SameSite=strict" in right.headers["set-cookie"]
    assert locked.get("/").status_code == 200
    locked.post("/logout", data={"mark": mark_of(locked)})
    assert locked.get("/", follow_redirects=False).status_code == 303


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/\r\nx"])
def test_login_leads_nowhere_else(locked: TestClient, wanted: str) -> None:
    data = {"token": TOKEN, "mark": mark_of(locked, "/login"), "next": wanted}
    assert locked.post("/login", data=data, follow_redirects=False).headers["location"] == "/"


def test_wrong_tokens_are_counted_by_address() -> None:
    now = [1000.0]
    keys = Keys(TOKEN, b"s", lambda: now[0])
    for _ in range(MOST_FAILURES):
        with pytest.raises(Problem) as refused:
            keys.check_token("wrong", "a")
        assert refused.value.status_code == 401
    with pytest.raises(Problem, match="try again in 61 s") as limited:
        keys.check_token(TOKEN, "a")
    assert limited.value.status_code == 429
    assert limited.value.headers == {"Retry-After": "61"}
    keys.check_token(TOKEN, "b")
    now[0] += FAILURES_S
    keys.check_token(TOKEN, "a")


def test_a_cookie_ends_and_is_bound_to_token_and_secret() -> None:
    now = [1000.0]
    cookie = f"bakeoff_session={Keys(TOKEN, b's', lambda: now[0]).new_cookie()}"
    assert Keys(TOKEN, b"s", lambda: now[0]).cookie_holds(cookie)
    assert not Keys("another token of ours", b"s", lambda: now[0]).cookie_holds(cookie)
    assert not Keys(TOKEN, b"other", lambda: now[0]).cookie_holds(cookie)
    assert not Keys(TOKEN, b"s", lambda: now[0]).cookie_holds(cookie.replace("=", "=1"))
    assert not Keys(TOKEN, b"s", lambda: now[0]).cookie_holds('bakeoff_session=; x="')
    now[0] += SESSION_S
    assert not Keys(TOKEN, b"s", lambda: now[0]).cookie_holds(cookie)


def test_what_is_too_long_is_refused_before_it_is_read(client: TestClient) -> None:
    answer = client.post("/api/v1/bundles", content=b"x", headers={"content-length": str(10**9)})
    assert answer.status_code == 413
    assert client.post("/api/v1/plans", content=b"x" * (MOST_BODY + 1)).status_code == 413
    pieces = (b"x" * 65536 for _ in range(17))
    assert client.post("/api/v1/plans", content=pieces).status_code == 413


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"checkpoint": "/etc"}, "checkpoint: '/etc' lies outside the folders of models"),
    ({"checkpoint": "../../etc"}, "lies outside the folders of models"),
    ({"checkpoint": "org/name@" + "0" * 40}, "fetched from the hub is refused over the web"),
    ({"knobs": {**LIGHT["knobs"], "extra": {"trust_remote_code": True}}}, r"\(trust_remote_code\) is refused"),
    ({"gate": {"task": "/etc/passwd"}}, "gate.task: '/etc/passwd' lies outside"),
    ({"blocks": 10**9}, "blocks: 4000000000 cells are planned"),
]
REFUSED_OF_CONTENDER: list[tuple[dict[str, Any], str]] = [
    ({"environment": "/tmp/mine"}, "contenders.direct.environment: a folder or file of one's own is refused"),
    ({"environment": "mine.txt"}, "contenders.direct.environment"),
    ({"runner": "compose"}, "contenders.direct.runner: containers of a compose file is refused"),
    ({"compose_file": "/tmp/evil.yml"}, "contenders.direct.runner: containers"),
    ({"runner": "attach", "address": "http://10.0.0.1:80"}, "contenders.direct.address: a server elsewhere is refused"),
    ({"runner": "mine"}, "contenders.direct.runner: a runner of another package"),
    ({"checkpoint": "/etc"}, "contenders.direct.checkpoint: '/etc' lies outside"),
    ({"knobs": {"speculation": {"kind": "eagle3", "tokens": 2, "model": "/etc"}}}, "speculation.model: '/etc' lies"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED)
def test_what_names_commands_folders_or_hosts_is_refused(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        web_config(light(**changes), "config", Settings(tmp_path))


@pytest.mark.parametrize(("changes", "told"), REFUSED_OF_CONTENDER)
def test_contenders_that_do_are_refused(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    contenders = [{**LIGHT["contenders"][0], **changes}, LIGHT["contenders"][1]]
    with pytest.raises(ConfigError, match=told):
        web_config(light(contenders=contenders), "config", Settings(tmp_path))


def test_files_of_prompts_lie_among_the_models_links_followed(tmp_path: Path) -> None:
    models, secret = tmp_path / "models", tmp_path / "secret.jsonl"
    models.mkdir()
    secret.touch()
    (models / "mine.jsonl").touch()
    (models / "sly.jsonl").symlink_to(secret)
    settings = Settings(tmp_path, models=(models,))

    def with_file(path: Path | str) -> str:
        return light(workloads=[{"name": "w", "file": str(path), "concurrency": [1]}])

    web_config(with_file(models / "mine.jsonl"), "config", settings)
    for path in (secret, models / "sly.jsonl", models / ".." / "secret.jsonl", "mine.jsonl"):
        with pytest.raises(ConfigError, match="lies outside the folders of models"):
            web_config(with_file(path), "config", settings)


def test_the_operator_may_allow_it(tmp_path: Path) -> None:
    knobs = {**LIGHT["knobs"], "extra": {"x": 1}}
    web_config(light(knobs=knobs), "config", Settings(tmp_path, allow=frozenset({"extra"})))
    with pytest.raises(SettingsError, match="--allow everything: unknown; say extra, environment, compose"):
        checked(Settings(tmp_path, allow=frozenset({"everything"})))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x]\nb: *a",
        "a: [1",
        "[" * 3000,
        "a: " + "1" * 5000,
        "\0",
        "- 1",
        "a: !!python/object/apply:os.system ['touch /tmp/x']",
        "x" * 70_000,
    ],
)
def test_texts_that_are_no_config_are_refused_and_harm_nothing(client: TestClient, text: str) -> None:
    answer = client.post("/api/v1/runs", json={"config": text})
    assert answer.status_code == 422
    assert answer.json()["errors"]
    assert client.get("/api/v1/queue").json()["queue"] == []
