"""What is measured of a model is what a plain loop over the oracle gives."""

import copy
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from encode.models import saved
from generate.answering import LINES, save_marian
from nn.models import config, model
from transformulary import (
    DTransformerConfig,
    EDTransformerConfig,
    cli,
    evaluate,
    load,
    measure,
    models,
    oracle,
    translate,
)
from transformulary.conform.theta import theta_of
from transformulary.data import corpus
from transformulary.errors import CheckpointError, ConfigError, DataError
from transformulary.generate.translation import answer_defaults
from transformulary.measure import Measured, similarity
from transformulary.tokens import Tokenizer
from transformulary.train import evaluate as held_out

TEXT = "the cat sat on the mat, äh, and the dog ran to the cat. "
SENTENCES = ["the cat sat on a mat and a dog ran", "a cat", "the mat and the dog and the cat sat on the dog and ran"]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A small model in float64 of a vocabulary with bos_token and eos_token."""
    folder = tmp_path_factory.mktemp("decoder")
    tokenizer = Tokenizer.train("characters", [TEXT])
    fast = model(config(DTransformerConfig, N_V=tokenizer.N_V, absent=(), tied=True, eps=1e-5))
    models.save(folder, fast, tokenizer)
    return load(folder)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load(saved(tmp_path_factory.mktemp("encoder"), "fill"))


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    return load(save_marian(tmp_path_factory.mktemp("marian"), num_beams=2))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    about = {"id2label": {"0": "joy", "1": "anger", "2": "fear"}}
    return load(saved(tmp_path_factory.mktemp("classifier"), "classify", **about))


def test_decoder_by_the_oracle(decoder):
    """Every token after the first is predicted once, by a window that ends with it or holds it, of `context` tokens."""
    c, theta = decoder.model.config, theta_of(decoder.model)
    x = [decoder.tokenizer.bos_token, *decoder.tokenizer.encode(TEXT), decoder.tokenizer.eos_token]
    for context, stride in [(9, 9), (9, 4), (7, 1), (5, 3)]:
        nats, correct = 0.0, 0
        for t in range(1, len(x)):
            windows = -(-max(0, t - context) // stride)  # those that begin, and end before t
            P = oracle.DTransformer(x[windows * stride : t], theta, c)
            nats -= math.log(P[x[t], -1])
            correct += int(P[:, -1].argmax()) == x[t]

        found = evaluate(decoder, [TEXT], context=context, stride=stride, batch=3)

        assert (len(x) - 1, correct, len(TEXT.encode())) == (found.n, found.correct, found.bytes)
        assert nats == pytest.approx(found.nats, rel=1e-12)
        assert found.perplexity == pytest.approx(math.exp(nats / found.n), rel=1e-12)
        assert found.nats_per_byte == pytest.approx(nats / len(TEXT.encode()), rel=1e-12)


def test_chunks_are_what_training_measures(decoder):
    """Without overlap it is the loss that `train` reports of held-out text, here of two texts."""
    texts = [TEXT, "the dog"]

    found = evaluate(decoder, texts)

    theirs = held_out(decoder.model, corpus(texts, decoder.tokenizer, 0.0).training, decoder.tokenizer)
    assert (theirs.tokens, theirs.nats_per_token) == (found.n, pytest.approx(found.nats_each, rel=1e-12))


def test_a_first_token_without_one_before_it(decoder, tmp_path):
    """Where the vocabulary has no bos_token the first token is not predicted, and its bytes do not count."""
    tokenizer = Tokenizer.train("characters", [TEXT])
    tokenizer = Tokenizer(tokenizer.pipeline, {})
    models.save(tmp_path, decoder.model, tokenizer)

    found = evaluate(load(tmp_path), ["ät"])

    assert (found.n, found.bytes) == (1, 1)


@pytest.mark.parametrize("context", [12, 6])
def test_encoder_by_the_oracle(encoder, context):
    """Each token is hidden in turn, in pieces of a text with [CLS] before and [SEP] after."""
    c, theta, tokenizer = encoder.model.config, theta_of(encoder.model), encoder.tokenizer
    nats, n, correct = 0.0, 0, 0
    for text in SENTENCES:
        ids = tokenizer.encode(text)
        for start in range(0, len(ids), context - 2):
            row = [2, *ids[start : start + context - 2], 3]
            for t in range(1, len(row) - 1):
                P = oracle.ETransformer([*row[:t], 4, *row[t + 1 :]], theta, c, [0] * len(row))
                nats, n = nats - math.log(P[row[t], t]), n + 1
                correct += int(P[:, t].argmax()) == row[t]

    found = evaluate(encoder, SENTENCES, context=context)

    assert (n, correct, 0, None) == (found.n, found.correct, found.bytes, found.nats_per_byte)
    assert nats == pytest.approx(found.nats, rel=1e-11)


def test_encoder_decoder_by_the_oracle(marian):
    """Every token of a target, its end included, after those before it; unequal lengths make no difference."""
    c, theta, tokenizer = marian.model.config, theta_of(marian.model), marian.tokenizer
    begin, nats, n = answer_defaults(marian).frame.bos_token, 0.0, 0
    for source, target in zip(LINES, reversed(LINES), strict=True):
        y = tokenizer.answer(target)
        P = oracle.EDTransformer(tokenizer.framed(source).ids, [begin, *y[:-1]], theta, c)
        nats -= float(np.log(P[y, range(len(y))]).sum())
        n += len(y)

    found = evaluate(marian, LINES, LINES[::-1], batch=3)

    assert (n, sum(map(len, LINES))) == (found.n, found.bytes)
    assert nats == pytest.approx(found.nats, rel=1e-11)


def test_targets_of_a_tokenizer_that_ends_nothing(tmp_path):
    """Of an answer that the tokenizer does not end the end is predicted all the same; of an empty one it alone is."""
    tokenizer = Tokenizer.train("characters", [TEXT])
    c = config(EDTransformerConfig, N_V=tokenizer.N_V)
    models.save(tmp_path, model(c), tokenizer)
    loaded, begin, end = load(tmp_path), tokenizer.bos_token, tokenizer.eos_token
    nats = 0.0
    for target in ("a cat", ""):
        y = [*tokenizer.encode(target), end]
        P = oracle.EDTransformer(tokenizer.encode("the"), [begin, *y[:-1]], theta_of(loaded.model), c)
        nats -= float(np.log(P[y, range(len(y))]).sum())

    found = evaluate(loaded, ["the", "the"], ["a cat", ""])

    assert (7, nats) == (found.n, pytest.approx(found.nats, rel=1e-11))


def test_an_empty_target_that_nothing_ends(tmp_path):
    """Where no token ends an answer, an empty one has nothing to predict."""
    tokenizer = Tokenizer.train("characters", [TEXT])
    tokenizer = Tokenizer(tokenizer.pipeline, {})
    models.save(tmp_path, model(config(EDTransformerConfig, N_V=tokenizer.N_V)), tokenizer, {"bos_token_id": 0})

    with pytest.raises(DataError, match=r"^target 2 is empty, and no token ends an answer"):
        evaluate(load(tmp_path), ["a", "a"], ["a", ""])


def test_classes(classifier):
    """A class is right if it is the answer, by its name or its number; the nats are those of the right one."""
    with torch.no_grad():
        rows = [classifier.tokenizer.framed(text).ids for text in SENTENCES[:2]]
        p = [
            classifier.model(torch.tensor([x]), torch.zeros(1, len(x), dtype=torch.int64)).softmax(-1)[0] for x in rows
        ]
    best = int(p[0].argmax())
    other = (best + 1) % 3

    found = evaluate(classifier, SENTENCES[:2], [["joy", "anger", "fear"][best], str(other)])

    assert found.correct == 1 + (int(p[1].argmax()) == other)
    assert -float(p[0][best].log() + p[1][other].log()) == pytest.approx(found.nats, rel=1e-12)


def test_bleu_and_chrf():
    """They are sacrebleu's, with its signatures; what is the same scores 100."""
    pytest.importorskip("sacrebleu")
    lines = ["the cat sat on the mat there", "a dog ran to the other dog"]

    same, other = similarity(lines, lines), similarity(lines, ["the cat sat on a mat there", "a dog"])

    assert [("BLEU", 100), ("chrF", 100)] == [(one.name, pytest.approx(one.score)) for one in same]
    assert all(0 < one.score < 100 for one in other)
    assert same[0].signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


