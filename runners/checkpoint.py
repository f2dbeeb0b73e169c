# SPDX-License-Identifier: Apache-2.0
"""Finds the checkpoint of a config: a folder, an id of the Hugging Face hub with its revision, or a demo."""

import hashlib
import json
import re
from pathlib import Path
from typing import Final

from engines.launch import Checkpoint
from runners.config import ConfigError
from runners.demo_checkpoint import make_demo_checkpoint, recipe_key
from runners.demo_shapes import SHAPES
from runners.environments import Say
from runners.load.rendering import chat_template
from runners.places import cache_folder

BESIDE_WEIGHTS: Final = ("*.json", "*.jinja", "*.model")
HUB_ID = re.compile(r"^[\w.-]+/[\w.-]+@(?P<revision>[0-9a-f]{40})$")


def find_checkpoint(wanted: str, source: str, say: Say) -> Checkpoint:
    """The folder, complete and hashed. `source` is the config's path, for messages. Raises ConfigError.

    A relative path counts from the working directory.
    """
    if wanted in SHAPES:
        return _described(_demo(wanted, say), None, source)
    folder = Path(wanted).expanduser()
    if folder.is_dir():
        return _described(folder.absolute(), None, source)
    match = HUB_ID.match(wanted)
    if match:
        return _described(_fetched(wanted, source, say), match["revision"], source)
    if re.fullmatch(r"[\w.-]+/[\w.-]+(@.*)?", wanted) and not wanted.startswith((".", "/")):
        raise ConfigError(
            f"{source}: checkpoint: {wanted!r} is no folder here, and as an id of the hub it lacks its revision; "
            "write ORGANISATION/NAME@COMMIT with the commit's 40 digits"
        )
    raise ConfigError(
        f"{source}: checkpoint: there is no folder {wanted!r}; "
        f"give a Hugging Face folder, an id with its commit, or one of {', '.join(SHAPES)}"
    )


def _demo(name: str, say: Say) -> Path:
    shape = SHAPES[name]
    folder = cache_folder() / "checkpoints" / f"{name}-{recipe_key(shape)}"
    if not folder.exists():
        say(f"making the checkpoint {name} (once): Llama architecture, its words are real, its layers random")
        unfinished = folder.with_suffix(".part")
        make_demo_checkpoint(unfinished, shape)
        for path in unfinished.iterdir():
            path.chmod(0o444)
        unfinished.rename(folder)
    return folder


def _fetched(wanted: str, source: str, say: Say) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    name, revision = wanted.split("@")
    patterns = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
    target = cache_folder() / "hub"
    try:
        return Path(
            snapshot_download(name, revision=revision, cache_dir=target, allow_patterns=patterns, local_files_only=True)
        )
    except LocalEntryNotFoundError:
        say(f"fetching {wanted} (once)")
    try:
        return Path(snapshot_download(name, revision=revision, cache_dir=target, allow_patterns=patterns))
    except GatedRepoError:
        raise ConfigError(
            f"{source}: checkpoint: {name} is gated; accept its terms on its page and set HF_TOKEN"
        ) from None
    except RepositoryNotFoundError:
        raise ConfigError(
            f"{source}: checkpoint: {name} is not on the hub, or private: correct the id, or set HF_TOKEN"
        ) from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ConfigError(
            f"{source}: checkpoint: {wanted} could not be fetched ({str(error).splitlines()[0]}); "
            "check id, commit and network"
        ) from None


def _described(folder: Path, revision: str | None, source: str) -> Checkpoint:
    config, weights = folder / "config.json", sorted(folder.glob("*.safetensors"))
    if not config.exists() or not weights:
        missing = "config.json" if not config.exists() else "*.safetensors"
        raise ConfigError(
            f"{source}: checkpoint: {folder} has no {missing}; give a Hugging Face folder with safetensors"
        )
    facts = json.loads(config.read_text("utf-8"))
    architecture = next(iter(facts.get("architectures") or ()), None)
    context = facts.get("max_position_embeddings")
    return Checkpoint(
        folder=str(folder),
        sha256=_weights_hash(weights),
        revision=revision,
        context=context,
        architecture=architecture,
        tokenizer_sha256=tokenizer_hash(folder),
        template_sha256=template_hash(chat_template(folder)),
        files_sha256=_files_hash(folder),
    )


def tokenizer_hash(folder: Path) -> str | None:
    """SHA-256 of a folder's tokenizer; None where it has none."""
    path = folder / "tokenizer.json"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def template_hash(text: str | None) -> str | None:
    """SHA-256 of a chat template's text, whatever blanks end it."""
    return None if text is None else hashlib.sha256(text.rstrip().encode()).hexdigest()


def _files_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for name in BESIDE_WEIGHTS for path in folder.glob(name)):
        digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def check_unchanged(checkpoint: Checkpoint, source: str) -> None:
    """The folder is what it was when the comparison began: engines that load other files are not compared. Raises
    ConfigError."""
    now = _described(Path(checkpoint.folder), checkpoint.revision, source)
    parts = {
        "the weights (*.safetensors)": (checkpoint.sha256, now.sha256),
        "the tokenizer (tokenizer.json)": (checkpoint.tokenizer_sha256, now.tokenizer_sha256),
        "the chat template": (checkpoint.template_sha256, now.template_sha256),
        "settings beside the weights (*.json)": (checkpoint.files_sha256, now.files_sha256),
    }
    changed = next((f"{name}, sha256 {was} -> {here}" for name, (was, here) in parts.items() if was != here), None)
    if changed:
        raise ConfigError(
            f"{source}: checkpoint: {checkpoint.folder} changed since the first engine was planned: {changed}; "
            "put the files back and --resume, or start anew"
        )


def _weights_hash(weights: list[Path]) -> str:
    """SHA-256 over names and contents; kept, by size and times of change, since large files take long."""
    found = [(path.resolve(), path.stat()) for path in weights]
    stamps = [f"{path}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}" for path, stat in found]
    key = hashlib.sha256("\n".join(stamps).encode()).hexdigest()
    kept = cache_folder() / "hashes" / key
    if kept.exists():
        return kept.read_text("utf-8")
    digest = hashlib.sha256()
    for path in weights:
        with path.open("rb") as file:
            digest.update(path.name.encode() + hashlib.file_digest(file, "sha256").digest())
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(digest.hexdigest(), encoding="utf-8")
    return digest.hexdigest()
