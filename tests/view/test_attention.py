"""The attention of a prompt as an object."""

import os

import numpy as np
import pytest
import torch

from transformulary.errors import AlgorithmError, DataError, TokenError
from transformulary.nn import DTransformer, attention_weights
from transformulary.paper import DTransformerConfig
from transformulary.tokens import Tokenizer
from transformulary.view import Attention, attention
from view.examples import weights

VIEW = Attention(["a", " b", "<c>"], weights(3, 4, 3), range(1, 4), range(1, 5), "Three tokens")


LETTERS = Tokenizer.train("characters", ["abc"])


@pytest.fixture
def model():
    """A small model for prompts of up to 6 tokens."""
    config = DTransformerConfig(N_V=LETTERS.N_V, ell_max=6, L=2, H=2, d_e=8, d_mlp=8)
    return DTransformer(config, generator=torch.Generator().manual_seed(0))


def test_the_weights_are_those_of_the_model(model):
    """Every layer and head of the fast model, for the tokens of the prompt."""
    view = attention(model, LETTERS, "abcab", bos=False)

    expected = attention_weights(model, torch.tensor([[0, 1, 2, 0, 1]]))
    assert ["a", "b", "c", "a", "b"] == view.tokens
    for w, layer in zip(expected, view.weights, strict=True):
        np.testing.assert_array_equal(layer, w[0])


def test_a_prompt_of_ell_max_tokens_is_the_longest(model):
    """ell_max tokens are shown; one more is an error that names both numbers."""
    assert 6 == len(attention(model, LETTERS, "aaaaaa", bos=False).tokens)
    with pytest.raises(AlgorithmError, match=r"7 .*ell_max = 6"):
        attention(model, LETTERS, "aaaaaaa", bos=False)


def test_bos_is_a_token_too(model):
    """With bos_token it is the first query and key, and it counts towards ell_max; a vocabulary may have none."""
    view = attention(model, LETTERS, "aaaaa")

    assert ["<|bos_token|>", "a"] == view.tokens[:2]
    with pytest.raises(TokenError, match="bos_token"):
        attention(model, Tokenizer(LETTERS.pipeline, {}), "")


@pytest.mark.parametrize(("layer", "head"), [(2, 3), (3, None), (None, 1), (None, None)])
def test_one_layer_or_head_alone(layer, head):
    """A selection has the weights and the numbers of what was selected, also of a selection."""
    view = VIEW.only(layer=layer).only(head=head)

    layers, heads = [layer] if layer else [1, 2, 3], [head] if head else [1, 2, 3, 4]
    assert (layers, heads) == (list(view.layers), list(view.heads))
    for l, w in zip(layers, view.weights, strict=True):
        np.testing.assert_array_equal(w, VIEW.weights[l - 1][[h - 1 for h in heads]])


@pytest.mark.parametrize(
    ("selection", "message"), [({"layer": 4}, "layers are 1 to 3"), ({"head": 0}, "heads are 1 to 4")]
)
def test_there_is_no_such_head(selection, message):
    """Numbers count from 1, and the error says up to what."""
    with pytest.raises(DataError, match=message):
        VIEW.only(**selection)


@pytest.mark.parametrize(
    ("name", "start"), [("a.html", b"<!doctype html>"), ("A.HTML", b"<!doctype html>"), ("a.png", b"\x89PNG")]
)
def test_the_name_says_what_is_written(tmp_path, name, start):
    """.html is the page and .png the picture, whole or not at all."""
    VIEW.save(tmp_path / name)

    assert (tmp_path / name).read_bytes().startswith(start)
    assert [name] == os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["a.pdf", "a", ".html"])
def test_other_names_are_refused(tmp_path, name):
    """Any other name is an error that says which there are, and nothing is written."""
    with pytest.raises(DataError, match=r"\.html or \.png"):
        VIEW.save(tmp_path / name)

    assert [] == os.listdir(tmp_path)


def test_a_notebook_is_not_flooded(monkeypatch):
    """Weights by the million are not put into a notebook; the words there say how to see them."""
    monkeypatch.setattr("transformulary.view.prompt.INLINE", 3 * 4 * 9 - 1)

    assert "108 attention weights" in VIEW._repr_html_()


def test_a_page_says_its_size():
    """The page says how many weights it has and what they take, as float32 and in the file."""
    assert "3 × 4 × 3 × 3 weights (layers × heads × queries × keys): 432 bytes as float32" in VIEW.page()
