# SPDX-License-Identifier: Apache-2.0
"""Triton's gRPC inference calls: from the same request as over HTTP to a message, and from messages back.

The protocol: triton-inference-server/common, protobuf/grpc_service.proto. Over HTTP Triton's generate
extension makes tensors of JSON by the model's metadata; here the client does the same, so that both
transports carry the same request: keys that name no input become parameters.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from tritonclient.grpc import InferenceServerClient, service_pb2
from tritonclient.utils import (
    InferenceServerException,
    deserialize_bytes_tensor,
    serialize_byte_tensor,
    triton_to_np_dtype,
)

from engines.contract import Call, EventData
from runners.load.h2c import MESSAGE_HEAD
from runners.load.link import AddressError, Target

STREAM_PATH: Final = "/inference.GRPCInferenceService/ModelStreamInfer"
FINAL_ASKED: Final = "triton_enable_empty_final_response"
FINAL: Final = "triton_final_response"
SCALARS: Final = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}


def model_of(call: Call) -> str:
    """The model that an HTTP call of the generate extension names."""
    return call.path.split("/")[3]


def inputs_of(target: Target, model: str) -> Mapping[str, tuple[str, int]]:
    """Datatype and number of dimensions of each input, asked of the server. Raises AddressError."""
    with InferenceServerClient(target.authority, ssl=target.encrypted) as client:
        try:
            metadata = client.get_model_metadata(model, client_timeout=30.0)
        except InferenceServerException as error:
            raise AddressError(f"{target.authority}: no metadata of {model!r}: {error.message()}") from None
    return {tensor.name: (tensor.datatype, len(tensor.shape)) for tensor in metadata.inputs}


def infer_message(call: Call, inputs: Mapping[str, tuple[str, int]]) -> bytes:
    """A ModelInferRequest for ModelStreamInfer. The end of the stream is asked for explicitly."""
    body = json.loads(call.body)
    request = service_pb2.ModelInferRequest(model_name=model_of(call), id=body.pop("id", ""))
    request.parameters[FINAL_ASKED].bool_param = True
    for name, value in body.items():
        if name in inputs:
            _add_input(request, name, value, *inputs[name])
        else:
            setattr(request.parameters[name], SCALARS[type(value)], value)
    serialized: bytes = request.SerializeToString()
    return serialized


def _add_input(request: Any, name: str, value: Any, datatype: str, dimensions: int) -> None:
    values = value if isinstance(value, list) else [value]
    shape = [1] * (dimensions - 1) + [len(values)]
    request.inputs.add(name=name, datatype=datatype, shape=shape)
    if datatype == "BYTES":
        array = np.array([str(one).encode() for one in values], dtype=np.object_)
        raw = serialize_byte_tensor(array).item()
    else:
        raw = np.array(values, dtype=triton_to_np_dtype(datatype)).tobytes()
    request.raw_input_contents.append(raw)


def outputs(body: bytes, ends: Sequence[float]) -> Iterator[tuple[EventData, int]]:
    """Outputs by name of each response, and the number of the read whose arrival completed it.

    `ends` is the body's length after each read. A response without outputs is none; one with an error is
    `{"error": message}`, and so is a stream that breaks off inside a message or lacks its final mark.
    """
    start = read = 0
    final = False
    while start + MESSAGE_HEAD.size <= len(body):
        compressed, size = MESSAGE_HEAD.unpack_from(body, start)
        end = start + MESSAGE_HEAD.size + size
        if end > len(body):
            break
        while ends[read] < end:
            read += 1
        if compressed:
            yield {"error": "a compressed message, which was not asked for"}, read
            return
        message = service_pb2.ModelStreamInferResponse.FromString(body[start + MESSAGE_HEAD.size : end])
        final = message.infer_response.parameters[FINAL].bool_param
        if event := _event(message):
            yield event, read
        start = end
    if start < len(body):
        yield {"error": "the stream broke off inside a message"}, read
    elif body and not final:
        yield {"error": "the stream ended without its final response"}, read


def _event(message: Any) -> Mapping[str, Any]:
    if message.error_message:
        return {"error": message.error_message}
    response = message.infer_response
    return {
        tensor.name: _value(tensor.datatype, raw)
        for tensor, raw in zip(response.outputs, response.raw_output_contents, strict=True)
    }


def _value(datatype: str, raw: bytes) -> Any:
    """One value as such, several as a list: as the generate extension puts them into JSON."""
    if datatype == "BYTES":
        values = [one.decode("utf-8", "replace") for one in deserialize_bytes_tensor(raw)]
    else:
        values = np.frombuffer(raw, dtype=triton_to_np_dtype(datatype)).tolist()
    return values[0] if len(values) == 1 else values
