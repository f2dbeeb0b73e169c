# SPDX-License-Identifier: Apache-2.0
"""What a bundle says of itself."""

from collections.abc import Mapping
from typing import Final, Literal

from runners.errors import MendableError
from runners.report.written import SCHEMA_VERSION, Written

MANIFEST: Final = "bundle.json"
SUMS: Final = "SHA256SUMS"


class BundleError(MendableError):
    """A bundle that cannot be made or must not be opened."""


class BundleRecord(Written):
    """`name` is that of the results folder, `by` who ran the comparison, `made_at` in UTC. `redacted` counts different
    secrets by kind, `left_out` says of files why they are not in it."""

    schema_version: int = SCHEMA_VERSION
    format: Literal["bakeoff bundle"] = "bakeoff bundle"
    bakeoff: str
    name: str
    made_at: str
    by: str | None
    redacted: Mapping[str, int]
    left_out: Mapping[str, str]
