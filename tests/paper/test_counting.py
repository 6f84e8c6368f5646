"""Parameters and bytes: closed formulas against tables, published numbers and the installed library."""

from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import configs, d_configs
from transformulary.errors import ConfigError
from transformulary.paper import (
    SLOTS,
    Causal,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    Full,
    Local,
    Prefix,
    Strided,
    Top,
    cache_bytes,
    cache_bytes_per_token,
    flops,
    leaves,
    number_of_parameters,
    parameters,
    training_bytes,
    weight_bytes,
)

GPT2 = DTransformerConfig(N_V=50257, ell_max=1024, L=12, H=12, d_e=768, d_mlp=3072, tied=True)
BERT = ETransformerConfig(
    N_V=30522,
    ell_max=512,
    L=12,
    H=12,
    d_e=768,
    d_mlp=3072,
    segments=2,
    embedding_norm=True,
    tied=True,
    absent=(),
)
ORIGINAL = EDTransformerConfig(N_V=37000, ell_max=512, L_enc=6, L_dec=6, H=8, d_e=512, d_mlp=2048)


def counted_one_by_one(config):
    return sum(n * prod(shape) for _, n, shape in leaves(parameters(config), config))


@given(configs)
def test_the_formula_is_the_sum_over_the_table(config):
    """Whatever the architecture, the sizes and the choices: the closed formula counts the table of parameters."""
    assert counted_one_by_one(config) == number_of_parameters(config)


@pytest.mark.parametrize("config", [BERT, replace(BERT, tied=False, absent=("b_f", "beta", "b_u"), d_f=512)])
def test_what_stands_on_top_of_an_encoder(config):
    """Classes have Algorithm 9c's parameters and work in place of those of lines 10-12, vectors neither."""
    bare = counted_one_by_one(config) - sum(
        n * prod(shape)
        for name, n, shape in leaves(parameters(config), config)
        if name in ("W_f", "b_f", "gamma", "beta", "W_u", "b_u")
    )
    layers = flops(config, 7).matrices - 2 * 7 * config.d_f * (768 + 30522)

    assert bare == number_of_parameters(config, Top("vectors"))
    assert bare + 768 * 768 + 768 + 3 * 768 + 3 == number_of_parameters(config, Top("classes", 3))
    assert layers == flops(config, 7, top=Top("vectors")).matrices
    assert layers + 2 * (768 * 768 + 3 * 768) == flops(config, 7, top=Top("classes", 3)).matrices


@pytest.mark.parametrize("config", [GPT2, BERT, ORIGINAL])
def test_the_formula_is_the_sum_for_every_combination_of_slots(config):
    """All values of all slots that decide which parameters there are, without chance."""
    absent = sorted(config.optional - {"W_p", "W_s"})
    slots = {
        "norm": SLOTS["norm"],
        "mlp": SLOTS["mlp"],
        "positions": [p for p in SLOTS["positions"] if config is not ORIGINAL or p not in ("rotary", "relative")],
        "embedding_norm": (False, True),
        "qk_norm": (False, True),
        "tied": (False, True),
        "absent": ((), absent, absent[::2], absent[1::2]),
    }
    for values in product(*slots.values()):
        variant = replace(config, **dict(zip(slots, values, strict=True)))

        assert counted_one_by_one(variant) == number_of_parameters(variant)


def W(c):
    """|W| as section 5 of our specification prints it, d_x = d_z = d_out = d_e."""
    return c.H * (2 * c.d_attn * (c.d_e + 1) + c.d_mid * (c.d_e + 1)) + c.d_e * (c.H * c.d_mid + 1)


