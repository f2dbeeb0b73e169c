# SPDX-License-Identifier: Apache-2.0
"""Prompts on tokenizers of several kinds: exact lengths, and texts that survive decoding, template included."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from engines.contract import Sampling
from runners.config_workload import Span, WorkloadConfig
from runners.load.rendering import DrawError, load_rendering
from runners.load.workload import Draw

WORDS = ["".join(parts) for parts in itertools.product(("ba", "de", "fi", "go", "ku"), repeat=3)]
CORPUS = [" ".join(WORDS[start:] + WORDS[:start]) for start in range(0, len(WORDS), 5)] * 4
SPECIAL = ["<unk>", "<s>", "</s>", "<|user|>", "<|end|>"]
TEMPLATE = "{{ bos_token }}{% for m in messages %}<|user|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
WORKLOAD = WorkloadConfig(
    name="w", input_tokens=Span(low=30, high=50), output_tokens=Span(low=4, high=4), concurrency=(1,)
)
BYTES = [f"<0x{number:02X}>" for number in range(256)]


def byte_level() -> Any:
    """As Llama 3, Qwen and GPT-2 have it."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=800, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False),
    )
    return made


def sentence_pieces(*, prepends: bool) -> Any:
    """As Llama 2 and Mistral have it, where a space is put before a text; or as Gemma has it, where none is."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=800, special_tokens=[*SPECIAL, *BYTES], show_progress=False)
    )
    plain = json.loads(made.to_str())
    plain["pre_tokenizer"] = None
    plain["added_tokens"] = [token for token in plain["added_tokens"] if token["content"] in SPECIAL]
    made = Tokenizer.from_str(json.dumps(plain))
    first = [normalizers.Prepend("\u2581")] if prepends else []
    made.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "\u2581")])
    last = [decoders.Strip(" ", 1, 0)] if prepends else []
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), *last])
    return made


def saved(made: Any, folder: Path, template: str | None) -> Path:
    """A checkpoint's folder, as far as prompts need it; encoding adds a BOS unless it is asked not to."""
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    made.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


INST = "{{ bos_token }}{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}"
"""Llama 2's own: after a special token its tokenizer puts a space of its own, which decoding shows."""
KINDS: dict[str, Callable[[], Any]] = {
    "byte level": byte_level,
    "Llama 2": lambda: sentence_pieces(prepends=True),
    "Gemma": lambda: sentence_pieces(prepends=False),
}


@pytest.mark.parametrize("templated", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_prompts_survive(kind: str, templated: bool, tmp_path: Path) -> None:
    made = KINDS[kind]()
    template = (INST if kind == "Llama 2" else TEMPLATE) if templated else None
    rendering = load_rendering(saved(made, tmp_path, template))
    assert set(rendering.words) >= {f" {word}" for word in WORDS}
    draw = Draw(rendering, WORKLOAD, Sampling(), True, (1,), (1,))
    for prompt in itertools.islice(draw.prompts(), 100):
        ids = rendering.ids(prompt.text)
        assert len(ids) == prompt.input_tokens
        assert rendering.tokenizer.decode(ids, skip_special_tokens=False) == prompt.text
        assert not prompt.text.startswith("<s>")
        assert made.encode(prompt.text).ids == [made.token_to_id("<s>"), *ids]


def test_a_tokenizer_that_changes_its_words_is_refused(tmp_path: Path) -> None:
    """Decoding takes out what encoding needs."""
    made = byte_level()
    made.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace("bafi", "")])
    with pytest.raises(DrawError, match=r"tokenizer.json: a text of its own words does not survive decoding"):
        load_rendering(saved(made, tmp_path, TEMPLATE))
