# SPDX-License-Identifier: Apache-2.0
"""Tables in Parquet whose rows hold lists, written without a Python object for each of their values."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")

BATCH: Final = 1000
"""Requests that are in memory a second time while they are written."""


def batches(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """BATCH rows at a time."""
    return (rows[start : start + BATCH] for start in range(0, len(rows), BATCH))


def list_column(rows: Iterable[Any]) -> Any:
    """A column of lists from one buffer or NumPy array a row, all of one type."""
    import numpy as np
    import pyarrow as pa

    arrays = [np.asarray(row) for row in rows]
    offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, np.concatenate(arrays))


def write_table(path: Path, types: Mapping[str, str], parts: Iterable[Mapping[str, Any]]) -> None:
    """Write a Parquet file whole or not at all, and never over another. `types` are Arrow's names of the
    columns' types, with [] behind them for lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_memory_pool(pa.system_memory_pool())  # takes what the answers' bytes have left
    schema = pa.schema([(name, _arrow_type(kind)) for name, kind in types.items()])
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    with pq.ParquetWriter(unfinished, schema, use_dictionary=False, compression="zstd") as writer:
        for part in parts:
            writer.write_table(pa.table(dict(part), schema))
    os.link(unfinished, path)
    unfinished.unlink()


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    of = pa.type_for_alias(kind.removesuffix("[]"))
    return pa.list_(of) if kind.endswith("[]") else of
