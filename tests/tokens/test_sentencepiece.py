"""SentencePiece vocabularies: the ids of the package itself, from its files and from a GGUF file."""

import io
import json

import pytest
import transformers

from tokens.texts import LEARNED, unicode_texts
from transformulary.errors import MissingExtra, TokenError
from transformulary.tokens import Stream, Tokenizer

sentencepiece = pytest.importorskip("sentencepiece")

LLAMA = {
    "model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "vocab_size": 420,
    "remove_extra_whitespaces": False, "unk_id": 0, "bos_id": 1, "eos_id": 2,
}  # fmt: skip
T5 = {"model_type": "unigram", "vocab_size": 150, "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


def model(seed=0, **settings):
    """The bytes of a model learned from a few lines."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LEARNED[seed:] * 5), model_writer=content, hard_vocab_limit=False, minloglevel=2,
        **settings,
    )  # fmt: skip
    return content.getvalue()


@pytest.fixture(scope="module")
def llama():
    return model(**LLAMA)


@pytest.fixture(scope="module")
def t5():
    return model(**T5)


def test_llama(tmp_path, llama):
    """tokenizer.model gives the package's ids; and bos_token frames a text."""
    (tmp_path / "tokenizer.model").write_bytes(llama)
    theirs, ours = sentencepiece.SentencePieceProcessor(model_proto=llama), Tokenizer.load(tmp_path)

    assert (ours.bos_token, ours.eos_token, ours.mask_token, ours.N_V) == (1, 2, None, theirs.get_piece_size())
    for text in unicode_texts(500):
        ids = theirs.encode(text)
        assert ours.encode(text) == ids, ascii(text)
        assert ours.decode(ids) == theirs.decode(ids)
        assert ours.framed(text).ids == [1, *ids]


def test_t5(tmp_path, t5):
    """spiece.model has a hundred tokens more, and eos_token ends a text; on ordinary text as `transformers` has it."""
    (tmp_path / "spiece.model").write_bytes(t5)
    package, ours = sentencepiece.SentencePieceProcessor(model_proto=t5), Tokenizer.load(tmp_path)
    size = package.get_piece_size()

    assert (ours.eos_token, ours.bos_token, ours.N_V) == (1, None, size + 100)
    assert ours.encode("<extra_id_0>", special=True) == [size + 99]
    assert ours.decode([size, size + 99, 1]) == "<extra_id_99><extra_id_0></s>"
    for text in unicode_texts(500):
        assert ours.encode(text) == package.encode(text), ascii(text)
        assert ours.framed(text).ids == [*package.encode(text), 1]


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    """Two languages with one table of ids, shuffled, which lacks some pieces of each."""
    folder = tmp_path_factory.mktemp("marian")
    models = {f"{side}.spm": model(seed, **T5 | {"vocab_size": 120}) for side, seed in (("source", 0), ("target", 1))}
    names = {">>fra<<": 0, "</s>": 1, "<unk>": 2}
    for name, content in models.items():
        (folder / name).write_bytes(content)
        package = sentencepiece.SentencePieceProcessor(model_proto=content)
        for i in range(3, package.get_piece_size(), 1 + (name == "source")):
            names.setdefault(package.id_to_piece(i), len(names))
    (folder / "vocab.json").write_text(json.dumps(names | {"<pad>": len(names)}))
    return folder


@pytest.mark.filterwarnings("ignore:Recommended")
def test_marian(marian):
    """source.spm cuts, vocab.json counts; a language code begins a text; eos_token ends it."""
    theirs, ours = transformers.MarianTokenizer.from_pretrained(marian), Tokenizer.load(marian)

    assert ours.eos_token == 1
    for text in unicode_texts(500):
        for begun in (text, f">>fra<<{text}"):
            ids = theirs.encode(begun, add_special_tokens=False)
            assert ours.encode(begun) == ids, ascii(begun)
            assert ours.framed(begun).ids == [*ids, 1]
    for text in LEARNED:
        ids = ours.encode(text)
        assert ours.decode(ids).strip() == theirs.decode(ids)


@pytest.mark.parametrize("kind", ["llama", "t5", "marian"])
def test_saved_and_streamed(tmp_path, marian, llama, t5, kind):
    """Saved elsewhere it is the same; the pieces of a stream are together the text."""
    for name, content in {"llama": {"tokenizer.model": llama}, "t5": {"spiece.model": t5}, "marian": {}}[kind].items():
        (tmp_path / name).write_bytes(content)
    ours = Tokenizer.load(marian if kind == "marian" else tmp_path)
    ours.save(tmp_path / "again")
    again = Tokenizer.load(tmp_path / "again")

    assert (ours.hash, ours.N_V, ours.special) == (again.hash, again.N_V, again.special)
    for text in unicode_texts(100):
        ids, stream = ours.encode(text), Stream(again)
        assert ids == again.encode(text)
        assert "".join(map(stream.push, ids)) + stream.rest() == ours.decode(ids), ascii(text)


def test_control_tokens_in_a_text(tmp_path, llama):
    """What spells a control token is text, unless it is asked for; `decode` spells them out."""
    (tmp_path / "tokenizer.model").write_bytes(llama)
    ours = Tokenizer.load(tmp_path)

    assert not {1, 2} & set(ours.encode("a</s>b<s>"))
    assert [2, 1] == [i for i in ours.encode("a</s>b<s>", special=True) if i in (1, 2)]
    assert ours.decode([1, *ours.encode("a b"), 2, *ours.encode("c")]) == "<s> a b</s> c"


def test_added_tokens(tmp_path, llama):
    """Tokens that the config adds after the model's own."""
    (tmp_path / "tokenizer.model").write_bytes(llama)
    size = Tokenizer.load(tmp_path).N_V
    added = {"added_tokens_decoder": {str(size): {"content": "<|im_end|>"}}, "eos_token": "<|im_end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(added))

    ours = Tokenizer.load(tmp_path)

    assert (ours.N_V, ours.eos_token) == (size + 1, size)
    assert [size] == ours.encode("<|im_end|>", special=True)


def gguf(content, **changes):
    """What a GGUF file says of a SentencePiece vocabulary."""
    package = sentencepiece.SentencePieceProcessor(model_proto=content)
    kinds = [("is_unknown", 2), ("is_control", 3), ("is_unused", 5), ("is_byte", 6)]
    size = range(package.get_piece_size())
    return {
        "model": "llama", "tokens": [package.id_to_piece(i) for i in size],
        "scores": [package.get_score(i) for i in size], "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0,
        "token_type": [next((k for name, k in kinds if getattr(package, name)(i)), 1) for i in size], **changes,
    }  # fmt: skip


def test_inside_gguf(tmp_path, llama):
    """Tokens, scores and types of a GGUF file are the whole vocabulary: its ids are the package's."""
    theirs, ours = sentencepiece.SentencePieceProcessor(model_proto=llama), Tokenizer.from_gguf(gguf(llama))

    assert (ours.bos_token, ours.eos_token) == (1, 2)
    for text in unicode_texts(500):
        ids = theirs.encode(text)
        assert ours.encode(text) == ids, ascii(text)
        assert ours.decode(ids) == theirs.decode(ids)
    ours.save(tmp_path)
    assert Tokenizer.load(tmp_path).hash == ours.hash


def test_no_space_before(llama):
    """A GGUF file may say that no space is put before a text."""
    ours = Tokenizer.from_gguf(gguf(llama, add_space_prefix=False))

    assert ours.decode(ours.encode(" the best")) == " the best"
    assert ours.encode(" the best") == Tokenizer.from_gguf(gguf(llama)).encode("the best")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": None}, "has no score"), ({"scores": [1.0]}, "has no score"),
        ({"token_type": [1]}, "without a type"), ({"tokens": ["a", "a"]}, "has tokens twice"),
    ],
)  # fmt: skip
def test_a_damaged_one(llama, changes, message):
    """A vocabulary that lacks a part is refused."""
    with pytest.raises(TokenError, match=message):
        Tokenizer.from_gguf(gguf(llama) | changes)


