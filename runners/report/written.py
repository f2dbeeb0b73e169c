# SPDX-License-Identifier: Apache-2.0
"""What all parts of a record are made of."""

from pydantic import BaseModel, ConfigDict


class Written(BaseModel):
    """A part of a record: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
