"""Vocabularies as others publish them, by the files that they are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Pipeline
from tokenizers.decoders import WordPiece as WordPieceDecoder
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel
from tokenizers.processors import RobertaProcessing, TemplateProcessing

from transformulary.errors import TokenError
from transformulary.files import read_text
from transformulary.tokens.kinds import GPT2_PIECE, byte_level
from transformulary.tokens.library import library

if TYPE_CHECKING:
    from transformulary.tokens.tokenizer import Tokenizer

#: How their files name what a special token is for; the paper's three first.
ROLES = ("mask_token", "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token")
Config = Mapping[str, Any]
Special = dict[str, str]


class Unread(TokenError):
    """There is a vocabulary, and nobody knows how its files give the ids of the model."""


@dataclass(frozen=True)
class Family:
    """One kind of vocabulary.

    files    that it is made of
    classes  what tokenizer_config.json may call it; empty is anything
    read     (the files, tokenizer_config.json) -> the tokenizer
    """

    files: tuple[str, ...]
    classes: frozenset[str]
    read: Callable[[list[Path], Config], Tokenizer]


def load(path: Path) -> Tokenizer:
    """The tokenizer in a folder, or in the tokenizer.json that `path` is.

    Raises:
        Unread: its tokenizer_class is another than the one that we know to be made of these files.
        TokenError: there is none, or a file is not what its name says.
        MissingExtra: it needs the sentencepiece package.
    """
    folder = path if path.is_dir() else path.parent
    family = family_in(folder) if path.is_dir() else FAMILIES[0]
    if family is None or not path.exists():
        known = ", ".join(" + ".join(family.files) for family in FAMILIES)
        raise TokenError(f"there is no tokenizer at {path}: it would be one of {known}.")
    config = settings(folder)
    name = str(config.get("tokenizer_class") or "").removesuffix("Fast")
    if name and family.classes and name not in family.classes:
        raise Unread(
            f"{folder} has a {name}, and {' + '.join(family.files)} are read as {', '.join(sorted(family.classes))} "
            f"only. Its tokenizer.json, which `transformers` writes, is read exactly."
        )
    files = [folder / name for name in family.files] if path.is_dir() else [path]
    return family.read(files, config)


def family_in(folder: Path) -> Family | None:
    """The first kind of vocabulary whose files a folder has."""
    return next((f for f in FAMILIES if all((folder / name).is_file() for name in f.files)), None)


def settings(folder: Path) -> dict[str, Any]:
    """What stands beside a vocabulary: tokenizer_config.json, with older files and the chat template put into it."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        found |= table(folder / name)
    _check(folder, found)
    added = {str(i): {"content": token} for token, i in table(folder / "added_tokens.json").items()}
    _check(folder, {"added_tokens_decoder": added})
    found["added_tokens_decoder"] = added | (found.get("added_tokens_decoder") or {})
    if (template := folder / "chat_template.jinja").is_file():
        found["chat_template"] = read_text(template)
    return found


def _check(folder: Path, config: Config) -> None:
    """Raises TokenError where a value in the files beside a vocabulary is of another kind than its name says."""
    for name, value in config.items():
        due, right = KINDS.get(name, ("", lambda _: True))
        if not right(value):
            raise TokenError(f"{folder}: {name} = {value!r} of its tokenizer is no {due}. It is in a .json file there.")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def _is_token(value: Any) -> bool:
    return _is_text(value.get("content") if isinstance(value, dict) else value)


def _is_added(value: Any) -> bool:
    """Whether this is {"id": {"content": how it is spelled, and what it is besides}}."""
    return isinstance(value, dict) and all(
        re.fullmatch("[0-9]{1,9}", i)
        and isinstance(token, dict)
        and _is_token(token)
        and all(name == "content" or (name in ADDED and isinstance(about, bool)) for name, about in token.items())
        for i, token in value.items()
    )


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


def _or_null(right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or right(value)


#: What an added token may be said to be.
ADDED = frozenset({"single_word", "lstrip", "rstrip", "normalized", "special"})
#: Of what kind the values are that we read: in words, and as a test.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(ROLES, ("token", _or_null(_is_token))),
    **dict.fromkeys(("do_lower_case", "tokenize_chinese_chars"), ("truth", _is_truth)),
    **dict.fromkeys(
        ("strip_accents", "add_prefix_space", "add_bos_token", "add_eos_token"), ("truth", _or_null(_is_truth))
    ),
    "added_tokens_decoder": ("table of ids and tokens", _or_null(_is_added)),
    "extra_ids": ("number below 10,000", lambda value: type(value) is int and 0 <= value < 10_000),
}


def table(file: Path) -> dict[str, Any]:
    """The JSON object in a file, empty if there is none.  Raises TokenError where it is something else."""
    if not file.is_file():
        return {}
    try:
        return dict(json.loads(read_text(file)))
    except (ValueError, TypeError) as error:
        raise TokenError(f"{file} is no JSON object: {error}") from None


def named(config: Config, own: Special, ids: Callable[[str], int | None]) -> Special:
    """How special tokens are spelled, by their roles: as the config says; if it says nothing, those of `own` there are.

    Raises TokenError where the vocabulary lacks one of the three that the paper has.
    """
    said = {role: config[role] for role in ROLES if config.get(role) is not None}
    said = {role: str(token["content"] if isinstance(token, dict) else token) for role, token in said.items()}
    if not any(role in config for role in ROLES):
        return {role: token for role, token in own.items() if ids(token) is not None}
    if lost := [role for role in ROLES[:3] if role in said and ids(said[role]) is None]:
        raise TokenError(
            f"tokenizer_config.json names {lost[0]} {said[lost[0]]!r}, and the vocabulary has no such token."
        )
    return {role: token for role, token in said.items() if ids(token) is not None}


