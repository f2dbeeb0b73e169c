# SPDX-License-Identifier: Apache-2.0
"""What a config has to declare, known before hours are spent on it."""

from dataclasses import asdict

from engines.launch import Knobs
from engines.ledger_rows import OF_KNOB, REVISION, WEIGHTS, quoted
from runners.config import Bakeoff

LEFT_TO_THE_ENGINE = ("kv_cache_tokens", "max_num_batched_tokens")
"""Knobs of which None leaves the choice to the engine: only the ledger can tell whether it is another."""


def knob_warnings(bakeoff: Bakeoff) -> list[str]:
    """One sentence for each contender that is set otherwise than the reference in a row that is not declared."""
    reference = next(c for c in bakeoff.contenders if c.name == bakeoff.reference_name)
    said = []
    for contender in bakeoff.contenders:
        rows = _differing(bakeoff.knobs_of(reference), bakeoff.knobs_of(contender))
        rows += _of_checkpoints(*(c.checkpoint or bakeoff.checkpoint for c in (reference, contender)))
        missing = [row for row in rows if row not in bakeoff.declared]
        if missing:
            keys = ", ".join(f"{quoted(row)}: WHY" for row in missing)
            said.append(
                f"{contender.name} is set otherwise than {reference.name} ({', '.join(missing)}), so there will be "
                f"no verdict on it; if that is what is compared, add to the config `declared: {{{keys}}}`"
            )
    return said


def _of_checkpoints(one: str, other: str) -> list[str]:
    """Commits of the hub are a row of their own."""
    if one == other:
        return []
    return [REVISION, WEIGHTS] if "@" in one + other else [WEIGHTS]


def _differing(one: Knobs, other: Knobs) -> list[str]:
    mine, its = asdict(one), asdict(other)
    return [
        row
        for knob, row in OF_KNOB.items()
        if mine[knob] != its[knob] and not (knob in LEFT_TO_THE_ENGINE and None in (mine[knob], its[knob]))
    ]
