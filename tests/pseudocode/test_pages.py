"""A printed page, executed by a reader who knows nothing but its text, computes what the oracle computes."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings

import strategies
from pseudocode import print_reader
from pseudocode.page_reader import Book
from pseudocode.published import CONFIGS, SMALL, by_the_oracle, inputs, x, z
from transformulary import oracle
from transformulary.paper import DTransformerConfig, EDTransformerConfig, ETransformerConfig
from transformulary.pseudocode import render
from transformulary.pseudocode.boxes import box
from transformulary.pseudocode.describe import printer
from transformulary.pseudocode.nodes import Document
from transformulary.pseudocode.specialise import Program

#: Formats that are executed; Markdown's lines are those of the text.
EXECUTED = ("text", "latex", "html")


def pages(config, numbers=False, also=(), form="text"):
    """The printed algorithms of a model, as a reader of that format writes them down in text."""
    program = Program(config, numbers)
    names = [*program.executed, *map(program.source.name, also)]
    printed = printer(form).document(Document(tuple(box(program, name) for name in names)))
    return print_reader.pages(form, printed)


def page(number):
    """One algorithm of the paper."""
    return print_reader.pages("text", render(number))[0]


def by_the_reader(book, config, theta):
    """P as the pages say; the reader counts token ids from 1."""
    name, before, after = inputs(config)
    return book.run(name, *([v + 1 for v in sequence] for sequence in (*before, *after)), theta)


@pytest.mark.parametrize("form", EXECUTED)
@pytest.mark.parametrize("numbers", [False, True], ids=["symbols", "numbers"])
@pytest.mark.parametrize("name", CONFIGS)
def test_pages_compute_what_the_oracle_computes(name, numbers, form):
    """P of the printed pages is the oracle's, bitwise, in every format, whether sizes are symbols or numbers."""
    config = CONFIGS[name]
    theta = oracle.random_theta(config, np.random.default_rng(1))

    P = by_the_reader(Book(pages(config, numbers, form=form), config), config, theta)

    np.testing.assert_array_equal(P, by_the_oracle(config, theta))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_line_has_the_oracles_values(name):
    """Under each printed number stand the values that the oracle has at that line, bitwise and in order."""
    config = CONFIGS[name]
    theta = oracle.random_theta(config, np.random.default_rng(2))
    function, before, after = inputs(config)
    book, theirs = Book(pages(config), config), defaultdict(list)

    by_the_reader(book, config, theta)
    for path, value in oracle.record(function, *before, theta, config, *after).items():
        if ":" not in path and isinstance(value, np.ndarray) and "t=" not in path.rpartition("/")[2]:
            theirs[path.rpartition("/")[2].partition("[")[0]].append(value)

    compared = [label for label in book.seen if label in theirs]
    assert len(compared) >= 14
    for label in compared:
        for ours, value in zip(book.seen[label], theirs[label], strict=True):
            np.testing.assert_array_equal(ours, value, err_msg=label)


@given(strategies.d_configs(), strategies.seeds)
@settings(max_examples=25)
def test_pages_of_any_decoder(config, rng):
    """Whatever the choices of a decoder, its printed pages compute what the oracle computes, bitwise."""
    theta = oracle.random_theta(config, rng)
    x = rng.integers(config.N_V, size=5).tolist()

    P = Book(pages(config), config).run("DTransformer", [v + 1 for v in x], theta)

    np.testing.assert_array_equal(P, oracle.DTransformer(x, theta, config))


TINY = {"N_V": 5, "ell_max": 4, "H": 1, "d_e": 2, "d_mlp": 2, "eps": 1e-3}
DATA = [[0, 3, 1], [2, 4, 4, 1]]


def from_one(sequences):
    return [[v + 1 for v in sequence] for sequence in sequences]