def mlp(c):
    return 2 * c.d_e * c.d_mlp + c.d_mlp + c.d_e


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_the_paper_s_three_sums(L, H, d_attn, d_mid, d_f):
    """Algorithms 8, 9 and 10 with nothing but sizes given."""
    sizes = {"N_V": 13, "ell_max": 7, "H": H, "d_e": 5, "d_mlp": 11, "d_attn": d_attn, "d_mid": d_mid}
    c8 = EDTransformerConfig(**sizes, L_enc=L, L_dec=2)
    c9 = ETransformerConfig(**sizes, L=L, d_f=d_f)
    c10 = DTransformerConfig(**sizes, L=L)
    w, m = W(c10), mlp(c10)

    assert (2 * 13 + 7) * 5 + L * (w + 4 * 5 + m) + 2 * (2 * w + 6 * 5 + m) == number_of_parameters(c8)
    assert (13 + 7) * 5 + L * (w + 4 * 5 + m) + d_f * (5 + 1) + 2 * d_f + 13 * d_f == number_of_parameters(c9)
    assert (2 * 13 + 7) * 5 + L * (w + 4 * 5 + m) + 2 * 5 == number_of_parameters(c10)
    assert number_of_parameters(c10) - 13 * 5 == number_of_parameters(replace(c10, tied=True))


@pytest.mark.parametrize(
    ("config", "published"),
    [
        (GPT2, 124_439_808),
        (replace(GPT2, tied=False), 163_037_184),
        (replace(GPT2, positions="none"), 123_653_376),
        (BERT, 109_514_298),
    ],
)
def test_published_counts(config, published):
    """GPT-2 small, tied and untied and without positions; BERT-base with its masked-language head."""
    assert published == number_of_parameters(config)


