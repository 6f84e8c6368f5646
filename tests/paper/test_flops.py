"""Floating point operations: the closed formula against published numbers and against PyTorch's counter."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import d_configs
from transformulary.errors import ConfigError
from transformulary.paper import (
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    cache_bytes,
    cache_bytes_per_token,
    flops,
    flops_per_token,
    training_flops,
    weight_bytes,
)

GPT2 = DTransformerConfig(N_V=50257, ell_max=1024, L=12, H=12, d_e=768, d_mlp=3072, tied=True)
ORIGINAL = EDTransformerConfig(N_V=37000, ell_max=512, L_enc=6, L_dec=6, H=8, d_e=512, d_mlp=2048)


def test_work_of_gpt2_per_token():
    """Matrices 247,064,064 and, at length 1024, attention 37,748,736; the same tied and untied."""
    tied, untied = flops_per_token(GPT2, 1024), flops_per_token(replace(GPT2, tied=False), 1024)

    assert (247_064_064, 37_748_736) == tied == untied
    assert 247_064_064 + 37_748_736 == tied.total


@given(d_configs(), st.data())
def test_what_the_work_does_not_depend_on(config, data):
    """Norms, the scale of scores, a norm of the embedding and tying cost no matrix product."""
    ell = data.draw(st.integers(1, config.ell_max))
    other = replace(
        config, tied=not config.tied, norm="rms_norm", scale="none", embedding_norm=True, absent=config.absent
    )

    assert flops(config, ell) == flops(other, ell)


# What PyTorch counts while models run.

SIZES = {"N_V": 11, "ell_max": 64, "H": 6, "d_e": 12, "d_mlp": 20, "d_attn": 4, "d_mid": 3}
VARIANTS = {
    "paper": {},
    "tied": {"tied": True},
    "gated": {"mlp": "gated"},
    "grouped": {"H_kv": 2},
    "bare": {"absent": ("b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_u"), "norm": "rms_norm"},
}


class Plain:
    """Matrix products of Algorithms 8 and 9 out of nn.Linear and scaled_dot_product_attention; nothing else."""

    def __init__(self, torch, c, causal=False):
        self.torch, self.c, self.causal = torch, c, causal

    def linear(self, X, out):
        return self.torch.nn.Linear(X.shape[-1], out)(X)

    def heads(self, X, H, width):
        return self.linear(X, H * width).view(len(X), H, width).transpose(0, 1)[None]

    def attention(self, X, Z):
        c = self.c
        Q, K, V = self.heads(X, c.H, c.d_attn), self.heads(Z, c.H_kv, c.d_attn), self.heads(Z, c.H_kv, c.d_mid)
        if c.positions == "relative" and X is Z:
            self.distances(Q, len(X))
        K, V = (Y.repeat_interleave(c.H // c.H_kv, 1) for Y in (K, V))
        Y = self.torch.nn.functional.scaled_dot_product_attention(Q, K, V)
        return X + self.linear(Y[0].transpose(0, 1).flatten(1), c.d_e)

    def distances(self, Q, ell):
        """The key of every distance, and each query times the key of its distance to each token."""
        t = self.torch.arange(ell)
        far = t[:, None] - t
        far, n = (far.clamp(min=0), ell) if self.causal else (far + ell - 1, 2 * ell - 1)
        keys = self.heads(self.torch.zeros(n, self.c.d_e), self.c.H, self.c.d_attn)[0]
        return keys[:, far] @ Q[0, :, :, :, None]

    def mlp(self, X):
        c = self.c
        hidden = self.linear(X, c.d_mlp)
        return X + self.linear(hidden * self.linear(X, c.d_mlp) if c.mlp == "gated" else hidden.relu(), c.d_e)

    def embed(self, ell):
        return self.torch.nn.Embedding(self.c.N_V, self.c.d_e)(self.torch.zeros(ell, dtype=self.torch.int64))

    def encoder(self, ell):
        X = self.embed(ell)
        for _ in range(self.c.L):
            X = self.mlp(self.attention(X, X))
        return self.linear(self.linear(X, self.c.d_f), self.c.N_V)

    def decoder(self, ell):
        X = self.embed(ell)
        for _ in range(self.c.L):
            X = self.mlp(self.attention(X, X))
        return self.linear(X, self.c.N_V)

    def both(self, ell, ell_z):
        Z, X = self.embed(ell_z), self.embed(ell)
        for _ in range(self.c.L_enc):
            Z = self.mlp(self.attention(Z, Z))
        for _ in range(self.c.L_dec):
            X = self.mlp(self.attention(self.attention(X, X), Z))
        return self.linear(X, self.c.N_V)


@contextlib.contextmanager
def counting():
    """PyTorch's own counter, of what runs inside; its rules know the MATH kernel."""
    pytest.importorskip("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        yield counter


def counted(forward):
    """(forward, forward and backward) operations that PyTorch counts."""
    torch = pytest.importorskip("torch")
    with counting() as counter:
        out = forward(torch)
        once = counter.get_total_flops()
        out.sum().backward()
    return once, counter.get_total_flops()


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("ell", [1, 7, 64])
def test_pytorch_counts_the_same_for_decoders(ell, variant):
    """Forward and training, for short and long sequences; our own fast model."""
    nn = pytest.importorskip("transformulary.nn")
    c = DTransformerConfig(**SIZES | {"L": 2} | VARIANTS[variant])

    assert (flops(c, ell).total, training_flops(c, ell).total) == counted(
        lambda torch: nn.DTransformer(c)(torch.zeros(1, ell, dtype=torch.int64))
    )


@pytest.mark.parametrize("variant", sorted(VARIANTS.keys() - {"tied"}))
@pytest.mark.parametrize("ell", [1, 7, 64])
def test_pytorch_counts_the_same_for_encoders(ell, variant):
    """With the final projection to another width."""
    c = ETransformerConfig(**SIZES | {"L": 2, "d_f": 5, "segments": 2} | VARIANTS[variant])

    assert (flops(c, ell).total, training_flops(c, ell).total) == counted(lambda torch: Plain(torch, c).encoder(ell))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("ell", "ell_z"), [(1, 7), (7, 1)])
