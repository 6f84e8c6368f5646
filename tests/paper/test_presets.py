"""Presets: published models are found by name, and their numbers are those that are known."""

import tracemalloc
from dataclasses import fields

import pytest

from transformulary.errors import ConfigError
from transformulary.paper import (
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    cache_bytes,
    flops,
    number_of_parameters,
    preset,
    training_bytes,
)
from transformulary.paper.presets import families, presets

#: As counted in the files that were published.
PUBLISHED = {
    "gpt2-small": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "bert-base": 109_514_298,
    "gpt-neo-125m": 125_198_592,
    "llama-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b-v0.1": 7_241_732_096,
    "mistral-7b-v0.3": 7_248_023_552,
    "mistral-nemo-12b": 12_247_782_400,
    "mistral-small-22b": 22_247_282_688,
    "mistral-small-24b": 23_572_403_200,
    "mistral-large-123b": 122_610_069_504,
    "qwen2-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_number_of_parameters(name):
    """It is that of the published weights, to the last one."""
    assert PUBLISHED[name] == number_of_parameters(preset(name).config)


def test_what_authors_print():
    """The count is what the authors print, to 5 %; where it is not, a note says why."""
    units = {"M": 1e6, "B": 1e9}
    printed = {n: float(p.published[:-1]) * units[p.published[-1]] for n, p in presets().items() if p.published}

    far = {n for n, count in printed.items() if abs(number_of_parameters(preset(n).config) / count - 1) > 0.05}

    assert {"gpt2-small", "gpt3-1.3b"} == far
    assert "124M" in preset("gpt2-small").note
    assert "1.52B" in preset("gpt3-1.3b").note


def test_every_size_that_the_paper_s_systems_have():
    """Two of the original Transformer and BERT, four of GPT-2, eight of GPT-3, six of Gopher, three of Gato."""
    counts = {name: len(list(family.presets())) for name, family in families().items()}

    assert (2, 2, 4, 8, 6, 3) == tuple(counts[n] for n in ("transformer", "bert", "gpt2", "gpt3", "gopher", "gato"))


def test_every_preset_has_its_source_and_its_own_name():
    """No two have the same name, none has the name of a family, and each says where it is from."""
    sizes = [size for family in families().values() for size in family.presets()]

    assert len(sizes) == len({size.name for size in sizes} - set(families()))
    assert all(family.source for family in families().values())


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("paper-8", EDTransformerConfig(N_V=37, ell_max=24, L_enc=2, L_dec=2, H=2, d_e=12, d_mlp=20)),
        ("paper-9", ETransformerConfig(N_V=37, ell_max=24, L=2, H=2, d_e=12, d_mlp=20)),
        ("paper", DTransformerConfig(N_V=37, ell_max=24, L=2, H=2, d_e=12, d_mlp=20)),
    ],
)
def test_the_paper_s_own_choices(name, config):
    """The paper's three architectures are nothing but sizes given."""
    assert config == preset(name).config


def test_an_architecture_has_the_choices_of_its_first_size():
    """gpt2 is the architecture of gpt2-small, and its sizes are not meant."""
    gpt2, small = preset("gpt2"), preset("gpt2-small")

    assert (small.config, False, True) == (gpt2.config, gpt2.sized, small.sized)


def test_architectures_of_conform_are_ours():
    """`conform --against gpt2` means the architecture that `describe gpt2` prints: they differ in sizes only."""
    reference = pytest.importorskip("transformulary.conform.reference")

    for name, config in reference.PRESETS.items():
        if name == "t5":  # `describe` has no preset of T5
            continue
        ours = preset(name).config
        choices = [f.name for f in fields(config) if f.type != "int"]

        assert [getattr(config, choice) for choice in choices] == [getattr(ours, choice) for choice in choices]


@pytest.mark.parametrize(
    ("name", "near"),
    [("gtp2-small", "gpt2-small"), ("GPT2-XL", "gpt2-xl"), ("llama3.1-8b", "llama-3.1-8b"), ("brt", "bert")],
)
def test_a_wrong_name(name, near):
    """An error names those that are spelt almost like it."""
    with pytest.raises(ConfigError, match=f"no model is called '{name}'. Nearest: .*{near}.*`transformulary presets`"):
        preset(name)


def test_a_name_like_none():
    """An error says where the names are."""
    with pytest.raises(ConfigError, match=r"^no model is called 'xyzzy'\. `transformulary presets` lists them all\.$"):
        preset("xyzzy")


def test_gpt3_is_counted_without_allocating():
    """175 billion parameters, their work and their bytes are counted in a megabyte."""
    tracemalloc.start()
    try:
        c = preset("gpt3-175b").config
        counted = number_of_parameters(c), flops(c, 2048), cache_bytes(c, 2048), training_bytes(c)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (174_604_259_328, True) == (counted[0], peak < 2**20)


@pytest.mark.parametrize("name", [None, 3, b"gpt2"])
def test_a_name_that_is_no_text(name):
    """What is no text names no model."""
    with pytest.raises(ConfigError, match=r"the name of a model is text, and .* is none"):
        preset(name)
