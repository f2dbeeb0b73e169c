# SPDX-License-Identifier: Apache-2.0
"""Writes a Llama checkpoint's safetensors as GGUF in 32-bit floats: llamacpp_convert.py FOLDER OUT.gguf

Covers what the light pair needs: the Llama architecture with a byte-level BPE tokenizer that splits
by the GPT-2 pattern. Anything else is refused; llama.cpp's own converter knows the other families.
Tensor and key names are those of the gguf package (gguf.constants). llama.cpp rotates neighbouring
pairs where Hugging Face rotates halves, so the rows of q and k are interleaved.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
OTHER_NAMES = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}


def main(folder: Path, target: Path) -> None:
    """Convert `folder` to `target`, which appears only when it is complete."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    _refuse_unknown(config, tokenizer)
    unfinished = target.with_suffix(f".{os.getpid()}.part")
    writer = gguf.GGUFWriter(unfinished, "llama")
    _add_model(writer, config)
    _add_tokenizer(writer, config, tokenizer, folder)
    for name, tensor in _tensors(folder):
        writer.add_tensor(*_renamed(name, tensor, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.replace(target)


def _refuse_unknown(config: dict[str, Any], tokenizer: dict[str, Any]) -> None:
    if config["architectures"] != ["LlamaForCausalLM"]:
        sys.exit(f"only LlamaForCausalLM can be converted here, not {config['architectures']}")
    if tokenizer["model"]["type"] != "BPE" or tokenizer["pre_tokenizer"]["type"] != "ByteLevel":
        sys.exit("only byte-level BPE tokenizers with the GPT-2 pattern can be converted here")
    if config.get("rope_scaling"):
        sys.exit("rope_scaling cannot be converted here")


def _add_model(writer: Any, config: dict[str, Any]) -> None:
    rope = config.get("rope_parameters") or {"rope_theta": config.get("rope_theta", 10000.0)}
    writer.add_name("checkpoint")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _add_tokenizer(writer: Any, config: dict[str, Any], tokenizer: dict[str, Any], folder: Path) -> None:
    by_id = {token: text for text, token in tokenizer["model"]["vocab"].items()}
    special = {added["id"]: added["content"] for added in tokenizer["added_tokens"]}
    by_id |= special
    merges = tokenizer["model"]["merges"]
    kinds = (gguf.TokenType.NORMAL, gguf.TokenType.CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([by_id[i] for i in range(config["vocab_size"])])
    writer.add_token_types([kinds[i in special] for i in range(config["vocab_size"])])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)
    template = folder / "chat_template.jinja"
    if template.exists():
        writer.add_chat_template(template.read_text(encoding="utf-8"))


def _tensors(folder: Path) -> Iterator[tuple[str, Any]]:
    """Every tensor as float32. bfloat16 is widened by hand: numpy has no such type."""
    for path in sorted(folder.glob("*.safetensors")):
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + length])
        header.pop("__metadata__", None)
        for name, entry in header.items():
            start, end = (8 + length + offset for offset in entry["data_offsets"])
            yield name, _widened(raw[start:end], entry["dtype"]).reshape(entry["shape"])


def _widened(raw: bytes, dtype: str) -> Any:
    if dtype == "BF16":
        return (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, {"F32": np.float32, "F16": np.float16}[dtype]).astype(np.float32)


def _renamed(name: str, tensor: Any, config: dict[str, Any]) -> tuple[str, Any]:
    plain = name.removeprefix("model.").removesuffix(".weight")
    if plain in OTHER_NAMES:
        return OTHER_NAMES[plain] + ".weight", tensor
    _, layer, part = plain.split(".", 2)
    if part == "self_attn.q_proj":
        tensor = _interleaved(tensor, config["num_attention_heads"])
    if part == "self_attn.k_proj":
        tensor = _interleaved(tensor, config["num_key_value_heads"])
    return f"blk.{layer}.{LAYER_NAMES[part]}.weight", tensor


def _interleaved(rows: Any, heads: int) -> Any:
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, rows.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
