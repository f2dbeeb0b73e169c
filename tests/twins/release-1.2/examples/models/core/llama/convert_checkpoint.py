# SPDX-License-Identifier: Apache-2.0
"""The converter by its flags; what it makes holds the way to the checkpoint instead of weights."""

import argparse
import json
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", type=Path, required=True)
parser.add_argument("--output_dir", type=Path, required=True)
parser.add_argument("--dtype", choices=("auto", "float16", "bfloat16", "float32"), default="auto")
for flag in ("--tp_size", "--pp_size", "--workers"):
    parser.add_argument(flag, type=int, default=1)
parser.add_argument("--use_weight_only", action="store_true")
parser.add_argument("--weight_only_precision", choices=("int8", "int4"))
for flag in ("--int8_kv_cache", "--fp8_kv_cache"):
    parser.add_argument(flag, action="store_true")
args = parser.parse_args()

config = json.loads((args.model_dir / "config.json").read_text("utf-8"))
assert config["architectures"][0] == "LlamaForCausalLM", "this is the converter of Llama"
args.output_dir.mkdir(parents=True, exist_ok=True)
facts = {
    "architecture": "LlamaForCausalLM",
    "dtype": args.dtype,
    "mapping": {"tp_size": args.tp_size, "pp_size": args.pp_size},
    "twin_of": str(args.model_dir),
}
(args.output_dir / "config.json").write_text(json.dumps(facts), "utf-8")
