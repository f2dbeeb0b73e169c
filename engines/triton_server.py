# SPDX-License-Identifier: Apache-2.0
"""How a Triton server is started: the installed one, or the one inside the nvidia-pytriton wheel.

The wheel's backend folder lacks the stub, the program that embeds Python, so a backend folder is assembled
from links. Run on nvidia-pytriton 0.7.0, which holds Triton 2.51.0. NVIDIA's launcher starts the server
through mpirun, on every interface, and returns at once: hence the script that it starts in the server's place
and the keeper that waits. Flags: triton_backend/scripts/launch_triton_server.py of NVIDIA/TensorRT-LLM 0a2e2c1.
"""

from collections.abc import Mapping
from typing import Final

from engines.inside_files import inside_path
from engines.launch import Command, Launch, Place, Vendor

SCRIPT: Final = "tritonserver"
EXIT_TIMEOUT_S: Final = 10


def server_argv(place: Place) -> tuple[str, ...]:
    """The server with what every launch gives it: loopback addresses, and its backends if assembled here."""
    wheel = () if place.triton else (f"--backend-directory={place.folder}/backends", "--allow-gpu-metrics=false")
    return (f"{_installation(place)}/bin/tritonserver", *wheel, *_loopback(), f"--exit-timeout-secs={EXIT_TIMEOUT_S}")


def _loopback() -> tuple[str, ...]:
    return tuple(f"--{front}-address=127.0.0.1" for front in ("http", "grpc", "metrics"))


def _installation(place: Place) -> str:
    return place.triton or f"{place.site_packages}/pytriton/tritonserver"


def ports_argv(place: Place) -> tuple[str, ...]:
    return (
        f"--http-port={place.http_port}",
        f"--grpc-port={place.grpc_port}",
        f"--metrics-port={place.metrics_port}",
    )


def backend_links(place: Place, *others: str) -> dict[str, str]:
    """Links that make up the backend folder of the wheel's server; `others` are backends beside the Python one."""
    if place.triton:
        return {}
    triton, backend = _installation(place), "backends/python"
    stub = f"{triton}/python_backend_stubs/{place.python_version}/triton_python_backend_stub"
    links = {
        f"{backend}/libtriton_python.so": f"{triton}/backends/python/libtriton_python.so",
        f"{backend}/triton_python_backend_utils.py": f"{triton}/backends/python/triton_python_backend_utils.py",
        f"{backend}/triton_python_backend_stub": stub,
    }
    folder = place.vendor.backends if place.vendor else None
    return links | {f"backends/{name}": f"{folder}/{name}" for name in others if folder}


def backend_copies(place: Place) -> tuple[Command, ...]:
    """A backend in Python is run by the Python backend's library, which must then lie in its folder as a file."""
    if place.triton:
        return ()
    library = f"{_installation(place)}/backends/python/libtriton_python.so"
    target = f"{place.folder}/backends/python/libtriton_python.so"
    return (Command(("cp", "--remove-destination", library, target)),)


def environment(place: Place) -> dict[str, str]:
    """The stub takes its Python from the first python3 on PATH and needs that Python's shared library."""
    if place.triton:
        return place.gpu_env
    bin_folder = place.python.rsplit("/", 1)[0]
    return place.gpu_env | {"PATH": f"{bin_folder}:/usr/bin:/bin", "LD_LIBRARY_PATH": place.lib_dir}


def launch(
    place: Place,
    files: Mapping[str, str],
    links: Mapping[str, str],
    serve: Command,
    prepare: tuple[Command, ...] = (),
) -> Launch:
    """A launch of a Triton whose three ports are the place's."""
    return Launch(
        files=files,
        links=links,
        prepare=prepare,
        serve=serve,
        url=place.url,
        metrics_url=f"http://127.0.0.1:{place.metrics_port}",
        ready_path="/v2/health/ready",
        ports=(place.http_port, place.grpc_port, place.metrics_port),
        gpus=place.gpus,
        grpc_url=f"grpc://127.0.0.1:{place.grpc_port}",
    )


def by_script(place: Place, vendor: Vendor, *options: str) -> tuple[dict[str, str], Command]:
    """NVIDIA's launcher, kept: the script that stands for the server, and the command to serve.

    It runs in the life's folder, never in a clone, whose tensorrt_llm/ would be imported first.
    """
    argv = " ".join((*server_argv(place)[:1], '"$@"', *server_argv(place)[1:]))
    command = (
        *(place.python, inside_path("keep.py"), place.python, f"{vendor.app}/scripts/launch_triton_server.py"),
        *("--tritonserver", f"{place.folder}/{SCRIPT}", "--model_repo", f"{place.folder}/models"),
        *("--http_port", str(place.http_port), "--grpc_port", str(place.grpc_port)),
        *("--metrics_port", str(place.metrics_port), "--force"),
        *options,
    )
    return {SCRIPT: f"#!/bin/sh\nexec {argv}\n"}, Command(command, environment(place))
