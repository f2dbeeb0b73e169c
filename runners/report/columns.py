# SPDX-License-Identifier: Apache-2.0
"""Tables in Parquet whose rows hold lists, written without a Python object for each of their values."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def list_column(rows: Iterable[Any]) -> Any:
    """A column of lists from one buffer or NumPy array a row."""
    import numpy as np
    import pyarrow as pa

    arrays = [np.asarray(row) for row in rows]
    offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int32)
    values = np.concatenate(arrays) if arrays else np.empty(0)
    return pa.ListArray.from_arrays(offsets, values)


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write a Parquet file whole or not at all, and never over another."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    pq.write_table(pa.table(dict(columns)), part, use_dictionary=False, compression="zstd")
    os.link(part, path)
    part.unlink()