def assert_equal(theta, other):
    for (name, ours), theirs in zip(theta.items(), other.leaves(), strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


def test_training_as_printed():
    """Algorithm 13, executed as printed, ends at the oracle's theta, bitwise."""
    config = DTransformerConfig(**TINY, L=1)
    theta = oracle.random_theta(config, np.random.default_rng(3))
    book = Book(pages(config, also=[13]), config, N_epochs=2, eta=0.1)

    theta_hat = book.run("DTraining", from_one(DATA), theta)

    assert_equal(theta_hat, oracle.DTraining(DATA, theta, config, N_epochs=2, eta=0.1))


def test_encoder_decoder_training_as_printed():
    """Algorithm 11, executed as printed, ends at the oracle's theta, bitwise."""
    config = EDTransformerConfig(**TINY, L_enc=1, L_dec=1)
    theta = oracle.random_theta(config, np.random.default_rng(4))
    book = Book(pages(config, also=[11]), config, N_epochs=1, eta=0.1)

    theta_hat = book.run("EDTraining", from_one(DATA[::-1]), from_one(DATA), theta)

    assert_equal(theta_hat, oracle.EDTraining(DATA[::-1], DATA, theta, config, N_epochs=1, eta=0.1))


def test_masked_training_as_printed():
    """Algorithm 12, executed as printed with the same chance, ends at the oracle's theta, bitwise."""
    config = ETransformerConfig(**TINY, L=1)
    theta = oracle.random_theta(config, np.random.default_rng(5))
    told = {"N_epochs": 2, "eta": 0.1, "p_mask": 0.5}
    book = Book(pages(config, also=[12]), config, **told, mask_token=3, rng=np.random.default_rng(6))

    theta_hat = book.run("ETraining", from_one(DATA), theta)

    oracles = oracle.ETraining(DATA, theta, config, **told, mask_token=2, rng=np.random.default_rng(6))
    assert_equal(theta_hat, oracles)


@pytest.mark.parametrize("form", EXECUTED)
def test_inference_as_printed(form):
    """Algorithm 14, executed as printed with the same chance, writes the oracle's tokens."""
    config = DTransformerConfig(**SMALL, L=1)
    theta = oracle.random_theta(config, np.random.default_rng(7), scale=1.0)
    book = Book(pages(config, also=[14], form=form), config, ell_gen=4, tau=0.7, rng=np.random.default_rng(8))

    y = book.run("DInference", from_one([x[:5]])[0], theta)

    oracles = oracle.DInference(x[:5], theta, config, ell_gen=4, tau=0.7, rng=np.random.default_rng(8))
    assert from_one([oracles])[0] == y


@pytest.mark.parametrize("form", EXECUTED)
def test_encoder_decoder_inference_as_printed(form):
    """Algorithm 15, executed as printed with the same chance, writes the oracle's tokens."""
    config = EDTransformerConfig(**SMALL | {"ell_max": 99}, L_enc=1, L_dec=1)
    theta = oracle.random_theta(config, np.random.default_rng(9), scale=0.5)
    told = {"bos_token": 9, "eos_token": 10}
    book = Book(
        pages(config, also=[15], form=form), config, tau=1.0, bos_token=10, eos_token=11, rng=np.random.default_rng(10)
    )

    x_hat = book.run("EDInference", from_one([z])[0], theta)

    oracles = oracle.EDInference(z, theta, config, **told, rng=np.random.default_rng(10))
    assert len(oracles) > 2
    assert from_one([oracles])[0] == x_hat


def test_single_query_attention_as_printed():
    """Algorithm 3, executed as printed, returns the oracle's vector, to rounding (it sums in another order)."""
    config, rng = CONFIGS["paper 10"], np.random.default_rng(11)
    W_qkv = oracle.Theta(
        **{f"W_{k}": rng.normal(size=(3, 4)) for k in "qkv"}, **{f"b_{k}": rng.normal(size=3) for k in "qkv"}
    )
    e, context = rng.normal(size=4), list(rng.normal(size=(5, 4)))
    book = Book([page(3)], config, d_attn=3)

    v_tilde = book.run("single_query_attention", e, context, W_qkv)

    np.testing.assert_allclose(v_tilde, oracle.single_query_attention(e, context, W_qkv), rtol=1e-14)


@pytest.mark.parametrize(
    ("number", "name", "arguments"),
    [
        (1, "token_embedding", (3, np.arange(20.0).reshape(4, 5))),
        (2, "positional_embedding", (2, np.arange(20.0).reshape(4, 5))),
        (7, "unembedding", (np.arange(4.0), np.arange(20.0).reshape(5, 4) / 9)),
    ],
)
def test_small_pages(number, name, arguments):
    """Algorithms 1, 2 and 7, executed as printed (ids and positions from 1), return the oracle's vectors."""
    first, *others = arguments
    counted = first + 1 if isinstance(first, int) else first

    value = Book([page(number)], CONFIGS["paper 10"]).run(name, counted, *others)

    np.testing.assert_array_equal(value, getattr(oracle, name)(*arguments))