def test_hugging_face_counts_the_same():
    """The library's own GPT-2 and BERT, built without memory for their weights."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    with torch.device("meta"):
        models = [
            transformers.GPT2LMHeadModel(transformers.GPT2Config()),
            transformers.BertForMaskedLM(transformers.BertConfig()),
        ]

    assert [number_of_parameters(GPT2), number_of_parameters(BERT)] == [model.num_parameters() for model in models]


@pytest.mark.parametrize(
    ("name", "L", "d_e", "H", "d_attn", "billions"),
    [
        ("125M", 12, 768, 12, 64, 0.125),
        ("350M", 24, 1024, 16, 64, 0.356),
        ("760M", 24, 1536, 16, 96, 0.760),
        ("1.3B as printed", 24, 2048, 24, 128, 1.52),
        ("1.3B with 16 heads", 24, 2048, 16, 128, 1.32),
        ("2.7B", 32, 2560, 32, 80, 2.65),
        ("6.7B", 32, 4096, 32, 128, 6.66),
        ("13B", 40, 5140, 40, 128, 12.9),
        ("175B", 96, 12288, 96, 128, 174.6),
    ],
)
def test_gpt3_sizes(name, L, d_e, H, d_attn, billions):
    """The published table of GPT-3 (section 7 of our specification), odd rows as printed: H d_attn need not be d_e."""
    c = DTransformerConfig(
        N_V=50257,
        ell_max=2048,
        L=L,
        H=H,
        d_e=d_e,
        d_attn=d_attn,
        d_mlp=4 * d_e,
        tied=True,
        mask=("causal", "local(128)"),
    )

    assert billions == pytest.approx(number_of_parameters(c) / 1e9, rel=0.005)


@pytest.mark.parametrize(
    ("L", "d_e", "H", "millions"),
    [
        (8, 512, 16, 44),
        (12, 768, 12, 117),
        (12, 1536, 12, 417),
        (24, 2048, 16, 1_400),
        (32, 4096, 32, 7_100),
        (80, 16384, 128, 280_000),
    ],
)
def test_gopher_sizes(L, d_e, H, millions):
    """13 L d_e^2 + 32000 d_e and little more: relative positions cost one d_e x d_e matrix W_r per layer."""
    c = DTransformerConfig(
        N_V=32000, ell_max=2048, L=L, H=H, d_e=d_e, d_mlp=4 * d_e, tied=True, norm="rms_norm", positions="relative"
    )
    matrices = 13 * L * d_e**2 + 32000 * d_e

    assert 0 <= number_of_parameters(c) - matrices <= 15 * L * d_e + d_e
    assert millions == pytest.approx(number_of_parameters(c) / 1e6, rel=0.02)


def test_llama_2_7b():
    """Gated MLP, no bias, no table of positions: 6,738,415,616, the count that is published with its weights."""
    llama = DTransformerConfig(
        N_V=32000,
        ell_max=4096,
        L=32,
        H=32,
        d_e=4096,
        d_mlp=11008,
        mlp="gated",
        norm="rms_norm",
        activation="silu",
        positions="rotary",
        absent=("b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u"),
    )

    assert 6_738_415_616 == number_of_parameters(llama)


@pytest.mark.parametrize(
    ("dtype", "size"), [("float64", 8), ("float32", 4), ("float16", 2), ("bfloat16", 2), ("int8", 1)]
)
def test_bytes_of_weights(dtype, size):
    """So many bytes a number."""
    assert 124_439_808 * size == weight_bytes(GPT2, dtype)


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4), ("bfloat16", 4), ("float16", 4)])
def test_bytes_of_training(dtype, size):
    """Four numbers a parameter, which half a precision does not shorten."""
    assert 4 * 124_439_808 * size == training_bytes(GPT2, dtype)


def test_nothing_is_trained_in_whole_numbers():
    """int8 is for running a model."""
    with pytest.raises(ConfigError, match="nothing is trained in int8"):
        training_bytes(GPT2, "int8")


@pytest.mark.parametrize(
    ("config", "ell", "expected"),
    [
        (GPT2, 1024, 12 * 1024 * 2 * 768),
        (replace(GPT2, H_kv=3), 1024, 12 * 1024 * 2 * 192),
        (replace(GPT2, d_mid=10), 100, 12 * 100 * 12 * (64 + 10)),
        (replace(GPT2, mask=(Local(256),)), 100, 12 * 100 * 2 * 768),
        (replace(GPT2, mask=(Local(256),)), 1024, 12 * 256 * 2 * 768),
        (replace(GPT2, mask=(Causal(), Local(256))), 1024, 6 * (1024 + 256) * 2 * 768),
        (replace(GPT2, L=3, mask=(Local(2), Causal())), 10, (2 + 10 + 2) * 2 * 768),
        (replace(GPT2, mask=(Local(3) | Strided(3),)), 1024, 12 * 1024 * 2 * 768),
        (replace(GPT2, L=1, mask=(Causal(), Local(2))), 10, 10 * 2 * 768),
        (replace(GPT2, mask=(Full(),)), 10, 0),
        (replace(GPT2, mask=(Causal(), Prefix(4))), 10, 0),
        (BERT, 10, 0),
    ],
)
def test_numbers_in_the_cache(config, ell, expected):
    """Each layer keeps the keys and values of the tokens that its mask may use; nothing where tokens look ahead."""
    assert expected == cache_bytes(config, ell, dtype="int8")


def test_an_encoder_decoder_also_keeps_the_context():
    """Keys and values of the decoder's own tokens, and of the context for the attention to it."""
    assert 6 * (10 + 30) * 2 * 512 * 4 == cache_bytes(ORIGINAL, 10, 30)
    assert (
        6 * 2 * 512 * 4
        == cache_bytes_per_token(ORIGINAL)
        == cache_bytes(ORIGINAL, 11, 30) - cache_bytes(ORIGINAL, 10, 30)
    )


@given(d_configs(), st.data())
def test_the_cache_grows_by_its_bytes_per_token(config, data):
    """Never by more, and by exactly that as long as no local mask is full."""
    ell = data.draw(st.integers(1, config.ell_max))
    widths = [member.width for mask in config.mask for member in mask.members if isinstance(member, Local)]
    full = ell * cache_bytes_per_token(config)

    assert cache_bytes(config, ell) <= full
    assert cache_bytes(config, ell) == full or ell > min(widths)
