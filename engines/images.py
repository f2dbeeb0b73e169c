# SPDX-License-Identifier: Apache-2.0
"""Which container image holds which engine, and where in it.

docs/introduction/compatibility.md of triton-inference-server/server, e1db8a6; images after 26.07 are not in that
table yet. What an image really holds is read back from the running engine.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from engines.launch import Vendor

TRITON: Final = "nvcr.io/nvidia/tritonserver"
VLLM: Final = "vllm/vllm-openai"


class Month(NamedTuple):
    """What the two images of a Triton release hold, and the driver that the TensorRT-LLM one is listed with."""

    tensorrt_llm: str
    vllm: str
    driver: str | None = None


MONTHS: Final[Mapping[str, Month]] = {
    "26.07": Month("1.2.1", "0.24.0", "590.44.01"),
    "26.06": Month("1.2.1", "0.22.1", "590.44.01"),
    "26.05": Month("1.2.1", "0.19.0", "590.44.01"),
    "26.04": Month("1.2.1", "0.19.0", "590.44.01"),
    "26.03": Month("1.2.0", "0.17.1", "590.44.01"),
    "26.02": Month("1.1.0", "0.15.1"),
    "26.01": Month("1.1.0", "0.13.0"),
    "25.12": Month("1.1.0", "0.11.1"),
    "25.11": Month("1.0.3.2510", "0.11.0"),
    "25.10": Month("1.0.0", "0.10.2"),
    "25.09": Month("1.0.0", "0.10.1.1"),
    "25.08": Month("0.21.0", "0.9.2"),
    "25.07": Month("0.20.0", "0.9.0rc1"),
    "25.06": Month("0.20.0", "0.9.0rc1"),
    "25.05": Month("0.19.0", "0.8.4"),
    "25.04": Month("0.18.2", "0.8.1"),
    "25.03": Month("0.18.0", "0.7.3"),
    "25.02": Month("0.17.0.post1", "0.7.0"),
    "25.01": Month("0.17.0", "0.6.3.post1"),
    "24.12": Month("0.16.0", "0.5.5"),
    "24.11": Month("0.15.0", "0.5.5"),
    "24.10": Month("0.14.0", "0.5.5"),
    "24.09": Month("0.13.0", "0.5.3.post1"),
    "24.08": Month("0.12.0", "0.5.0.post1"),
    "24.07": Month("0.11.0", "0.5.0.post1"),
    "24.06": Month("0.10.0", "0.4.3"),
    "24.05": Month("0.9.0", "0.4.0.post1"),
    "24.04": Month("0.9.0", "0.4.0.post1"),
}


@dataclass(frozen=True)
class Image:
    """An image's package and version, its Triton and NVIDIA's files, None where it has none."""

    package: str
    version: str
    python: str
    triton: str | None = None
    vendor: Vendor | None = None
    driver: str | None = None


def known_image(name: str) -> Image | None:
    """What is known of an image by its name and tag; a digest behind the tag changes nothing."""
    repository, _, tag = name.partition("@")[0].rpartition(":")
    if repository == TRITON and (found := re.fullmatch(r"(\d\d\.\d\d)-(trtllm|vllm)-python-py3", tag)):
        return _triton_image(*found.groups())
    if repository == VLLM and (found := re.fullmatch(r"v([\w.]+)", tag)):
        return Image("vllm", found.group(1), "3.12")
    return None


def _triton_image(month: str, kind: str) -> Image | None:
    if month not in MONTHS:
        return None
    held, triton = MONTHS[month], "/opt/tritonserver"
    python = "3.12" if month >= "24.12" else "3.10"
    if kind == "vllm":
        return Image("vllm", held.vllm, python, triton)
    return Image("tensorrt_llm", held.tensorrt_llm, python, triton, NVIDIA_FILES, held.driver)


NVIDIA_FILES: Final = Vendor("/app", "/app/examples", "/usr/local/bin")
"""Copied into the image from the tag that its TensorRT-LLM was built from (dockerfile/Dockerfile.triton.trt_llm_backend
of triton-inference-server/tensorrtllm_backend 0b9d7d5)."""
