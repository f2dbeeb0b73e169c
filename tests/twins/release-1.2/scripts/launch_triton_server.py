# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's launcher by its flags: it starts the server without the configuration being completed, and returns at
once. There is no MPI here, so one rank only."""

import argparse
import subprocess

parser = argparse.ArgumentParser()
parser.add_argument("--world_size", type=int, default=1)
parser.add_argument("--tritonserver", default="/opt/tritonserver/bin/tritonserver")
parser.add_argument("--model_repo", required=True)
parser.add_argument("--tensorrt_llm_model_name", default="tensorrt_llm")
parser.add_argument("--grpc_port", default="8001")
parser.add_argument("--http_port", default="8000")
parser.add_argument("--metrics_port", default="8002")
for flag in ("--force", "--log", "--no-mpi", "--multi-model", "--disable-spawn-processes", "--oversubscribe"):
    parser.add_argument(flag, action="store_true")
parser.add_argument("--exit_timeout", type=int)
args = parser.parse_args()
assert args.world_size == 1, "a twin has one rank"

command = [
    args.tritonserver,
    f"--model-repository={args.model_repo}",
    f"--grpc-port={args.grpc_port}",
    f"--http-port={args.http_port}",
    f"--metrics-port={args.metrics_port}",
    "--disable-auto-complete-config",
    "--backend-config=python,shm-region-prefix-name=prefix0_",
]
if args.exit_timeout:
    command.append(f"--exit-timeout-secs={args.exit_timeout}")
subprocess.Popen(command)
