# SPDX-License-Identifier: Apache-2.0
"""One measure of throughput for all: where one contender's streams come whole, its tokens have no times but the end
of their request, so that every contender's are counted so."""

from runners.report.record import CellRecord, Flag, Run

FLAG = Flag(
    code="tokens of completed requests",
    detail="a contender's streams come in one event, so tokens count when their request ends, for all",
)


def comes_whole(cell: CellRecord) -> bool:
    """The engine answered each stream in one event."""
    return cell.summary.tpot.p50.reason == "one event"


def on_one_measure(run: Run) -> Run:
    """The run as it is; or, with such a contender in it, with the throughput of completed requests in every cell."""
    if not any(comes_whole(cell) for cell in run.cells):
        return run
    return run.model_copy(update={"cells": tuple(_of_completed(cell) for cell in run.cells)})


def _of_completed(cell: CellRecord) -> CellRecord:
    summary = cell.summary
    changed = {"output_tokens_per_s": summary.completed_tokens_per_s, "flags": (*summary.flags, FLAG)}
    return cell.model_copy(update={"summary": summary.model_copy(update=changed)})