def test_pytorch_counts_the_same_for_encoder_decoders(ell, ell_z, variant):
    """Cross-attention meets the context's tokens with W_k, W_v and the primary ones with W_q, W_o."""
    c = EDTransformerConfig(**SIZES | {"L_enc": 2, "L_dec": 3} | VARIANTS[variant])

    assert (flops(c, ell, ell_z).total, training_flops(c, ell, ell_z).total) == counted(
        lambda torch: Plain(torch, c).both(ell, ell_z)
    )


@pytest.mark.parametrize("ell", [1, 7, 64])
def test_pytorch_counts_the_same_for_relative_positions(ell):
    """Forward, in an encoder, which sees distances to both sides, and in a decoder, which sees one."""
    e = ETransformerConfig(**SIZES, L=2, positions="relative")
    d = DTransformerConfig(**SIZES, L=2, positions="relative")

    assert flops(e, ell).total == counted(lambda torch: Plain(torch, e).encoder(ell))[0]
    assert flops(d, ell).total == counted(lambda torch: Plain(torch, d, causal=True).decoder(ell))[0]


@pytest.mark.parametrize("variant", VARIANTS)
def test_one_more_token_costs_what_a_token_costs(variant):
    """With ell - 1 tokens in its cache the fast model does for the next one the work of `flops_per_token`."""
    torch, nn = pytest.importorskip("torch"), pytest.importorskip("transformulary.nn")
    c = DTransformerConfig(**SIZES | {"L": 2} | VARIANTS[variant])
    model, x = nn.DTransformer(c), torch.zeros(1, 7, dtype=torch.int64)
    past = model.new_cache()
    with torch.inference_mode():
        model(x[:, :6], past)
        with counting() as counter:
            model(x[:, 6:], past)

    assert flops_per_token(c, 7).total == counter.get_total_flops()


def test_relative_positions_multiply_distances():
    """W_r meets ell distances under causal masks and 2 ell - 1 otherwise; each score has one more product."""
    c = DTransformerConfig(**SIZES | {"L": 3, "positions": "relative", "mask": ("causal", "full")})  # 2 causal layers
    plain = flops(replace(c, positions="none"), 7)
    more = flops(c, 7)

    assert 2 * (2 * 7 + 13) * 6 * 4 * 12 == more.matrices - plain.matrices
    assert 2 * 3 * 7 * 7 * 6 * 4 == more.attention - plain.attention


def test_per_token_of_both_sequences():
    """An encoder-decoder takes in the tokens of both."""
    assert flops(ORIGINAL, 10, 30).total / 40 == pytest.approx(flops_per_token(ORIGINAL, 10, 30).total, rel=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flops(GPT2, 0), "ell = 0 must be at least 1."),
        (lambda: flops(GPT2, 1025), "ell = 1025 is more than ell_max = 1024: W_p has no column for the rest."),
        (lambda: flops(ORIGINAL, 5, 513), "ell_z = 513 is more than ell_max = 512: W_p has no column for the rest."),
        (lambda: flops(ORIGINAL, 5, 0), "ell_z = 0 must be at least 1."),
        (lambda: cache_bytes(GPT2, 1025), "ell = 1025 is more than ell_max = 1024: W_p has no column for the rest."),
        (lambda: flops(GPT2, 5, 5), "ell_z = 5 is given, and DTransformerConfig has no context sequence."),
        (lambda: weight_bytes(GPT2, "half"), "dtype = 'half' is none of float64, float32, float16, bfloat16, int8."),
        (lambda: cache_bytes_per_token(GPT2, "f"), "dtype = 'f' is none of float64, float32, float16, bfloat16, int8."),
    ],
)  # fmt: skip
def test_wrong_lengths_and_types(call, message):
    """One line with the numbers."""
    with pytest.raises(ConfigError) as error:
        call()

    assert message == str(error.value)


def test_models_without_a_table_of_positions_have_no_longest_sequence():
    """Only W_p ends at ell_max."""
    assert flops(replace(GPT2, positions="rotary"), 5000).total > flops(GPT2, 1024).total
