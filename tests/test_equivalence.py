# SPDX-License-Identifier: Apache-2.0
"""The gate's arithmetic on answers made by hand."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml

from engines.contract import Prompt
from runners.cell import draw as cell_draw
from runners.cells import Cell
from runners.config import ConfigError, parse_config
from runners.gate import gate_prompts
from runners.gate_task import is_right, read_task
from runners.load.rendering import Rendering
from runners.report.blocks import without_excluded
from runners.report.decisions import decide_run
from runners.report.equivalence import Equivalence, equivalence_of
from runners.report.equivalence_text import equivalence_json, equivalence_markdown
from runners.report.gate_record import GateAnswer, GateRecord, TaskAnswer
from runners.report.record import Run
from runners.report.table import tabulate
from runners.report.task_score import score_of
from runners.session import Session
from tests.test_config import GOOD, workload, written
from tests.test_records import life, record
from tests.test_workload import planned

ANSWERS = ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12), (13, 14, 15, 16))


def answer(number: int, tokens: Sequence[int], **changes: Any) -> GateAnswer:
    fields: dict[str, Any] = {
        "prompt": f"p{number}",
        "input_tokens": 10 + number,
        "prompt_tokens": 10 + number,
        "text": " ".join(map(str, tokens)),
        "tokens": tuple(tokens),
        "finish_reason": "length",
        "error": None,
    }
    return GateAnswer(**{**fields, **changes})


def start(answers: Sequence[Sequence[int]] = ANSWERS, **changes: Any) -> GateRecord:
    kept = tuple(answer(number, tokens, **changes) for number, tokens in enumerate(answers))
    return GateRecord(max_tokens=4, bos="<s>", answers=kept)


def tasked(rights: Sequence[bool]) -> GateRecord:
    """Agreeing answers, and a task of so many questions."""
    task = tuple(
        TaskAnswer(**answer(90, (1,)).model_dump(), line=line, expected="x", right=right)
        for line, right in enumerate(rights, start=1)
    )
    return start().model_copy(update={"task": task})


def run(a: Sequence[GateRecord], b: Sequence[GateRecord], **changes: Any) -> Run:
    """Two blocks of a twice as fast b; `a` is the reference."""
    rates = {"a": 100.0, "b": 200.0}
    cells = tuple(record(name, block, rate) for name, rate in rates.items() for block in (1, 2))
    lives = [
        life(record(name, block, 1.0)).model_copy(update={"block": block, "gate": gate})
        for name, starts in (("a", a), ("b", b))
        for block, gate in enumerate(starts, start=1)
    ]
    config = yaml.safe_load(written(blocks=2, **changes))
    return Run(config=config, lives=tuple(lives), cells=cells)


def held(a: Sequence[GateRecord], b: Sequence[GateRecord], **changes: Any) -> Equivalence:
    return equivalence_of(run(a, b, **changes))[1]


def test_equal_answers_pass() -> None:
    reference, found = equivalence_of(run([start(), start()], [start(), start()]))
    assert (found.prompts, found.starts, found.identical, found.agreed) == (4, 2, 1.0, 1.0)
    assert (found.reference_identical, found.own_identical, found.first_divergence) == (1.0, 1.0, None)
    assert (found.length_ratio, found.finish_reasons) == (1.0, {"length": 8})
    assert (found.passed, found.reason) == (True, "the same answers")
    assert (reference.passed, reference.reason, reference.reference_identical) == (None, "the reference", 1.0)


def test_agreement_by_hand() -> None:
    """Equal; apart at token 2 of 4; apart at 1; and a prefix of 3: 1, 1/2, 1/4 and 3/4 agree, one of four is equal, the
    differences are at 2, 1 and 3, and 15 tokens stand against 16."""
    mine = start(((1, 2, 3, 4), (5, 6, 0, 0), (9, 0, 11, 12), (13, 14, 15)))
    found = held([start(), start()], [mine, mine])
    assert (found.identical, found.agreed, found.first_divergence) == (0.25, 0.625, 2)
    assert found.length_ratio == 15 / 16
    assert (found.passed, found.reason) == (True, "close enough")
    assert held([start(), start()], [mine, mine], gate={"at_least": 0.7}).passed is False


def test_the_threshold_is_the_references_own() -> None:
    """A reference that agrees with itself in 5 of 8 tokens asks for half of that, 31%."""
    other = start(((1, 2, 3, 4), (5, 0, 7, 8), (9, 0, 11, 12), (13, 14, 15, 16)))
    shaky = [start(), other]
    half_way = start(((1, 0, 3, 4), (5, 0, 7, 0), (9, 0, 0, 12), (13, 14, 0, 16)))
    half = {"gate": {"at_least": 0.5}}
    found = held(shaky, [half_way], **half)
    assert found.reference_agreed == (1 + 0.25 + 0.25 + 1) / 4
    assert found.agreed == pytest.approx(((0.25 + 0.25 + 0.25 + 0.5) + (0.25 + 0.75 + 0.5 + 0.5)) / 8)
    assert found.passed is True
    steady = held([start(), start()], [half_way], **half)
    assert steady.passed is False
    assert steady.reason == "its answers agree with a's in 31% of their length, a does with itself in 100%"


def test_answers_that_change_from_start_to_start_are_not_greedy() -> None:
    one = start(((1, 2, 3, 4), (5, 6, 7, 8), (0, 0, 0, 0), (0, 0, 0, 0)))
    other = start(((0, 0, 0, 0), (0, 0, 0, 0), (9, 10, 11, 12), (13, 14, 15, 16)))
    found = held([start(), start()], [one, other])
    assert (found.agreed, found.own_agreed) == (0.5, 0.0)
    assert found.passed is False
    assert found.reason.endswith(": not greedy")


def test_nothing_is_held_to_a_reference_that_is_not_greedy() -> None:
    other = start(((0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0), (13, 14, 15, 16)))
    found = held([start(), other], [start(), start()])
    assert (found.reference_agreed, found.passed) == (0.25, False)
    assert found.reason == "a's own answers agree in 25% of their length from start to start: not greedy"


def test_one_start_decides_nothing_but_prompts() -> None:
    found = held([start()], [start()])
    assert (found.identical, found.reference_identical, found.passed) == (1.0, None, None)
    assert found.reason == "one start of a only: how far it agrees with itself is not known"
    longer = start().model_copy(update={"answers": tuple(_counted(start(), 1))})
    found = held([start()], [longer])
    assert (found.passed, found.reason) == (False, "adds 1 token to each prompt: a BOS")


def _counted(of: GateRecord, *more: int) -> list[GateAnswer]:
    """The answers with so many prompt tokens more, in turn."""
    return [
        a.model_copy(update={"prompt_tokens": a.input_tokens + more[number % len(more)]})
        for number, a in enumerate(of.answers)
    ]


@pytest.mark.parametrize(
    ("mine", "theirs", "reason"),
    [
        ((1,), (0,), "adds 1 token to each prompt: a BOS"),
        ((2,), (1,), "adds 1 token to each prompt: a BOS"),
        ((0,), (1,), "a adds 1 token to each prompt: a BOS"),
        ((12,), (0,), "adds 12 tokens to each prompt: special tokens or a template"),
        ((-1,), (0,), "counts each prompt 1 token shorter: another template"),
        ((0,), (-9,), "a counts each prompt 9 tokens shorter: another template"),
        ((-3, 14), (0,), "counts prompts -3 to 14 tokens longer: not the checkpoint's tokenizer"),
        ((0,), (-3, 14), "a counts prompts -3 to 14 tokens longer: not the checkpoint's tokenizer"),
    ],
)
def test_prompts_that_were_counted_differently(mine: tuple[int, ...], theirs: tuple[int, ...], reason: str) -> None:
    records = [start().model_copy(update={"answers": tuple(_counted(start(), *more))}) for more in (theirs, mine)]
    found = held([records[0]] * 2, [records[1]] * 2)
    assert (found.passed, found.reason) == (False, reason)


def test_an_engine_without_prompt_counts_is_said() -> None:
    silent = start(prompt_tokens=None)
    assert held([start()] * 2, [silent] * 2).reason == "the same answers; it reports no prompt counts"
    assert held([silent] * 2, [start()] * 2).reason == "the same answers; a reports no prompt counts"


def test_failed_requests_are_no_agreement() -> None:
    broken = start().model_copy(update={"answers": (answer(0, (), error="HTTP 500"), *start().answers[1:])})
    found = held([start()] * 2, [broken] * 2)
    assert (found.identical, found.agreed, found.length_ratio) == (0.75, 0.75, 1.0)
    assert found.reason == "close enough; 2 of its requests failed"


def test_a_contender_that_fails_has_no_verdict_anywhere() -> None:
    other = start(((0,),) * 4)
    found = run([start()] * 2, [other] * 2, square={"first_runtime": ["a", "b"], "second_runtime": [None, None]})
    decisions = decide_run(found)
    said = "no verdict: not a's answers (its answers agree with a's in 0% of their length, a does with itself in 100%)"
    assert {c.verdict for c in decisions.comparisons} == {said}
    assert (decisions.crossovers, decisions.attribution) == ((), ())
    assert any(remark.startswith("b does not give a's answers") for remark in decisions.remarks)
    rows = {row["engine"]: row for row in tabulate(found)}
    assert (rows["a"]["same_answers"], rows["b"]["same_answers"]) == ("100.0%", "0.0%, FAIL")
    assert rows["b"]["verdict"] == said
    same = decide_run(run([start()] * 2, [start()] * 2))
    assert {c.verdict for c in same.comparisons} == {"faster by 100.0%"}


def test_without_a_gate_nothing_is_said() -> None:
    assert equivalence_of(run([start()], [start()], gate=False)) == ()
    assert equivalence_markdown(()).startswith("No answers were kept: the config says `gate: false`")
    ungated = run([], [])
    assert equivalence_of(without_excluded(ungated)) == ()
    assert tabulate(ungated)[1]["same_answers"] is None


def test_the_forms() -> None:
    found = equivalence_of(run([tasked([True] * 8)] * 2, [tasked([True] * 6 + [False] * 2)] * 2))
    line = "| b | 4 | 2 | 100.0% | 100.0% | 100.0% | - | 1.00 | length 8 | 75.0% [40.9%, 92.9%] | pass | "
    assert line in equivalence_markdown(found)
    assert json.loads(equivalence_json(found))[1]["task"]["right"] == 6
    assert json.loads(equivalence_json(found)) == [asdict(e) for e in found]


def test_a_score_has_wilsons_interval() -> None:
    """6 of 8: centre (6 + z2 / 2) / (8 + z2), half width z / (8 + z2) sqrt(6 * 2 / 8 + z2 / 4), with z = 1.959964."""
    score = score_of([tasked([True] * 6 + [False] * 2)])
    assert score is not None
    z = 1.959963984540054
    centre, half = (6 + z * z / 2) / (8 + z * z), z / (8 + z * z) * (6 * 2 / 8 + z * z / 4) ** 0.5
    assert (score.share, score.low, score.high) == pytest.approx((0.75, centre - half, centre + half))
    assert score_of([start()]) is None


def test_a_task_decidedly_worse_fails() -> None:
    """Five questions that only the reference answers right: p = 1/32; of four, 1/16 decides nothing."""
    good = tasked([True] * 8)
    found = held([good] * 2, [tasked([True] * 3 + [False] * 5)] * 2)
    assert found.passed is False
    assert found.reason == "task: 5 questions right for the reference only, 0 for it only (p 0.031)"
    assert (found.task_score, held([good] * 2, [tasked([True] * 4 + [False] * 4)] * 2).passed) == (3 / 8, True)
    assert found.task_interval == pytest.approx((0.1368, 0.6943), abs=5e-5)


@pytest.mark.parametrize(
    ("text", "expected", "right"),
    [
        ("6 times 7 is 42.", "42", True),
        ("First 42, then 43", "42", False),
        ("It costs $1,234.50", "1234.5", True),
        ("-3", "3", False),
        ("forty-two", "42", False),
        ("\n  Paris.\nIt is large.", "paris", True),
        ("Paris is it", "Paris", False),
        ("**B**", "B", True),
        ("", "B", False),
    ],
)
def test_what_is_right(text: str, expected: str, right: bool) -> None:
    assert is_right(text, expected) is right


def test_bad_lines_of_a_task_are_named(tmp_path: Path, rendering: Rendering) -> None:
    lines = [
        '{"prompt": "What is 6 times 7?", "answer": "42"}',
        "six times seven",
        '{"prompt": "a", "answer": "b", "note": 1}',
        '{"prompt": "a", "answer": 42}',
        json.dumps({"prompt": " word" * 300, "answer": "x"}),
    ]
    path = tmp_path / "task.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError) as caught:
        read_task(str(path), 100, rendering, "c.yaml")
    told = str(caught.value).splitlines()
    where = f"c.yaml: gate.task: {path}: line"
    assert told[0] == f"{where} 2: not JSON"
    assert told[1] == f"{where} 3: expected an object with prompt and answer, and nothing else"
    assert told[2] == f"{where} 4: prompt and answer have to be text that is not empty"
    assert told[3].startswith(f"{where} 5: the prompt takes ")
    assert len(told) == 4
    path.write_text(lines[0])
    (question,) = read_task(str(path), 100, rendering, "c.yaml")
    assert (question.line, question.answer) == (1, "42")
    assert question.text == rendering.render("What is 6 times 7?")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_task(str(tmp_path / "no.jsonl"), 100, rendering, "c.yaml")


def test_the_prompts_are_those_of_every_life(rendering: Rendering) -> None:
    """64 tokens and an answer of up to 20, of which a context of 80 has room for 16; no openings, no turns."""
    shape = {"shared_prefix": {"tokens": 40, "count": 1}}
    changes = {"workloads": workload(**shape), "gate": {"prompts": 5, "tokens": 20}}
    session = planned(rendering, knobs={"max_model_len": 80, "max_num_seqs": 4}, **changes)
    prompts = gate_prompts(session)
    assert len({p.text for p in prompts}) == 5
    assert {(p.input_tokens, p.max_tokens, p.forced, p.sampling.temperature) for p in prompts} == {(64, 16, False, 0.0)}
    assert len({tuple(rendering.ids(p.text)[:8]) for p in prompts}) == 5
    assert gate_prompts(planned(rendering, **changes))[0].max_tokens == 20
    measured = {p.text for life in session.lives for cell in life.cells for p in islice(asked(session, cell), 50)}
    assert not measured & {p.text for p in prompts}


def asked(session: Session, cell: Cell) -> Iterator[Prompt]:
    return cell_draw(session, cell, "measured").prompts()


def test_the_gate_in_a_config() -> None:
    gate = parse_config(yaml.safe_dump(GOOD), "c").gate
    assert gate is not None
    assert (gate.prompts, gate.tokens, gate.at_least, gate.task) == (16, 64, 0.4, None)
    assert parse_config(written(gate=False), "c").gate is None
    assert parse_config(written(gate=True), "c").gate == gate
    with pytest.raises(ConfigError, match=r"c: gate.prompt: unknown key"):
        parse_config(written(gate={"prompt": 3}), "c")
