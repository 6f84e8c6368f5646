"""Vocabularies as others publish them: `tokenizer.json`, or GPT-2's vocabulary and merges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Pipeline
from tokenizers.models import BPE

from transformulary.errors import TokenError
from transformulary.files import read_text
from transformulary.tokens.kinds import GPT2_PIECE, byte_level
from transformulary.tokens.library import library

#: GPT-2's two files, as the transformers library and as OpenAI call them.
GPT2_FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
GPT2_SPECIAL = "<|endoftext|>"

Special = dict[str, str]


def read(path: Path, own: Special) -> tuple[Pipeline, Special]:
    """The pipeline in a folder or `tokenizer.json`, and how its special tokens are spelled.

    Which tokens are special is said by `tokenizer_config.json`; without that file by the format: GPT-2's two files have
    <|endoftext|>, which both begins and ends a text, and a `tokenizer.json` that was trained here has those of `own`.

    Raises:
        TokenError: there is no such file, or it is not what its name says.
    """
    folder = path if path.is_dir() else path.parent
    file = path / "tokenizer.json" if path.is_dir() else path
    if file.is_file():
        pipeline, special = read_pipeline(file), own
    else:
        pair = next((pair for pair in GPT2_FILES if all((folder / name).is_file() for name in pair)), None)
        if pair is None or not path.is_dir():
            raise TokenError(
                f"there is no tokenizer at {path}: neither a tokenizer.json nor a vocab.json with merges.txt."
            )
        pipeline, special = read_gpt2(*(folder / name for name in pair))
    return pipeline, named(folder / "tokenizer_config.json", pipeline, special)


def read_pipeline(file: Path) -> Pipeline:
    """A `tokenizer.json`."""
    content = read_text(file)
    with library(lambda why: TokenError(f"{file} is no tokenizer: {why}")):
        return Pipeline.from_str(content)


def read_gpt2(vocabulary: Path, merges: Path) -> tuple[Pipeline, Special]:
    """Byte-pair encoding with GPT-2's pieces, from a vocabulary (token -> id) and a list of merges."""
    what = f"{vocabulary} and {merges.name} are no vocabulary and merges of byte pairs"
    with library(lambda why: TokenError(f"{what}: {why}")):
        pipeline = byte_level(BPE.from_file(str(vocabulary), str(merges)), GPT2_PIECE)
    if pipeline.token_to_id(GPT2_SPECIAL) is None:
        return pipeline, {}
    pipeline.add_special_tokens([AddedToken(GPT2_SPECIAL, normalized=False, special=True)])
    return pipeline, {"bos_token": GPT2_SPECIAL, "eos_token": GPT2_SPECIAL}


def named(file: Path, pipeline: Pipeline, special: Special) -> Special:
    """The special tokens that a `tokenizer_config.json` names; without that file those of `special` that there are."""
    if not file.is_file():
        return {role: token for role, token in special.items() if pipeline.token_to_id(token) is not None}
    try:
        config: dict[str, Any] = dict(json.loads(read_text(file)))
    except (ValueError, TypeError) as error:
        raise TokenError(f"{file} is no JSON object: {error}") from None
    found = {}
    for role in ("mask_token", "bos_token", "eos_token"):
        token = config.get(role)
        token = token.get("content") if isinstance(token, dict) else token
        if token is not None and pipeline.token_to_id(str(token)) is None:
            raise TokenError(f"{file} names {role} {token!r}, and the vocabulary beside it has no such token.")
        if token is not None:
            found[role] = str(token)
    return found
