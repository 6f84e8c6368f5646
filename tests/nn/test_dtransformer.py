"""Properties of the fast decoder that need no reference: pieces, batches, causality, precision, dropout, limits."""

import copy
import itertools
import math
import pickle

import pytest
import torch
from torch import nn

from nn.models import VARIANTS, config, model, tokens
from transformulary import oracle
from transformulary.conform.theta import theta_of
from transformulary.errors import AlgorithmError, ConfigError
from transformulary.nn import DTransformer, attention_weights, evaluating
from transformulary.nn.transformer import check_ids
from transformulary.paper import Full, Prefix, leaves, parameters

CAUSAL = [v["mask"] for v in VARIANTS["mask"] if v["mask"] not in (Full(), Prefix(3))]
EVERY = [change for changes in VARIANTS.values() for change in changes]


@pytest.mark.parametrize("mask", CAUSAL, ids=str)
@pytest.mark.parametrize(
    "change", [{}, {"positions": "rotary", "H_kv": 2}, {"positions": "sinusoid", "d_mid": 3}], ids=str
)
@pytest.mark.parametrize("pieces", [[1] * 9, [4, 1, 1, 3], [3, 1, 2, 3], [9]], ids=str)
def test_pieces_equal_the_whole(mask, change, pieces):
    """Remembering keys and values gives what one pass over the whole sequence gives."""
    c = config(mask=mask, **change)
    fast, x = model(c), tokens(c, 2, 9)
    past = fast.new_cache()

    with torch.no_grad():
        whole = fast(x)
        parts = torch.cat([fast(piece, past) for piece in x.split(pieces, 1)], 1)

    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-13)
    assert [9, 9] == [memory.length for memory in past]


def test_memories_outgrow_their_first_buffers():
    """150 tokens, one by one, are more than the buffers first hold; float32 agrees to 1e-5 of the largest logit."""
    c = config(positions="rotary")
    fast, x = model(c).float(), tokens(c, 1, 150)
    past = fast.new_cache()

    with torch.no_grad():
        whole, parts = fast(x), torch.cat([fast(piece, past) for piece in x.split(1, 1)], 1)

    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-5 * float(whole.abs().max()))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([[3, 11]], r"x has the token id 11, outside the vocabulary \[0, N_V\) = \[0, 11\)"),
        ([[3, -1]], "x has the token id -1, outside"),
    ],
)
def test_ids_outside_the_vocabulary(x, message):
    """An id outside the vocabulary is one line, in `forward` and for the weights that are shown."""
    fast, x = model(config()), torch.tensor(x, dtype=torch.int64)

    for compute in (fast, lambda x: attention_weights(fast, x)):
        with pytest.raises(AlgorithmError, match=message):
            compute(x)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([3, 1], r"x has shape \(2,\), and must be \(B, ell\)"),
        ([[3.0]], "x has type float32: token ids are whole numbers"),
        ([[True]], "x has type bool"),
    ],
)
def test_what_is_no_batch_of_ids(x, message):
    """A wrong shape or type is refused by `check_ids` (the tests' own shape checking would come before it)."""
    with pytest.raises(AlgorithmError, match=message):
        check_ids(torch.tensor(x), 11)


@pytest.mark.parametrize("mask", ["full", "prefix(3)"])
def test_a_mask_that_looks_ahead_has_no_memory(mask):
    """Where a token sees later ones its keys change as the text grows, so a cache is refused, naming the mask."""
    with pytest.raises(ConfigError, match=rf"mask {mask[:4]}.* cannot be remembered"):
        model(config(mask=(mask, "causal"))).new_cache()


def test_dynamic_frequencies_have_no_memory():
    """Where every key turns anew as the text grows, there is no cache that would be right."""
    with pytest.raises(ConfigError, match="dynamic frequencies depend on the length"):
        DTransformer(config(positions="rotary", d_attn=4, frequencies="dynamic")).new_cache()


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_alone_equals_in_a_batch(change):
    """The logits of a sequence do not depend on its neighbours in the batch."""
    c = config(**change)
    fast, x = model(c), tokens(c, 5, 7)

    with torch.no_grad():
        torch.testing.assert_close(fast(x)[2:3], fast(x[2:3]), rtol=0, atol=1e-13)


@pytest.mark.parametrize("mask", CAUSAL, ids=str)
def test_the_future_changes_nothing(mask):
    """Other tokens from position 5 on leave the logits before bitwise as they were, even if they are not finite."""
    c = config(mask=mask)
    fast, x = model(c), tokens(c, 2, 9)
    other = torch.cat([x[:, :5], (x[:, 5:] + 1) % c.N_V], 1)
    ill = copy.deepcopy(fast)
    ill.W_p.weight.data[5:] = math.nan

    with torch.no_grad():
        assert fast(x)[:, :5].tolist() == fast(other)[:, :5].tolist()
        torch.testing.assert_close(ill(x)[:, :5], fast(x)[:, :5], rtol=0, atol=1e-13)
        assert ill(x)[:, 5:].isnan().all()


