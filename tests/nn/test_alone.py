"""Attention, MHAttention and TransformerBlock in programs that know nothing of our models."""

import inspect
import math

import numpy as np
import pytest
import torch
from torch import nn

from transformulary import oracle
from transformulary.errors import AlgorithmError, ConfigError
from transformulary.nn import Attention, MHAttention, TransformerBlock
from transformulary.nn.attention import layer
from transformulary.paper import Causal, Full, LayerConfig, Local

REAL = torch.tensor([[True, True, True, False, False], [True] * 5])


def filled(module, seed=0):
    """The module in float64 with parameters far from their initial ones."""
    generator = torch.Generator().manual_seed(seed)
    for theta in module.double().parameters():
        theta.data.copy_(0.4 * torch.randn(theta.shape, generator=generator, dtype=theta.dtype))
    return module


def random(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


MODULES = {
    "Attention": lambda **k: filled(Attention(8, **k)),
    "MHAttention": lambda **k: filled(MHAttention(d_e=8, H=2, **k)),
    "TransformerBlock pre": lambda **k: filled(TransformerBlock(d_e=8, H=2, **k)),
    "TransformerBlock post": lambda **k: filled(TransformerBlock(d_e=8, H=2, order="post", **k)),
}
every = pytest.mark.parametrize("make", MODULES.values(), ids=MODULES)


def test_the_tutorials_block():
    """What people expect of a tutorial's block works: widths in, the same shape out, weights second when asked for."""
    block = TransformerBlock(d_e=64, H=4, d_mlp=256, dropout=0.1, order="post", activation="relu")
    X = torch.randn(2, 4, 64)

    output, weights = block(X, weights=True)

    assert (2, 4, 64) == block(X).shape == output.shape
    assert (2, 4, 4, 4) == weights.shape
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 4))


@every
def test_output_first_then_weights(make):
    """The output is the same with weights and without; they come second."""
    module, X = make(mask=Causal()), random(2, 5, 8)

    output, weights = module(X, weights=True)

    torch.testing.assert_close(module(X), output, rtol=0, atol=1e-15)
    assert torch.equal(weights != 0, torch.ones(5, 5).tril().bool().expand_as(weights))


def test_attention_is_algorithm_4():
    """One head, of its own widths, from X to Z, is the oracle's Attention."""
    module, X, Z = filled(Attention(5, 6, d_attn=3, d_out=4)), random(1, 3, 5), random(1, 4, 6, seed=1)
    lines = {k: getattr(module, f"W_{k}") for k in "qkv"}
    W = oracle.Theta(
        **{f"W_{k}": line.weight.detach().numpy() for k, line in lines.items()},
        **{f"b_{k}": line.bias.detach().numpy() for k, line in lines.items()},
    )

    expected = oracle.Attention(X[0].T.numpy(), Z[0].T.numpy(), W, Full())

    np.testing.assert_allclose(module(X, Z)[0].T.detach().numpy(), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("d_z", [8, 6])
def test_mhattention_is_pytorchs(d_z):
    """With the same matrices, attention to Z and its weights are those of nn.MultiheadAttention."""
    ours = filled(MHAttention(d_e=8, H=2, d_z=d_z, absent=set() if d_z == 8 else {"b_u"}))
    theirs = nn.MultiheadAttention(8, 2, batch_first=True, kdim=d_z, vdim=d_z).double()
    parts = [ours.W_qkv.weight[8 * k : 8 * k + 8] for k in range(3)] if d_z == 8 else []
    parts = parts or [line.weight for line in (ours.W_qkv.W_q, ours.W_qkv.W_k, ours.W_qkv.W_v)]
    bias = ours.W_qkv.bias if d_z == 8 else torch.cat([getattr(ours.W_qkv, f"W_{k}").bias for k in "qkv"])
    with torch.no_grad():
        if d_z == 8:
            theirs.in_proj_weight.copy_(torch.cat(parts))
        else:
            for part, weight in zip(("q", "k", "v"), parts, strict=True):
                getattr(theirs, f"{part}_proj_weight").copy_(weight)
        theirs.in_proj_bias.copy_(bias)
        theirs.out_proj.weight.copy_(ours.W_o.weight)
        theirs.out_proj.bias.copy_(ours.W_o.bias)
    X, Z = random(2, 5, 8), random(2, 4, d_z, seed=1)

    output, weights = ours(X, Z, weights=True)

    expected, shown = theirs(X, Z, Z, average_attn_weights=False)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(weights, shown, rtol=0, atol=1e-14)


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_block_is_pytorchs(order, activation):
    """With the same parameters, a block is nn.TransformerEncoderLayer, norms first or last."""
    ours = filled(TransformerBlock(d_e=8, H=2, d_mlp=16, order=order, activation=activation))
    theirs = nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation, norm_first=order == "pre", batch_first=True).double()
    order_of = ["attention.W_qkv", "attention.W_o", "mlp.W_mlp1", "mlp.W_mlp2", "norm_1", "norm_2"]
    values = [ours.get_parameter(f"{name}.{kind}") for name in order_of for kind in ("weight", "bias")]
    with torch.no_grad():
        for target, value in zip(theirs.parameters(), values, strict=True):
            target.copy_(value)
    X = random(2, 5, 8)

    torch.testing.assert_close(ours(X), theirs(X), rtol=0, atol=1e-13)
    torch.testing.assert_close(
        ours(X, real=REAL)[REAL], theirs(X, src_key_padding_mask=~REAL)[REAL], rtol=0, atol=1e-13
    )