def template(config: Config) -> str | None:
    """The chat template that a config holds; of several the one called default."""
    given = config.get("chat_template")
    if isinstance(given, list):
        given = next(
            (one.get("template") for one in given if isinstance(one, dict) and one.get("name") == "default"), None
        )
    return given if isinstance(given, str) else None


def read_pipeline(files: list[Path], config: Config) -> Tokenizer:
    """A `tokenizer.json`."""
    from transformulary.tokens.tokenizer import SPECIAL

    content = read_text(files[0])
    with library(lambda why: TokenError(f"{files[0]} is no tokenizer: {why}")):
        pipeline = Pipeline.from_str(content)
    return _made(pipeline, config, {} if "tokenizer_class" in config else SPECIAL)


def read_bytepairs(files: list[Path], config: Config) -> Tokenizer:
    """GPT-2's vocabulary (token -> id) and merges, or RoBERTa's, which has <s>, </s> and <mask>."""
    what = f"{files[0]} and {files[1].name} are no vocabulary and merges of byte pairs"
    space = bool(config.get("add_prefix_space"))
    with library(lambda why: TokenError(f"{what}: {why}")):
        pieces = ByteLevel(add_prefix_space=True) if space else GPT2_PIECE
        pipeline = byte_level(BPE.from_file(*map(str, files)), pieces)
    if pipeline.token_to_id(END_OF_TEXT) is not None:
        return _made(pipeline, config, dict.fromkeys(("bos_token", "eos_token", "unk_token"), END_OF_TEXT))
    made = _made(pipeline, config, ROBERTA)
    begin, end = pipeline.token_to_id("<s>"), pipeline.token_to_id("</s>")
    if begin is not None and end is not None:
        pipeline.post_processor = RobertaProcessing(("</s>", end), ("<s>", begin), add_prefix_space=space)
    return made


def read_wordpiece(files: list[Path], config: Config) -> Tokenizer:
    """BERT's vocab.txt, one token a line: words are cut at signs, then into the longest pieces that there are."""
    lines = read_text(files[0]).split("\n")
    tokens = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if twice := [token for i, token in enumerate(tokens) if vocabulary[token] != i]:
        first, last = tokens.index(twice[0]) + 1, vocabulary[twice[0]] + 1
        raise TokenError(
            f"{files[0]} has {twice[0]!r} in lines {first} and {last}: which id is meant is anyone's guess."
        )
    special = BERT | {role: token for role, token in named(config, {}, vocabulary.get).items() if role in BERT}
    if lost := [token for token in special.values() if token not in vocabulary]:
        raise TokenError(f"{files[0]} is no vocabulary of BERT: it has no {lost[0]}.")
    pipeline = Pipeline(WordPiece(vocabulary, unk_token=special["unk_token"]))
    pipeline.normalizer = BertNormalizer(
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        strip_accents=config.get("strip_accents"),
        lowercase=config.get("do_lower_case", True),
    )
    pipeline.pre_tokenizer, pipeline.decoder = BertPreTokenizer(), WordPieceDecoder()
    begin, end = special["cls_token"], special["sep_token"]
    pipeline.post_processor = TemplateProcessing(
        single=f"{begin}:0 $A:0 {end}:0",
        pair=f"{begin}:0 $A:0 {end}:0 $B:1 {end}:1",
        special_tokens=[(token, vocabulary[token]) for token in (begin, end)],
    )
    return _made(pipeline, config, special)


END_OF_TEXT = "<|endoftext|>"
ROBERTA = {"bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>", "unk_token": "<unk>", "pad_token": "<pad>"}
BERT = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}


def _made(pipeline: Pipeline, config: Config, own: Special) -> Tokenizer:
    """The tokenizer of a pipeline, with the special tokens that its files name."""
    from transformulary.tokens.tokenizer import Tokenizer

    for i, token in sorted((int(i), token) for i, token in config["added_tokens_decoder"].items()):
        about = {name: bool(value) for name, value in token.items() if name != "content"}
        pipeline.add_tokens([AddedToken(token["content"], **{"normalized": False, "special": True} | about)])
        if pipeline.token_to_id(token["content"]) != i:
            raise TokenError(f"{token['content']!r} was added as {i}, and the vocabulary has another token there.")
    special = named(config, own, pipeline.token_to_id)
    known = {token.content for token in pipeline.get_added_tokens_decoder().values()}
    new = sorted(set(special.values()) - known)
    pipeline.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in new])
    return Tokenizer(pipeline, special, template(config))


def sentencepiece(name: str) -> Callable[[list[Path], Config], Tokenizer]:
    """The reader of that name in `pieces`, which is imported when it is used."""

    def read(files: list[Path], config: Config) -> Tokenizer:
        from transformulary.tokens import pieces

        return getattr(pieces, name)(files, config)  # type: ignore[no-any-return]

    return read


BYTE_PAIRS = frozenset({"GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer"})
#: In the order of preference.
FAMILIES = (
    Family(("tokenizer.json",), frozenset(), read_pipeline),
    Family(("vocab.json", "merges.txt"), BYTE_PAIRS, read_bytepairs),
    Family(("encoder.json", "vocab.bpe"), BYTE_PAIRS, read_bytepairs),
    Family(("source.spm", "target.spm", "vocab.json"), frozenset({"MarianTokenizer"}), sentencepiece("read_marian")),
    Family(("spiece.model",), frozenset({"T5Tokenizer"}), sentencepiece("read_t5")),
    Family(("tokenizer.model",), frozenset({"LlamaTokenizer"}), sentencepiece("read_llama")),
    Family(("vocab.txt",), frozenset({"BertTokenizer"}), read_wordpiece),
)