@pytest.mark.parametrize(
    ("kind", "words", "error", "message"),
    [
        ("decoder", {"texts": [""]}, DataError, "the text has no token that comes after another"),
        ("decoder", {"context": 10}, ConfigError, r"context = 10 is outside \[1, 9\]"),
        ("marian", {"texts": []}, DataError, "there are no texts: the file is empty"),
        ("decoder", {"stride": 0}, ConfigError, r"stride = 0 is outside \[1, 9\]"),
        ("decoder", {"batch": 0}, ConfigError, "batch = 0"),
        ("decoder", {"answers": ["a"]}, DataError, ".* holds a .*, and the texts themselves"),
        ("encoder", {"texts": [""]}, DataError, "the text has no tokens but special ones"),
        ("encoder", {"context": 2}, ConfigError, "context = 2: the 2 special tokens"),
        ("encoder", {"stride": 2}, ConfigError, "stride = 2: only what a decoder reads"),
        (
            "marian",
            {},
            DataError,
            ".* holds a marian, which needs an answer for each text: --sources FILE --targets FILE",
        ),
        ("marian", {"answers": ["a", "b"]}, DataError, "there are 1 sources and 2 targets"),
        ("marian", {"answers": ["a"], "context": 3}, ConfigError, "context = 3: what needs an answer is read whole"),
        ("classifier", {}, DataError, ".* which needs the class of each text: --labels FILE"),
        ("classifier", {"answers": [3]}, DataError, "label 1 is 3"),
        ("classifier", {"answers": [-1]}, DataError, "label 1 is -1"),
        ("classifier", {"answers": ["envy"]}, DataError, "label 1 is 'envy', which is no class.*: joy, anger, fear"),
        ("classifier", {"answers": ["3"]}, DataError, "label 1 is '3'"),
        ("classifier", {"answers": ["9" * 5000]}, DataError, "label 1 is '9+', which is no class"),
        ("classifier", {"answers": ["0", "0"]}, DataError, "there are 1 texts and 2 labels"),
    ],
)
def test_bad_input(request, kind, words, error, message):
    """What cannot be measured is said in one line."""
    with pytest.raises(error, match=f"^{message}"):
        evaluate(request.getfixturevalue(kind), **{"texts": ["a"]} | words)


