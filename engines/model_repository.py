# SPDX-License-Identifier: Apache-2.0
"""A Triton model repository with one Python model, and the command that serves it.

The server is the binary inside the nvidia-pytriton wheel. Its backend folder lacks the stub, the
program that embeds Python, so a backend folder is assembled from links. Run on nvidia-pytriton
0.7.0, which holds Triton 2.51.0.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from engines.contract import Command, Launch, Place
from engines.inside_files import inside_text

INPUTS: Final = (
    ("text_input", "TYPE_STRING", False),
    ("stream", "TYPE_BOOL", True),
    ("sampling_parameters", "TYPE_STRING", True),
    ("exclude_input_in_output", "TYPE_BOOL", True),
    ("return_finish_reason", "TYPE_BOOL", True),
    ("return_num_input_tokens", "TYPE_BOOL", True),
    ("return_num_output_tokens", "TYPE_BOOL", True),
    ("return_num_cached_tokens", "TYPE_BOOL", True),
    ("return_engine_metrics", "TYPE_BOOL", True),
)
OUTPUTS: Final = (
    ("text_output", "TYPE_STRING", -1),
    ("finish_reason", "TYPE_STRING", -1),
    ("num_input_tokens", "TYPE_UINT32", 1),
    ("num_output_tokens", "TYPE_UINT32", -1),
    ("num_cached_tokens", "TYPE_UINT32", 1),
    ("engine_metrics", "TYPE_STRING", 1),
)


def launch(place: Place, model: str, engine_args: Mapping[str, Any], env: Mapping[str, str]) -> Launch:
    """Triton with `model` (a file of engines/inside) under the served name.

    The stub takes its Python from the first python3 on PATH and needs that Python's shared library.
    """
    repository = f"models/{place.served_name}"
    triton = f"{place.site_packages}/pytriton/tritonserver"
    backend = "backends/python"
    return Launch(
        files={
            f"{repository}/config.pbtxt": config_pbtxt(place.served_name, engine_args),
            f"{repository}/1/model.py": inside_text(model),
            f"{repository}/1/triton_answers.py": inside_text("triton_answers.py"),
        },
        links={
            f"{backend}/libtriton_python.so": f"{triton}/backends/python/libtriton_python.so",
            f"{backend}/triton_python_backend_utils.py": f"{triton}/backends/python/triton_python_backend_utils.py",
            f"{backend}/triton_python_backend_stub": (
                f"{triton}/python_backend_stubs/{place.python_version}/triton_python_backend_stub"
            ),
        },
        prepare=(),
        serve=Command(_argv(triton, place), {**env, **_environment(place)}),
        url=f"http://127.0.0.1:{place.http_port}",
        metrics_url=f"http://127.0.0.1:{place.metrics_port}",
        ready_path="/v2/health/ready",
        ports=(place.http_port, place.grpc_port, place.metrics_port),
        gpus=place.gpus,
        grpc_url=f"grpc://127.0.0.1:{place.grpc_port}",
    )


def _argv(triton: str, place: Place) -> tuple[str, ...]:
    return (
        f"{triton}/bin/tritonserver",
        f"--model-repository={place.folder}/models",
        f"--backend-directory={place.folder}/backends",
        *("--http-address=127.0.0.1", f"--http-port={place.http_port}"),
        *("--grpc-address=127.0.0.1", f"--grpc-port={place.grpc_port}"),
        *("--metrics-address=127.0.0.1", f"--metrics-port={place.metrics_port}"),
        "--allow-gpu-metrics=false",
        "--disable-auto-complete-config",
        "--exit-timeout-secs=10",
    )


def _environment(place: Place) -> dict[str, str]:
    bin_folder = place.python.rsplit("/", 1)[0]
    return {"PATH": f"{bin_folder}:/usr/bin:/bin", "LD_LIBRARY_PATH": place.lib_dir}


def config_pbtxt(name: str, engine_args: Mapping[str, Any]) -> str:
    """A decoupled Python model, unbatched: the engine inside batches for itself."""
    inputs = ",\n".join(
        f'  {{ name: "{tensor}" data_type: {kind} dims: [ 1 ]{" optional: true" if optional else ""} }}'
        for tensor, kind, optional in INPUTS
    )
    outputs = ",\n".join(
        f'  {{ name: "{tensor}" data_type: {kind} dims: [ {size} ] }}' for tensor, kind, size in OUTPUTS
    )
    escaped = json.dumps(json.dumps(engine_args, sort_keys=True))
    return (
        f'name: "{name}"\nbackend: "python"\nmax_batch_size: 0\n'
        "model_transaction_policy { decoupled: True }\n"
        f"input [\n{inputs}\n]\noutput [\n{outputs}\n]\n"
        "instance_group [ { count: 1 kind: KIND_MODEL } ]\n"
        f'parameters {{ key: "engine_args" value {{ string_value: {escaped} }} }}\n'
    )
