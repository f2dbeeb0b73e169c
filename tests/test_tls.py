# SPDX-License-Identifier: Apache-2.0
"""Over TLS: the same answers, with this process's stamps."""

import math
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from runners.load.drive import drive
from runners.load.fold import Folding, fold_all
from runners.load.link import AddressError
from runners.load.load import Load
from runners.load.proof import prove
from runners.load.transport import check_address, transport_of
from tests.scripted_server import chunked, scripted
from tests.test_wire import encode, prompts

LOAD = Load(1, 0.0, 0.0, 0.0, 30.0, 60.0, 2)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of localhost that signs itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *names]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture
def context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*certificate)
    return made


def secure(url: str) -> str:
    return url.replace("http://127.0.0.1", "https://localhost")


def test_answers_with_our_own_stamps(
    certificate: tuple[Path, Path], context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with scripted([[chunked(b"data: a\n\n")], [chunked(b"data: b\n\n")]], context) as (url, requests):
        driven = drive(LOAD, prompts(), encode, transport_of(secure(url), "http"))
    assert [bytes(e.body) for e in driven.exchanges] == [b"data: a\n\n", b"data: b\n\n"]
    assert driven.connects == 1
    assert len(requests) == 2
    for exchange in driven.exchanges:
        _, kernel_s, user_s = exchange.reads[:3]
        assert math.isnan(kernel_s)
        assert exchange.sent_s is not None
        assert exchange.sent_s <= user_s
    traces = fold_all(driven, Folding(lambda answer, data: None, needs_reason=False))
    assert prove(driven, traces, traces, 1).kernel_stamps_share == 0.0


def test_a_certificate_that_nobody_vouches_for(context: ssl.SSLContext) -> None:
    with scripted([], context) as (url, _):
        address = secure(url)
        with pytest.raises(AddressError, match=r"localhost:\d+: no connection: .*certificate verify failed"):
            check_address(address, transport_of(address, "http"))


def test_no_tls_on_the_other_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runners.load.link.CONNECT_S", 0.5)
    with scripted([]) as (url, _):
        address = secure(url)
        with pytest.raises(AddressError, match="no connection within "):
            check_address(address, transport_of(address, "http"))