@pytest.mark.parametrize(("dtype", "eps"), [(torch.float32, 2.0**-24), (torch.bfloat16, 2.0**-9)], ids=str)
@pytest.mark.parametrize("change", EVERY, ids=str)
def test_precision(change, dtype, eps):
    """float32 and bfloat16 err no more than exact arithmetic does on parameters that are a few roundings off.

    A rounding of size eps in line 5, 6, 7, 8, 10 or 11 is what a change of that line's parameters by a relative eps
    makes of it.  So the yardstick is the spread (root mean square) of the float64 logits when every parameter is
    changed at random by a relative eps, which contains the conditioning of this very model and input; a line
    rounds a few times (matrix product, bias, function, residual sum), and 4 allows for the square root of 16 of
    them.  Measured over all choices and pairs, in both precisions: at most 2.3.
    """
    c = config(**{"eps": 1e-5, **change})
    fast, x = model(c), tokens(c, 1, 7)
    low = copy.deepcopy(fast).to(dtype)
    fast.load_state_dict({name: value.double() for name, value in low.state_dict().items()})

    with torch.no_grad():
        exact = fast(x)
        error = root_mean_square(low(x) - exact)
        spread = root_mean_square(torch.stack([shaken(fast, eps, seed)(x) - exact for seed in range(8)]))

    assert 0 < error <= 4 * spread


def root_mean_square(X: torch.Tensor) -> float:
    return float(X.square().mean().sqrt())


def shaken(fast: DTransformer, eps: float, seed: int) -> DTransformer:
    """The model with every parameter changed by a random relative eps."""
    generator, moved = torch.Generator().manual_seed(seed), copy.deepcopy(fast)
    for theta in moved.parameters():
        theta.mul_(1 + eps * torch.randn(theta.shape, generator=generator, dtype=theta.dtype))
    return moved


def test_half_precision_knows_no_large_constants():
    """float16 and bfloat16 with every mask work and equal float32 to 1e-2 (a fill of -1e9 would not fit float16)."""
    for mask, dtype in itertools.product(CAUSAL, [torch.float16, torch.bfloat16]):
        c = config(mask=mask, eps=1e-5)
        fast = DTransformer(c, generator=torch.Generator().manual_seed(0)).eval()
        x = tokens(c, 1, 7)

        with torch.no_grad():
            torch.testing.assert_close(copy.deepcopy(fast).to(dtype)(x).float(), fast(x), rtol=0, atol=1e-2)


@pytest.mark.parametrize(
    "positions", ["none", "rotary", "sinusoid", "sinusoid_vaswani", "sinusoid_halves", "sinusoid_t2t"]
)
def test_formulas_have_no_longest_sequence(positions):
    """Where positions are a formula or nowhere, ell_max = 9 is no limit."""
    c = config(positions=positions)

    assert (1, 20, 11) == model(c)(tokens(c, 1, 20)).shape


def test_too_long_is_an_error_with_both_numbers():
    """A table of 9 positions takes 9 tokens and refuses 10, at once or after a cache, before anything is computed."""
    fast = model(config())
    x = tokens(fast.config, 1, 10)
    past = fast.new_cache()
    fast(x[:, :9], past)

    for arguments in ((x,), (x[:, 9:], past)):
        with pytest.raises(AlgorithmError, match=r"10 tokens is longer than ell_max = 9"):
            fast(*arguments)
    assert [9, 9] == [memory.length for memory in past]


def test_evaluating_draws_nothing():
    """With dropout 0.5, evaluation is bitwise the same twice and leaves the random state alone; training is neither."""
    fast = DTransformer(config(), dropout=0.5)
    x = tokens(fast.config, 2, 7)

    state = torch.get_rng_state()
    evaluated = [fast.eval()(x).tolist() for _ in range(2)]
    weights = attention_weights(fast.train(), x)[0]
    undisturbed = torch.equal(state, torch.get_rng_state())
    trained = [fast(x).tolist() for _ in range(2)]

    assert evaluated[0] == evaluated[1]
    assert undisturbed
    assert trained[0] != trained[1]
    assert fast.training and all(module.training for module in fast.modules())
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 7))


def silenced(fast, *names):
    """The model with some parameters set to 0."""
    for name in names:
        fast.get_parameter(name).data.zero_()
    return fast


ATTENTION = ("layers.0.attention.W_o.weight", "layers.0.attention.W_o.bias")
MLP = ("layers.0.mlp.W_mlp2.weight", "layers.0.mlp.W_mlp2.bias")


