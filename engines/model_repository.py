# SPDX-License-Identifier: Apache-2.0
"""A Triton model repository with one Python model of ours, and the command that serves it."""

import json
from collections.abc import Mapping
from typing import Any, Final

from engines import triton_server
from engines.inside_files import inside_text
from engines.launch import Command, Launch, Place

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
    ("engine_spans_ns", "TYPE_INT64", 3),
)


def launch(place: Place, model: str, engine_args: Mapping[str, Any], env: Mapping[str, str]) -> Launch:
    """Triton with `model` (a file of engines/inside) under the served name."""
    repository = f"models/{place.served_name}"
    argv = (
        *triton_server.server_argv(place),
        f"--model-repository={place.folder}/models",
        *triton_server.ports_argv(place),
        "--disable-auto-complete-config",
    )
    files = {
        f"{repository}/config.pbtxt": config_pbtxt(place.served_name, engine_args),
        f"{repository}/1/model.py": inside_text(model),
        f"{repository}/1/triton_answers.py": inside_text("triton_answers.py"),
    }
    serve = Command(argv, {**env, **triton_server.environment(place)})
    return triton_server.launch(place, files, triton_server.backend_links(place), serve)


def config_pbtxt(name: str, engine_args: Mapping[str, Any]) -> str:
    """A decoupled Python model, unbatched: the engine inside batches for itself."""
    escaped = json.dumps(json.dumps(engine_args, sort_keys=True))
    return (
        f'name: "{name}"\nbackend: "python"\nmax_batch_size: 0\n'
        "model_transaction_policy { decoupled: True }\n"
        f"{tensors_pbtxt([(name, kind, 1, optional) for name, kind, optional in INPUTS], OUTPUTS)}"
        "instance_group [ { count: 1 kind: KIND_MODEL } ]\n"
        f'parameters {{ key: "engine_args" value {{ string_value: {escaped} }} }}\n'
    )


def tensors_pbtxt(inputs: list[tuple[str, str, int, bool]], outputs: tuple[tuple[str, str, int], ...]) -> str:
    """The tensors of a model: name, type, size (-1 for any), and whether an input may be left out."""
    taken = ",\n".join(
        f'  {{ name: "{name}" data_type: {kind} dims: [ {size} ]{" optional: true" if optional else ""} }}'
        for name, kind, size, optional in inputs
    )
    given = ",\n".join(f'  {{ name: "{name}" data_type: {kind} dims: [ {size} ] }}' for name, kind, size in outputs)
    return f"input [\n{taken}\n]\noutput [\n{given}\n]\n"
