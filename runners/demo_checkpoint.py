# SPDX-License-Identifier: Apache-2.0
"""Makes the demo checkpoint: a small Llama that continues English words with English words.

Random weights would serve as well for timing, but their text does not survive decode-encode, so
that a client could not count the tokens of an answer by itself. This model is a bigram model
written into Llama's form: the output head of a word is the sum of the embeddings of the words it
was seen to follow, and small random attention and MLP layers, computed in full, let the context
decide between the followers. Every token of an answer is a whole word, so the text re-tokenizes
to the tokens that were generated. What it knows is in the head, so the layers may be as many and as wide as those of
a real model, which decide its speed.
"""

import hashlib
import itertools
import json
import sysconfig
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

from runners import demo_weights
from runners.demo_shapes import Shape

WORDS: Final = 4096
"""Tokens of the tokenizer; a shape with a larger vocabulary never answers with the others."""
FOLLOWERS: Final = 6
MOST_PREDECESSORS: Final = 24
SPECIAL: Final = ("<|begin|>", "<|end_of_text|>", "<|start|>", "<|end|>", "<|pad|>")
TEMPLATE: Final = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def make_demo_checkpoint(folder: Path, shape: Shape) -> None:
    """Write config, tokenizer, template and safetensors of a demo model into an empty folder.

    The corpus is Python's own standard library, so the files differ between Python versions; on
    one machine they are the same each time.
    """
    corpus = _corpus()
    tokenizer = _train_tokenizer(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(shape))
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    _write_json(folder / "config.json", _model_config(shape))
    _write_json(
        folder / "generation_config.json",
        {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 4, "do_sample": False},
    )
    demo_weights.save(folder, demo_weights.layout(shape, _followers(tokenizer, corpus)), shape.dtype)


def recipe_key(shape: Shape) -> str:
    """Name of this recipe's result in the cache: changes when the recipe, the shape or Python does."""
    sources = [Path(module).read_bytes() for module in (__file__, demo_weights.__file__)]
    return hashlib.sha256(b"".join(sources) + f"{shape} {sysconfig.get_python_version()}".encode()).hexdigest()[:12]


def _corpus() -> list[str]:
    library = Path(sysconfig.get_paths()["stdlib"])
    return [p.read_text(encoding="utf-8", errors="ignore") for p in sorted(library.glob("[a-m]*.py"))]


def _train_tokenizer(corpus: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=WORDS,
            special_tokens=list(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def _followers(tokenizer: Any, corpus: list[str]) -> dict[int, list[int]]:
    """For every token, the words that may follow it: those seen most often, else common words."""
    words = _whole_words(tokenizer)
    seen: dict[int, Counter[int]] = defaultdict(Counter)
    frequency: Counter[int] = Counter()
    for encoding in tokenizer.encode_batch(corpus):
        previous = None
        for token in encoding.ids:
            if token in words:
                frequency[token] += 1
                if previous is not None:
                    seen[previous][token] += 1
            previous = token
    return _share_out(seen, [word for word, _ in frequency.most_common()])


def _share_out(seen: dict[int, Counter[int]], words: list[int]) -> dict[int, list[int]]:
    """Give every token its most frequent followers, no word to more than MOST_PREDECESSORS tokens.

    Without that limit every answer falls into the same loop of the few most common words.
    """
    predecessors: Counter[int] = Counter()
    chosen = {}
    for token in range(WORDS):
        wanted = [word for word, _ in seen[token].most_common()]
        filler = (words[(token * 31 + step) % len(words)] for step in range(len(words)))
        followers: list[int] = []
        for word in itertools.chain(wanted, filler):
            if len(followers) == FOLLOWERS:
                break
            if word not in followers and predecessors[word] < MOST_PREDECESSORS:
                followers.append(word)
                predecessors[word] += 1
        chosen[token] = followers
    return chosen


def _whole_words(tokenizer: Any) -> set[int]:
    """Tokens that are one word with its leading space and encode to themselves."""
    words = set()
    for text, token in tokenizer.get_vocab().items():
        word = text.removeprefix("\u0120")
        if word != text and word.isascii() and word.isalpha() and len(word) > 1:
            if tokenizer.encode(" " + word).ids == [token]:
                words.add(token)
    return words


def _model_config(shape: Shape) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 4,
        "head_dim": shape.head_width,
        "hidden_act": "silu",
        "hidden_size": shape.hidden,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate,
        "max_position_embeddings": shape.context,
        "mlp_bias": False,
        "num_attention_heads": shape.heads,
        "num_hidden_layers": shape.layers,
        "num_key_value_heads": shape.kv_heads,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": shape.rope_theta,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": shape.dtype,
        "use_cache": True,
        "vocab_size": shape.vocabulary,
    }


def _tokenizer_config(shape: Shape) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[1],
        "pad_token": SPECIAL[4],
        "model_max_length": shape.context,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