@pytest.mark.parametrize(
    ("place", "silent"),
    [("dropout", ()), ("layers.0.attention", ()), ("layers.0.dropout", MLP), ("layers.0.dropout", ATTENTION)],
    ids=["embedding", "attention weights", "line 6", "line 8"],
)
def test_dropout_is_where_gpt2_has_it(place, silent):
    """Each of the four places leaves something out, though the others are switched off or add 0; evaluation never."""
    fast = silenced(DTransformer(config(L=1), dropout=0.5).eval(), *silent)
    x = tokens(fast.config, 1, 7)
    evaluated = [fast(x).tolist() for _ in range(2)]
    fast.get_submodule(place).train()

    assert evaluated[0] == evaluated[1]
    assert fast(x).tolist() != fast(x).tolist()


def test_evaluating_restores_each_module():
    """A part of the model that was not training before is not training after, even if something fails in between."""
    fast = DTransformer(config()).train()
    fast.layers[1].eval()
    before = {name: module.training for name, module in fast.named_modules()}

    with pytest.raises(KeyError), evaluating(fast):
        assert not any(module.training for module in fast.modules())
        raise KeyError

    assert before == {name: module.training for name, module in fast.named_modules()}


@pytest.mark.parametrize("dropout", [-0.1, 1.0, math.nan])
def test_an_impossible_dropout_is_an_error(dropout):
    """Dropout is a probability below 1."""
    with pytest.raises(ConfigError, match="dropout"):
        DTransformer(config(), dropout=dropout)


def test_attention_weights_are_those_of_the_oracle():
    """Row t_x of layer l, head h is column t_x of the value 10.6[l]/5.2[h]/4.6:softmax."""
    c = config(mask=("causal", "local(2)"), H_kv=2, positions="rotary")
    fast, x = model(c), tokens(c, 1, 6)
    seen = oracle.record("DTransformer", x[0].tolist(), theta_of(fast), c)

    for l, weights in enumerate(attention_weights(fast, x), 1):
        for h in range(c.H):
            expected = torch.from_numpy(seen[f"10.6[l={l}]/5.2[h={h + 1}]/4.6:softmax"].T.copy())
            torch.testing.assert_close(weights[0, h], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_has_the_parameters_of_the_paper(change):
    """A fast model has as many numbers as the paper's table of parameters, for every choice."""
    c = config(**change)

    assert sum(n * math.prod(shape) for _, n, shape in leaves(parameters(c), c)) == sum(
        theta.numel() for theta in DTransformer(c).parameters()
    )


def test_initial_parameters_are_gpt2s():
    """Matrices N(0, 0.02^2), the two that end a residual branch smaller by sqrt(2 L); biases 0; gamma 1."""
    made = DTransformer(config(d_e=128, d_mlp=512, N_V=500, L=8), generator=torch.Generator().manual_seed(0))
    made.requires_grad_(False)
    layer = made.layers[7]

    assert 0.02 == pytest.approx(float(made.W_e.weight.std()), rel=0.02)
    assert 0.02 == pytest.approx(float(layer.attention.W_qkv.weight.std()), rel=0.02)
    assert 0.02 / 4 == pytest.approx(float(layer.attention.W_o.weight.std()), rel=0.02)
    assert 0.02 / 4 == pytest.approx(float(layer.mlp.W_mlp2.weight.std()), rel=0.02)
    assert {0.0} == {float(theta.abs().max()) for name, theta in made.named_parameters() if name.endswith("bias")}
    assert {1.0} == {float(m.weight.min()) for m in made.modules() if isinstance(m, nn.LayerNorm)}


def test_a_generator_alone_decides_the_initial_parameters():
    """The same seed gives bitwise the same model, whatever torch's global generator did before."""

    def made(seed):
        return DTransformer(config(), generator=torch.Generator().manual_seed(seed)).state_dict()

    torch.manual_seed(1)
    first = made(7)
    torch.rand(3)
    again, other = made(7), made(8)

    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["W_e.weight"], other["W_e.weight"])


def test_a_constant_token_without_eps_is_not_finite():
    """Algorithm 6 has no eps: where all numbers of a token are equal the norm is 0/0, and IEEE says NaN."""
    fast = model(config(positions="none"))
    fast.W_e.weight.data[3] = 1.0

    assert fast(torch.tensor([[3]])).isnan().all()


def test_a_model_can_be_copied_and_pickled():
    """Copies compute the same; a tied model stays tied."""
    fast = model(config(positions="rotary", tied=True))
    x = tokens(fast.config, 1, 5)

    for copied in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert fast(x).tolist() == copied(x).tolist()
        assert copied.W_u.weight is copied.W_e.weight


def test_an_empty_sequence_harms_nobody():
    """Length 0 gives logits of length 0."""
    assert (2, 0, 11) == model(config())(torch.zeros(2, 0, dtype=torch.int64)).shape


def test_odd_width():
    """Vaswani's sinusoids of an odd d_e leave out the last cosine."""
    fast = DTransformer(config(positions="sinusoid_vaswani", d_e=5, H=1))

    expected = [0.841471, 0.540302, 0.025116, 0.999685, 0.000631]
    assert expected == pytest.approx(fast.W_p(torch.tensor([1]))[0].tolist(), abs=1e-6)
