# SPDX-License-Identifier: Apache-2.0
"""Takes secrets out of text that is to be published: credentials, private addresses, names of people and of hosts.

Each different secret becomes a word of its own (`redacted-host-2`), the same wherever it occurs, so that what was
equal stays equal and what differed still differs. JSON and YAML stay what they are. What no rule can know, such as
an unpublished product's name in a prompt, stays: a bundle is to be looked through before it is published.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable
from typing import Final

PUBLIC_HOSTS: Final = frozenset(
    (
        *("huggingface.co", "hf.co", "github.com", "githubusercontent.com", "gitlab.com", "nvcr.io", "nvidia.com"),
        *("docker.com", "pytorch.org", "python.org"),
        *("vllm.ai", "readthedocs.io", "apache.org", "gnu.org", "w3.org", "json-schema.org", "example.com", "ggml.ai"),
        *("fastapi.tiangolo.com", "pydantic.dev", "ray.io", "opentelemetry.io", "kernel.org", "debian.org"),
    )
)
"""Addresses of these, and of what lies below them, say nothing of who ran a comparison."""
LOOPBACK: Final = re.compile(r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[?::1\]?|\[?::\]?")
PRIVATE_TOP: Final = r"(?:internal|intranet|intra|corp|lan|local|localdomain|home|private|cluster|svc)"
KNOWN_TOKENS: Final = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|nvapi-[\w-]{16,}|xox[abpr]-[\w-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|pypi-[\w-]{32,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
PRIVATE_KEY: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
TELLTALE: Final = r"(?:token|secret|passw(?:or)?d|passphrase|api_?-?key|access_?-?key|private_?-?key|credentials?|auth)"
VALUE: Final = r"""(?P<value>[^\s"'\\,;&}\]{\[<>()]{4,})"""
NAMED_SECRET: Final = re.compile(
    rf"""(?P<key>(?<![A-Za-z0-9])[\w.-]*{TELLTALE}\\?["']?\s*[:=]\s*\\?["']?){VALUE}""", re.IGNORECASE
)
"""A value behind a key that names a secret, in YAML, JSON, an environment or a query."""
SECRET_OPTION: Final = re.compile(rf"""(?P<key>--[\w-]*{TELLTALE}\\?["']?[\s,=]+\\?["']?){VALUE}""", re.IGNORECASE)
"""The same behind an option, in a command line or in an argv."""
BEARER: Final = re.compile(r"(?P<key>\b(?:Bearer|Basic)\s+)(?P<value>[A-Za-z0-9+/._~=-]{8,})")
URL: Final = re.compile(
    r"""(?P<scheme>\b[a-z][a-z0-9+.-]{1,15}://)(?P<user>[^\s/@"'\\<>]+@)?(?P<host>\[[0-9a-f:]+\]|[A-Za-z0-9_.-]+)"""
    r"""(?P<port>:\d+)?(?P<rest>[/?#][^\s"'\\<>|,;)\]}]*)?"""
)
IMAGE: Final = re.compile(
    r"(?<![\w./@:-])(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::\d+)?/[a-z0-9._/-]+(?::\w[\w.-]*|@sha256:[0-9a-f]{64})"
)
PRIVATE_NAME: Final = re.compile(rf"(?<![\w.-])(?:[A-Za-z0-9-]+\.)+{PRIVATE_TOP}(?:\.[a-z]+)*(?![\w-])(?!\.\w)(?!\()")
PRIVATE_ADDRESS: Final = re.compile(
    r"(?<![\w.])(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01])|169\.254|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))"
    r"\.\d{1,3}\.\d{1,3}(?![\w.])"
)
MAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(?![\w.-])")
HOME: Final = re.compile(r"(?<![\w.-])/(?:(?:home|Users|export/home)/(?P<name>[A-Za-z0-9._-]+)|root(?![\w.-]))")
NOT_A_SECRET: Final = re.compile(r"(?:none|null|true|false|[\d.]+|redacted-.*|\$\{.*|\d.*)", re.IGNORECASE)
COMMON_NAMES: Final = frozenset(
    ("root", "user", "users", "ubuntu", "admin", "runner", "home", "test", "vllm", "triton")
)


class Redactor:
    """Redacts text after text; the words that it puts in are the same in all of them.

    `names` are people's and hosts' names that are known beforehand; those of home folders are learnt on the way by
    `learn`. A name that is one of the `kept` words stays: somebody who is called `block` is not found by it.
    """

    def __init__(self, names: Iterable[str] = (), homes: Iterable[str] = (), kept: Container[str] = ()) -> None:
        self._words: dict[tuple[str, str], str] = {}
        self._kept = kept
        self._names = {name for name in names if self._telling(name)}
        self._homes = sorted((home for home in homes if home.count("/") > 1), key=len, reverse=True)

    @property
    def counts(self) -> dict[str, int]:
        """How many different secrets there were, by kind."""
        return dict(sorted(Counter(kind for kind, _ in self._words).items()))

    def learn(self, text: str) -> None:
        """Note whose home folders a text names."""
        self._names |= {m["name"] for m in HOME.finditer(text) if m["name"] and self._telling(m["name"])}

    def __call__(self, text: str) -> str:
        """The text without its secrets. A text that was redacted before is not changed."""
        text = PRIVATE_KEY.sub(lambda m: self._word("key", m[0]), text)
        text = KNOWN_TOKENS.sub(lambda m: self._word("token", m[0]), text)
        text = URL.sub(self._url, text)
        text = BEARER.sub(self._named, text)
        text = NAMED_SECRET.sub(self._named, text)
        text = SECRET_OPTION.sub(self._named, text)
        text = IMAGE.sub(self._image, text)
        text = MAIL.sub(lambda m: self._word("mail", m[0]), text)
        for home in self._homes:
            text = re.sub(rf"{re.escape(home)}(?![\w.-])", lambda m: "/" + self._word("home", m[0]), text)
        text = HOME.sub(lambda m: "/" + self._word("home", m[0]), text)
        text = PRIVATE_NAME.sub(lambda m: self._word("host", m[0].lower()), text)
        text = PRIVATE_ADDRESS.sub(lambda m: self._word("host", m[0]), text)
        for name in sorted(self._names, key=len, reverse=True):
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", self._name, text)
        return text

    def _telling(self, name: str) -> bool:
        """Not a word that occurs anyway."""
        common = name.lower() in COMMON_NAMES or name in self._kept
        return len(name) > 2 and not common and not name.isdigit()

    def _word(self, kind: str, secret: str) -> str:
        number = 1 + sum(known == kind for known, _ in self._words)
        return self._words.setdefault((kind, secret), f"redacted-{kind}-{number}")

    def _name(self, match: re.Match[str]) -> str:
        return self._word("name", match[0])

    def _named(self, match: re.Match[str]) -> str:
        if NOT_A_SECRET.fullmatch(match["value"]):
            return match[0]
        return match["key"] + self._word("secret", match["value"])

    def _url(self, match: re.Match[str]) -> str:
        """Private hosts lose their name and what is behind it; any loses a user and a query that names a secret."""
        host = match["host"]
        if _public(host):
            kept = match["rest"] or ""
            return match["scheme"] + host + (match["port"] or "") + kept
        if host.startswith("redacted-"):
            return match[0]
        return match["scheme"] + self._word("host", host.lower()) + (match["port"] or "")

    def _image(self, match: re.Match[str]) -> str:
        if _public(match["host"]) or match["host"].startswith("redacted-"):
            return match[0]
        return match[0].replace(match["host"], self._word("host", match["host"].lower()), 1)


def _public(host: str) -> bool:
    plain = host.lower().rstrip(".")
    return bool(LOOPBACK.fullmatch(plain)) or any(
        plain == known or plain.endswith(f".{known}") for known in PUBLIC_HOSTS
    )