def test_a_label_of_two_classes(tmp_path):
    """A name that two classes have, or that is the number of another, is refused; what means one class is taken."""
    names = {"id2label": {"0": "1", "1": "b", "2": "b"}}
    ambiguous = load(saved(tmp_path, "classify", **names))

    assert evaluate(ambiguous, ["a", "a"], ["0", "2"]).n == 2
    for label, classes in (("1", "0, 1"), ("b", "1, 2")):
        with pytest.raises(
            DataError, match=rf"^label 1 is '{label}', which is the name .* several classes, {classes}:"
        ):
            evaluate(ambiguous, ["a"], [label])


def test_a_class_is_its_name_or_its_number(classifier):
    """Numbers may be text or not."""
    texts = [*SENTENCES[:2], "the mat"]

    by_name = evaluate(classifier, texts, ["joy", "fear", "anger"])

    assert by_name == evaluate(classifier, texts, ["0", "2", "1"]) == evaluate(classifier, texts, [0, 2, 1])


def test_vectors_are_not_evaluated(tmp_path):
    """A model of vectors says nothing that could be right."""
    with pytest.raises(CheckpointError, match="gives vectors; `evaluate` needs an encoder"):
        evaluate(load(saved(tmp_path, "embed")), ["a"])


@pytest.mark.parametrize(
    ("kind", "answers", "what"),
    [
        ("decoder", [], "the nats of a token"),
        ("marian", ["a"], "the nats of a token"),
        ("encoder", [], "a probability"),
    ],
)
def test_damaged_parameters(request, kind, answers, what):
    """What is no number is not measured, and not added to what is."""
    whole = request.getfixturevalue(kind)
    damaged = replace(whole, model=copy.deepcopy(whole.model))
    with torch.no_grad():
        damaged.model.W_e.weight.fill_(torch.nan)

    with pytest.raises(CheckpointError, match=f"^the model gives nan as {what}: it is damaged"):
        evaluate(damaged, ["a cat"], answers)


def test_an_infinite_number_is_null(decoder, tmp_path, monkeypatch, capsys):
    """JSON has no infinity: e to the power of a thousand is none of its numbers."""
    (tmp_path / "a.txt").write_text(TEXT)
    monkeypatch.setattr(measure, "evaluate", lambda *_, **__: Measured("tokens", 2, 2000.0, 1))

    told = json.loads(run(capsys, decoder.described.source.folder, tmp_path / "a.txt", "--json"))

    assert (1000, None) == (told["nats_each"], told["perplexity"])


