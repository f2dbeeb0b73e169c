# SPDX-License-Identifier: Apache-2.0
"""What all parts of a config are made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(gt=0)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)]


class Strict(BaseModel):
    """A part of a config: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
