"""The attention of a prompt as an object."""

import os

import numpy as np
import pytest
import torch

from encode import models as encoders
from nn.models import model as model_of
from transformulary.errors import AlgorithmError, ConfigError, DataError, TokenError
from transformulary.models import load, save
from transformulary.nn import DTransformer, attention_weights
from transformulary.paper import DTransformerConfig, EDTransformerConfig, PreEDTransformerConfig
from transformulary.tokens import Tokenizer
from transformulary.view import Attention, attention, attention_of, whole
from transformulary.view.stack import formula
from view.examples import weights

VIEW = Attention([whole(["a", " b", "<c>"], weights(3, 4, 3))], "Three tokens")


LETTERS = Tokenizer.train("characters", ["abc"])


@pytest.fixture
def model():
    """A small model for prompts of up to 6 tokens."""
    config = DTransformerConfig(N_V=LETTERS.N_V, ell_max=6, L=2, H=2, d_e=8, d_mlp=8)
    return DTransformer(config, generator=torch.Generator().manual_seed(0))


def test_the_weights_are_those_of_the_model(model):
    """Every layer and head of the fast model, for the tokens of the prompt."""
    view = attention_of(model, LETTERS, "abcab", bos=False)

    expected = attention_weights(model, torch.tensor([[0, 1, 2, 0, 1]]))
    (stack,) = view.stacks
    assert (["a", "b", "c", "a", "b"], "10.6") == (stack.queries, stack.line)
    for w, layer in zip(expected, stack.weights, strict=True):
        np.testing.assert_array_equal(layer, w[0])


def test_a_prompt_of_ell_max_tokens_is_the_longest(model):
    """ell_max tokens are shown; one more is an error that names both numbers."""
    assert 6 == len(attention_of(model, LETTERS, "aaaaaa", bos=False).stacks[0].queries)
    with pytest.raises(AlgorithmError, match=r"7 .*ell_max = 6"):
        attention_of(model, LETTERS, "aaaaaaa", bos=False)


def test_bos_is_a_token_too(model):
    """With bos_token it is the first query and key, and it counts towards ell_max; a vocabulary may have none."""
    view = attention_of(model, LETTERS, "aaaaa")

    assert ["<|bos_token|>", "a"] == view.stacks[0].queries[:2]
    with pytest.raises(TokenError, match="bos_token"):
        attention_of(model, Tokenizer(LETTERS.pipeline, {}), "")


@pytest.mark.parametrize(("layer", "head"), [(2, 3), (3, None), (None, 1), (None, None)])
def test_one_layer_or_head_alone(layer, head):
    """A selection has the weights and the numbers of what was selected, also of a selection."""
    (stack,) = VIEW.only(layer=layer).only(head=head).stacks

    layers, heads = [layer] if layer else [1, 2, 3], [head] if head else [1, 2, 3, 4]
    assert (layers, heads) == (list(stack.layers), list(stack.heads))
    for l, w in zip(layers, stack.weights, strict=True):
        np.testing.assert_array_equal(w, VIEW.stacks[0].weights[l - 1][[h - 1 for h in heads]])


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


def test_an_encoder_reads_what_it_was_trained_to_see():
    """Special tokens stand around its text, every token may look at every other, and line 5 of Algorithm 9 looks."""
    loaded = model_of(encoders.config())
    x = torch.tensor([[2, 5, 6, 3]])

    (stack,) = attention_of(loaded, encoders.tokenizer(), "the cat").stacks

    assert (["[CLS]", "the", "cat", "[SEP]"], "encoder", "9.5") == (stack.queries, stack.kind, stack.line)
    for w, layer in zip(attention_weights(loaded, x, 0 * x), stack.weights, strict=True):
        np.testing.assert_array_equal(layer, w[0].float())


ED = {"N_V": 15, "ell_max": 9, "H": 2, "d_e": 8, "d_mlp": 8, "L_enc": 1, "L_dec": 2}
LINES = {EDTransformerConfig: ["8.5", "8.14", "8.16"], PreEDTransformerConfig: ["8a.6", "8a.16", "8a.18"]}


