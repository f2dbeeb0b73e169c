# SPDX-License-Identifier: Apache-2.0
"""configs/portion.sh with a program in bakeoff's place: it is started once, and what is new comes back in pieces."""

import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent

PROGRAM = """#!/bin/bash
echo "$*" >> "$(dirname "$0")/calls"
out=$4; mkdir -p $out/lives/b01-a $out/lives/b01-b
touch $out/config.yaml; echo {} > $out/lives/b01-a/life.json; echo {} > $out/lives/b01-b/cell.json
head -c 1500000 /dev/urandom > $out/lives/b01-a/cell.parquet
cp $out/lives/b01-a/cell.parquet $out/lives/b01-b/
exit 3
"""


def portion(folder: Path, back: str) -> int:
    env = {**os.environ, "BAKEOFF": str(folder / "program"), "PIECES": "1", "PIECE_MIB": "1", "WAIT_S": "30"}
    argv = [ROOT / "configs" / "portion.sh", "x.yaml", folder / "out", folder / back, "2"]
    return subprocess.run([str(part) for part in argv], env=env, capture_output=True, check=False).returncode


def test_a_comparison_in_portions(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    assert portion(tmp_path, "one") == 75, "the second piece waits"
    assert portion(tmp_path, "two") == 3, "all is back: the program's own status"
    assert program.with_name("calls").read_text() == f"compare x.yaml --out {tmp_path}/out --next-blocks 2\n"
    with tarfile.open(tmp_path / "one" / "records.tar.gz") as records:
        names = sorted(member.name for member in records if member.isfile())
    assert names == ["./config.yaml", "./lives/b01-a/life.json", "./lives/b01-b/cell.json"]
    pieces = [path for back in ("one", "two") for path in sorted((tmp_path / back).glob("b01-a.tar.*"))]
    assert [piece.name for piece in pieces] == ["b01-a.tar.000", "b01-a.tar.001"]
    with tarfile.open(fileobj=BytesIO(b"".join(piece.read_bytes() for piece in pieces))) as traces:
        assert [member.name for member in traces if member.isfile()] == ["lives/b01-a/cell.parquet"]
    (tmp_path / "out.portion" / "rc").unlink()
    portion(tmp_path, "three")
    assert "--resume" in program.with_name("calls").read_text().splitlines()[1]