@every
def test_true_means_may_attend(make):
    """One true entry in a row: the token looks at that one alone, whatever the form of the mask; all say the same."""
    module, X = make(), random(2, 5, 8)
    table = torch.ones(5, 5).tril().bool()

    for mask in (Causal(), table, table.int(), table.expand(2, 5, 5)):
        output, weights = module(X, mask=mask, weights=True)
        assert float(weights[..., 0, 0].detach().mean()) == 1
        torch.testing.assert_close(output, module(X, mask=Causal()), rtol=0, atol=1e-14)


@every
@pytest.mark.parametrize("mask", [torch.ones(5, 5), torch.full((5, 5), 2)])
def test_other_numbers_are_no_mask(make, mask):
    """A mask of floats, or of other integers, is refused: nothing is added to scores by mistake."""
    with pytest.raises(AlgorithmError, match="true means may attend"):
        make()(random(2, 5, 8), mask=mask)


@every
@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf])
def test_what_lies_in_padding_means_nothing(make, bad):
    """Whatever stands in padded slots, NaN too: outputs, weights and gradients of tokens are those of the row alone."""
    module, X = make(), random(2, 5, 8)
    X[0, 3:] = bad
    module(X[:1, :3]).square().sum().backward()
    alone = [theta.grad.clone() for theta in module.parameters()]
    module.zero_grad()

    output, weights = module(X, real=REAL, weights=True)
    output[0, :3].square().sum().backward()

    torch.testing.assert_close(output[:1, :3], module(X[:1, :3]), rtol=0, atol=1e-12)
    assert float(weights[0, ..., 3:].detach().abs().max()) == 0
    for theta, grad in zip(module.parameters(), alone, strict=True):
        torch.testing.assert_close(theta.grad, grad, rtol=1e-10, atol=1e-12)


@every
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_a_mask_hides_from_all(make, bad):
    """NaN in a slot that a mask shows to no query comes out of that slot alone, and is in no gradient."""
    module, X = make(), random(2, 5, 8)
    hidden, clean = torch.ones(2, 1, 5).bool(), X.clone()
    hidden[0, :, 3:], X[0, 3:] = False, bad
    module(clean, mask=hidden)[REAL].square().sum().backward()
    expected = [theta.grad.clone() for theta in module.parameters()]
    module.zero_grad()

    output = module(X, mask=hidden)
    output[REAL].square().sum().backward()

    assert output[~REAL].isnan().all()
    torch.testing.assert_close(output[REAL], module(clean, mask=hidden)[REAL], rtol=0, atol=1e-12)
    for theta, grad in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(theta.grad, grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("make", [lambda: Attention(8), lambda: MHAttention(d_e=8, H=2)])
def test_what_a_mask_hides_of_another_sequence(make):
    """NaN in a slot of Z that a mask shows to no query is in no output and in no gradient."""
    module, X, Z = filled(make()), random(2, 4, 8), random(2, 5, 8, seed=1)
    hidden = REAL[:, None].expand(2, 4, 5)
    Z[0, 3:] = math.nan

    output = module(X, Z, mask=hidden)
    output.square().sum().backward()

    torch.testing.assert_close(output, module(X, Z.nan_to_num(), mask=hidden), rtol=0, atol=1e-12)
    assert all(theta.grad.isfinite().all() for theta in module.parameters())


@every
def test_a_token_that_nobody_looks_at_looks_at_others(make):
    """A strictly causal mask shows the last token to nobody; what comes out of it depends on it all the same."""
    module, X = make(), random(1, 5, 8)
    strict = torch.ones(5, 5).tril(-1).bool()

    assert not torch.equal(
        module(X, mask=strict)[:, 4], module(X * torch.tensor([1, 1, 1, 1, 2.0])[:, None], mask=strict)[:, 4]
    )


@every
@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        ((2, 5, 7), {}, r"X has shape \(2, 5, 7\), and must be \(B, ell, 8\)"),
        ((2, 5, 8), {"mask": REAL}, r"mask has shape \(2, 5\), and must be one of \(5, 5\), \(2, 5, 5\), .*real="),
        ((2, 5, 8), {"mask": REAL[0]}, r"mask has shape \(5,\), and must be one of"),
        ((2, 5, 8), {"mask": torch.ones(5, 5).tril()}, r"mask.bool\(\)"),
    ],
)
def test_shapes_that_do_not_fit(make, X, options, message):
    """What has another shape than a layer reads is one line that says both."""
    with pytest.raises(AlgorithmError, match=message):
        make()(random(*X), **options)


