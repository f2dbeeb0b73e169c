# SPDX-License-Identifier: Apache-2.0
"""Makes the demo checkpoint: a small Llama that continues English words with English words.

Random weights would serve as well for timing, but their text does not survive decode-encode, so
that a client could not count the tokens of an answer by itself. This model is a bigram model
written into Llama's form: the output head of a word is the sum of the embeddings of the words it
was seen to follow, and small random attention and MLP layers, computed in full, let the context
decide between the followers. Every token of an answer is a whole word, so the text re-tokenizes
to the tokens that were generated.
"""

import hashlib
import itertools
import json
import sysconfig
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

SEED: Final = 20261130
HIDDEN: Final = 256
LAYERS: Final = 4
HEADS: Final = 4
KV_HEADS: Final = 2
INTERMEDIATE: Final = 704
VOCABULARY: Final = 4096
CONTEXT: Final = 2048
FOLLOWERS: Final = 6
MOST_PREDECESSORS: Final = 24
SPECIAL: Final = ("<|begin|>", "<|end_of_text|>", "<|start|>", "<|end|>", "<|pad|>")
TEMPLATE: Final = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def make_demo_checkpoint(folder: Path) -> None:
    """Write config, tokenizer, template and safetensors of the demo model into an empty folder.

    The corpus is Python's own standard library, so the files differ between Python versions; on
    one machine they are the same each time.
    """
    corpus = _corpus()
    tokenizer = _train_tokenizer(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config())
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    _write_json(folder / "config.json", _model_config())
    _write_json(
        folder / "generation_config.json",
        {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 4, "do_sample": False},
    )
    from safetensors.numpy import save_file

    save_file(_weights(tokenizer, corpus), folder / "model.safetensors", metadata={"format": "pt"})


def recipe_key() -> str:
    """Name of this recipe's result in the cache: changes when this module or Python does."""
    source = Path(__file__).read_bytes() + sysconfig.get_python_version().encode()
    return hashlib.sha256(source).hexdigest()[:12]


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
            vocab_size=VOCABULARY,
            special_tokens=list(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return tokenizer


def _weights(tokenizer: Any, corpus: list[str]) -> dict[str, Any]:
    import numpy as np

    draw = np.random.default_rng(SEED)

    def normal(rows: int, columns: int, deviation: float) -> Any:
        return draw.normal(0.0, deviation, (rows, columns)).astype(np.float32)

    embedding = normal(VOCABULARY, HIDDEN, 1.0 / HIDDEN**0.5)
    head = np.zeros((VOCABULARY, HIDDEN), dtype=np.float32)
    for word, followers in _followers(tokenizer, corpus).items():
        for follower in followers:
            head[follower] += embedding[word]
    width = HIDDEN // HEADS
    weights = {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": np.ones(HIDDEN, dtype=np.float32),
        "lm_head.weight": head,
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        inward, outward = 1.0 / HIDDEN**0.5, 0.6 / HIDDEN
        weights |= {
            prefix + "input_layernorm.weight": np.ones(HIDDEN, dtype=np.float32),
            prefix + "post_attention_layernorm.weight": np.ones(HIDDEN, dtype=np.float32),
            prefix + "self_attn.q_proj.weight": normal(HEADS * width, HIDDEN, inward),
            prefix + "self_attn.k_proj.weight": normal(KV_HEADS * width, HIDDEN, inward),
            prefix + "self_attn.v_proj.weight": normal(KV_HEADS * width, HIDDEN, inward),
            prefix + "self_attn.o_proj.weight": normal(HIDDEN, HEADS * width, outward),
            prefix + "mlp.gate_proj.weight": normal(INTERMEDIATE, HIDDEN, inward),
            prefix + "mlp.up_proj.weight": normal(INTERMEDIATE, HIDDEN, inward),
            prefix + "mlp.down_proj.weight": normal(HIDDEN, INTERMEDIATE, outward),
        }
    return weights


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
    for token in range(VOCABULARY):
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


def _model_config() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 4,
        "head_dim": HIDDEN // HEADS,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": CONTEXT,
        "mlp_bias": False,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "pretraining_tp": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "use_cache": True,
        "vocab_size": VOCABULARY,
    }


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[1],
        "pad_token": SPECIAL[4],
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")