@pytest.mark.parametrize("content", [b"", b"\x00", b"x" * 1000, b"\x0a\xff\xff\xff\xff\x0f"])
def test_no_model(tmp_path, content):
    """What is no SentencePiece model, or is cut short, is one line."""
    (tmp_path / "tokenizer.model").write_bytes(content)

    with pytest.raises(TokenError, match="this is no SentencePiece model"):
        Tokenizer.load(tmp_path)


def test_without_the_package(tmp_path, llama, monkeypatch):
    """The message is what to install."""
    (tmp_path / "tokenizer.model").write_bytes(llama)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(MissingExtra, match=r"pip install 'transformulary\[sentencepiece\]'"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("kind", ["llama", "t5", "marian"])
def test_a_token_alone(tmp_path, marian, llama, t5, kind):
    """Tokens one by one have the spaces between words, and before the first; what cannot be spelled has its token."""
    for name, content in {"llama": {"tokenizer.model": llama}, "t5": {"spiece.model": t5}, "marian": {}}[kind].items():
        (tmp_path / name).write_bytes(content)
    ours = Tokenizer.load(marian if kind == "marian" else tmp_path)
    ids = [i for i in ours.encode(LEARNED[0]) if i != ours.unk_token]

    assert ours.decode(ids) == "".join(map(ours.spelled, ids)).removeprefix(" ")
    assert " " == ours.spelled(ids[0])[:1]
    assert {"llama": 0, "t5": 2, "marian": 2}[kind] == ours.unk_token