@pytest.mark.parametrize(
    ("X", "real", "message"),
    [
        (random(5, 8), None, r"X has shape \(5, 8\), and must be \(B, ell, 8\): .* One sequence alone is X\[None\]"),
        (random(2, 5, 8), REAL[:, :4], r"real has shape \(2, 4\), and must be \(2, 5\)"),
    ],
)
def test_what_is_no_batch(X, real, message):
    """A sequence alone, and `real` of other sequences, are one line too."""
    with pytest.raises(AlgorithmError, match=message):
        Attention(8).reads.check(X, None, real, None)


def test_a_context_of_another_width():
    """Z has a width of its own."""
    with pytest.raises(AlgorithmError, match=r"Z has shape \(2, 5, 8\), and must be \(B, ell, 6\)"):
        MHAttention(d_e=8, H=2, d_z=6).double()(random(2, 5, 8), random(2, 5, 8))


@every
def test_a_token_that_may_attend_to_nothing(make):
    """Its weights are 0, and all gradients are finite; the others do not notice."""
    module, X = make(), random(1, 3, 8).requires_grad_()
    table = torch.tensor([[True, True, False], [False] * 3, [True] * 3])

    output, weights = module(X, mask=table, weights=True)
    output.square().sum().backward()

    assert [0.0] * 3 == weights.reshape(-1, 3, 3)[0, 1].tolist()
    assert all(theta.grad.isfinite().all() for theta in (X, *module.parameters()))
    torch.testing.assert_close(output[:, 2], module(X)[:, 2], rtol=0, atol=1e-14)


@every
def test_dropout_is_for_training(make):
    """In evaluation nothing is left out and no random number is drawn; in training some is."""
    module, X = make(dropout=0.5), random(2, 5, 8)
    state = torch.get_rng_state()

    assert module.eval()(X).tolist() == module(X).tolist()
    assert torch.equal(state, torch.get_rng_state())
    assert module.train()(X).tolist() != module(X).tolist()


@pytest.mark.parametrize("positions", ["rotary", "relative", "bucketed"])
def test_positions_inside_attention(positions):
    """A block alone knows where its tokens are: moved by padding on the left they are what they were; reversed, not."""
    block, X = filled(TransformerBlock(d_e=8, H=2, positions=positions)), random(1, 3, 8)
    padded, real = torch.cat([random(1, 2, 8, seed=1), X], 1), torch.tensor([[False, False, True, True, True]])

    torch.testing.assert_close(block(padded, real=real)[:, 2:], block(X), rtol=0, atol=1e-13)
    assert (block(X.flip(1)).flip(1) - block(X)).abs().max() > 1e-4


def test_grouped_queries_and_bands():
    """Fields of LayerConfig are given by name; a mask is a rule."""
    block = TransformerBlock(
        d_e=12, H=4, H_kv=2, d_attn=5, norm="rms_norm", mlp="gated", activation="silu", mask=Local(2)
    )

    _, weights = block(torch.randn(1, 6, 12), weights=True)

    assert (weights > 0).sum(-1)[0, 0].tolist() == [1, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"H": 3}, "H = 3 does not divide d_e = 8"),
        ({"H": 2, "positions": "learned"}, "positions = 'learned' are added to an embedding"),
        ({"H": 2, "positions": "rotary", "frequencies": "yarn", "factor": 2.0}, "frequencies = 'yarn' need ell_train"),
    ],
)
def test_impossible_layers(given, message):
    """What a layer alone cannot be is one clear error."""
    with pytest.raises(ConfigError, match=message):
        LayerConfig(d_e=8, **given)


@pytest.mark.parametrize(
    ("c", "widths", "message"),
    [
        (64, {}, "64 is no config: give a config alone, or name every size, d_e=64, H=4 for example"),
        (LayerConfig(d_e=8, H=2), {"H": 4}, "a config and H are given"),
        (None, {"hidden_size": 64, "H": 4}, "LayerConfig has no 'hidden_size'. The paper calls it d_e"),
        (None, {"d_e": 64}, "LayerConfig cannot do without H"),
    ],
)
def test_what_is_no_layer(c, widths, message):
    """Sizes without names, a config with more sizes, names of others and missing sizes are one clear error each."""
    with pytest.raises(ConfigError, match=message):
        layer(c, widths)


def test_an_unknown_order_or_dropout():
    """Norms stand before or after; dropout is a probability."""
    with pytest.raises(ConfigError, match="order = 'first' is none of pre, post"):
        TransformerBlock(d_e=8, H=2, order="first")
    for make in (Attention, lambda d, **k: MHAttention(d_e=d, H=2, **k)):
        with pytest.raises(ConfigError, match=r"dropout = 1.5 is outside \[0, 1\)"):
            make(8, dropout=1.5)


@every
def test_hooks_see_what_others_hooks_see(make):
    """They are ordinary modules: a forward hook is called with what comes out, and state goes out and in."""
    module, seen, X = make(), [], random(1, 3, 8)
    module.register_forward_hook(lambda module, args, output: seen.append(output))
    copied = make()
    for theta in copied.parameters():
        theta.data.zero_()
    copied.load_state_dict(module.state_dict())

    assert [module(X).tolist()] == [copied(X).tolist()]
    assert len(seen) == 1
    assert "weights" in inspect.signature(module.forward).parameters