def run(capsys, *words):
    """What the command prints."""
    assert cli.main(["evaluate", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_command_of_a_decoder(decoder, tmp_path, capsys):
    """A file is a text; the table and the object have the numbers that Python has."""
    (tmp_path / "a.txt").write_text(TEXT)
    words = [decoder.described.source.folder, tmp_path / "a.txt", "--context", "8", "--stride", "2"]
    right = evaluate(decoder, [TEXT], context=8, stride=2)

    told = json.loads(run(capsys, *words, "--json"))
    shown = run(capsys, *words)

    assert {"what": "tokens", "n": right.n, "bytes": right.bytes} == {key: told[key] for key in ("what", "n", "bytes")}
    assert (right.nats_each, right.perplexity) == (told["nats_each"], told["perplexity"])
    assert [line.split()[-1] for line in shown.splitlines()] == [
        str(right.n), f"{right.nats_each:.4f}", f"{right.nats_per_byte:.4f}", f"{right.perplexity:.4g}",
        f"{right.accuracy:.4f}",
    ]  # fmt: skip


def test_command_of_standard_input(decoder, classifier, tmp_path, monkeypatch, capsys):
    """Without a file, standard input is the text; of a classifier a text per line.  Where no bytes count, null."""
    labels = tmp_path / "labels.txt"
    labels.write_text("joy\nfear\n")

    for loaded, texts, answers, words in (
        (decoder, [TEXT], [], []),
        (classifier, SENTENCES[:2], ["joy", "fear"], ["--labels", labels]),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
        told = json.loads(run(capsys, loaded.described.source.folder, *words, "--json"))
        right = evaluate(loaded, texts, answers)
        assert (right.n, right.nats, right.bytes or None) == (told["n"], told["nats"], told["bytes"])


def test_command_of_an_encoder_decoder(marian, tmp_path, capsys):
    """BLEU and chrF compare what `translate` says with the targets; without them nothing is translated."""
    pytest.importorskip("sacrebleu")
    sources, targets = tmp_path / "a.txt", tmp_path / "b.txt"
    sources.write_text("\n".join(LINES) + "\n")
    targets.write_text("\n".join(LINES[::-1]) + "\n")
    words = [marian.described.source.folder, "--sources", sources, "--targets", targets]
    right = [vars(one) for one in similarity(translate(marian, LINES), LINES[::-1])]

    told = json.loads(run(capsys, *words, "--json"))
    table = run(capsys, *words)

    assert (evaluate(marian, LINES, LINES[::-1]).nats, right) == (told["nats"], told["scores"])
    assert table.splitlines()[-1].endswith(right[1]["signature"])
    assert json.loads(run(capsys, *words, "--json", "--no-translate")) == told | {"scores": []}


def test_command_of_a_classifier(classifier, tmp_path, capsys):
    """A text per line, and a label per line."""
    (tmp_path / "texts.txt").write_text("\n".join(SENTENCES[:2]) + "\n")
    (tmp_path / "labels.txt").write_text("joy\nfear\n")

    out = run(
        capsys,
        classifier.described.source.folder,
        tmp_path / "texts.txt",
        "--labels",
        tmp_path / "labels.txt",
        "--json",
    )

    right = evaluate(classifier, SENTENCES[:2], ["joy", "fear"])
    assert ("texts", 2, right.accuracy) == tuple(json.loads(out)[key] for key in ("what", "n", "accuracy"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "standard input is empty"),
        (["--sources", "a.txt"], "--sources and --targets belong together"),
        (["a.txt", "--sources", "a.txt", "--targets", "a.txt"], "give files of texts, or --sources"),
        (["nowhere.txt"], "nowhere.txt does not exist"),
        (["a.txt", "--batch", "0"], "batch = 0"),
        (["a.txt", "--context", "99"], "context = 99 is outside"),
    ],
)
def test_a_bad_command(words, message, decoder, tmp_path, monkeypatch, capsys):
    """One line on stderr, nothing on stdout, exit status 2."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    (tmp_path / "a.txt").write_text("the cat")

    assert cli.main(["evaluate", str(decoder.described.source.folder), *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
