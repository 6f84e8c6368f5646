"""Pages of a model by the word that means it, as in a notebook."""

import json

import pytest

import transformulary
from transformulary.errors import ConfigError

GPT2 = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": 11, "n_positions": 5}


def test_a_preset_by_name():
    """It has the numbers of its sizes; an architecture has symbols."""
    assert "768×50257" in transformulary.describe("gpt2-small")
    assert "d_e×N_V" in transformulary.describe("gpt2")


def test_a_path(tmp_path):
    """A folder, as text or as a path, is described as its config is."""
    (tmp_path / "config.json").write_text(json.dumps(GPT2))

    page = transformulary.describe(tmp_path)

    assert page == transformulary.describe(str(tmp_path)) and "d_e = 8" in page
    assert page._repr_html_().startswith("<")


def test_two_models():
    """A difference in lines, and in sizes where the lines are the same."""
    assert "RMSnorm" in transformulary.diff("gpt2", transformulary.preset("llama-3-8b"))
    assert "1,557,611,200" in transformulary.diff("gpt2-small", "gpt2-xl")


@pytest.mark.parametrize("model", [3, None, "no such model", ["gpt2"]])
def test_no_model(model):
    """One line says so."""
    with pytest.raises(ConfigError, match=r"no model|is called"):
        transformulary.describe(model)


def test_an_architecture_has_no_numbers():
    """None are printed for it, in Python as on the command line."""
    with pytest.raises(ConfigError, match="has no sizes"):
        transformulary.describe(transformulary.preset("gpt2"), numbers=True)