@pytest.mark.parametrize("kind", LINES)
def test_an_encoder_decoder_looks_in_three_ways(kind):
    """Its encoder at the context, its decoder at the answer, and the answer at the context."""
    made = model_of(kind(**ED))
    z, x = torch.tensor([[2, 5, 6, 7, 3]]), torch.tensor([[0, 2, 8, 9]])
    words = Tokenizer(encoders.tokenizer().pipeline, {"eos_token": "[SEP]"})  # after which nothing comes

    view = attention_of(made, words, "on a", context="the cat sat", begin=0)

    source, target = ["[CLS]", "the", "cat", "sat", "[SEP]"], ["[PAD]", "[CLS]", "on", "a"]
    expected = [("encoder", source, source), ("decoder", target, target), ("cross", target, source)]
    assert expected == [(stack.kind, stack.queries, stack.keys) for stack in view.stacks]
    assert LINES[kind] == [stack.line for stack in view.stacks]
    for layers, stack in zip(attention_weights(made, z, x), view.stacks, strict=True):
        for w, layer in zip(layers, stack.weights, strict=True):
            np.testing.assert_array_equal(layer, w[0].float())
    assert ["cross"] == [stack.kind for stack in view.only(kind="cross", layer=2).stacks]


@pytest.mark.parametrize(
    ("config", "given", "error", "message"),
    [
        (EDTransformerConfig(**ED), {}, ConfigError, "needs a context too"),
        (EDTransformerConfig(**ED), {"context": "a"}, ConfigError, "begin is not given"),
        (EDTransformerConfig(**ED), {"context": "a", "begin": 0, "bos": True}, ConfigError, "bos says how"),
        (encoders.config(), {"context": "a"}, ConfigError, "reads one text, and no context"),
        (encoders.config(), {"bos": False}, ConfigError, "bos says how the prompt of a decoder"),
    ],
    ids=repr,
)
def test_what_a_model_has_no_use_for(config, given, error, message):
    """An argument for another kind of model is refused, and one that is missing is named."""
    with pytest.raises(error, match=message):
        attention_of(model_of(config), encoders.tokenizer(), "a", **given)


def test_a_text_without_tokens():
    """What frames no text with special tokens leaves nothing of an empty one."""
    with pytest.raises(AlgorithmError, match="the text is empty"):
        attention_of(model_of(encoders.config()), LETTERS, "")
    with pytest.raises(AlgorithmError, match="the context is empty"):
        attention_of(model_of(EDTransformerConfig(**ED)), LETTERS, "a", context="", begin=0)
    with pytest.raises(DataError, match="this model has no cross attention, only encoder"):
        attention_of(model_of(encoders.config()), encoders.tokenizer(), "a").only(kind="cross")


@pytest.mark.parametrize("scale", ["sqrt", "none"])
def test_a_softmax_is_called_what_it_is(scale):
    """Of a model whose scores are not divided, as T5's, page and picture say so."""
    made = model_of(PreEDTransformerConfig(**ED, scale=scale))

    view = attention_of(made, encoders.tokenizer(), "on a", context="the cat sat", begin=0)

    assert (scale == "sqrt") == ("<b>softmax(S / √d<sub>attn</sub>)</b>" in view.page())
    assert ("softmax(S / √d_attn)" if scale == "sqrt" else "softmax(S)") == formula(view.stacks)


@pytest.mark.parametrize("given", [{}, {"context": "the cat sat"}])
def test_a_loaded_model(tmp_path, given):
    """It brings its vocabulary, and how its answers begin."""
    made = model_of(EDTransformerConfig(**ED) if given else encoders.config())
    save(tmp_path, made, Tokenizer(encoders.tokenizer().pipeline, {"bos_token": "[CLS]", "eos_token": "[SEP]"}))

    view = attention(load(tmp_path), "on a", **given)

    assert len(view.stacks) == (3 if given else 1)
    assert (
        view.page() == attention_of(made, load(tmp_path).tokenizer, "on a", **given, begin=2 if given else None).page()
    )
