# SPDX-License-Identifier: Apache-2.0
"""What a comparison on GPUs needs before anything starts: the GPUs, idle, and room on the disk."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from runners.gpu import Gpu, Holder

IDLE_BYTES: Final = 512 * 2**20
"""What driver and display servers hold of an idle GPU."""
COPIES: Final = 2.5
"""A compiled engine keeps a converted checkpoint and itself beside the checkpoint."""


def gpu_complaints(wanted: Sequence[int], found: Sequence[Gpu], holders: Sequence[Holder]) -> list[str]:
    """GPUs that are not there, and foreign processes on those that are."""
    known = {gpu.index: gpu for gpu in found}
    absent = [index for index in wanted if index not in known]
    if absent:
        there = f"there are {len(known)}, counted from 0" if known else "there is no NVIDIA driver here"
        return [f"gpus: no GPU {absent[0]}; {there}"]
    complaints = [
        f"gpus: GPU {holder.gpu} is in use by {told(holder)}; end it or choose another GPU"
        for holder in holders
        if holder.gpu in wanted
    ]
    busy = [known[index] for index in wanted if known[index].used_bytes > IDLE_BYTES]
    if busy and not complaints:
        gib = busy[0].used_bytes / 2**30
        complaints.append(
            f"gpus: {gib:.1f} GiB of GPU {busy[0].index} are in use by a process that is not seen from here "
            "(another user's or container's); end it or choose another GPU"
        )
    return complaints


def told(holder: Holder) -> str:
    """A process on a GPU, for a message."""
    memory = "" if holder.bytes is None else f", {holder.bytes / 2**30:.1f} GiB"
    return f"process {holder.pid} ({holder.name}{memory})"


def disk_complaints(folder: Path, checkpoint: Path) -> list[str]:
    """Room for what an engine build keeps."""
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    needed = COPIES * sum(path.stat().st_size for path in checkpoint.glob("*.safetensors"))
    free = shutil.disk_usage(existing).free
    if free >= needed:
        return []
    return [f"{free / 2**30:.0f} GiB are free at {folder}, a build needs {needed / 2**30:.0f}; set BAKEOFF_CACHE"]
