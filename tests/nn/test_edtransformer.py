"""The fast encoder-decoder: what is remembered of either sequence, its three kinds of attention, what sees what."""

import copy
import pickle

import numpy as np
import pytest
import torch

from nn.models import EVERY, config, inputs, model, tokens
from transformulary import oracle
from transformulary.conform.theta import theta_of
from transformulary.errors import AlgorithmError
from transformulary.nn import EDTransformer, attention_weights
from transformulary.paper import EDTransformerConfig, PreEDTransformerConfig, TwoStacks

KINDS = [EDTransformerConfig, PreEDTransformerConfig]
ED = [(kind, change) for kind, change in EVERY if issubclass(kind, TwoStacks)]
NAMES = {EDTransformerConfig: ("EDTransformer", "8.5", "8.14", "8.16")}
NAMES[PreEDTransformerConfig] = ("PreEDTransformer", "8a.6", "8a.16", "8a.18")


@pytest.mark.parametrize("pieces", [[1] * 7, [3, 1, 2, 1], [7]], ids=str)
@pytest.mark.parametrize(("kind", "change"), ED, ids=str)
def test_pieces_equal_the_whole(kind, change, pieces):
    """Reading z once and x in pieces gives what one pass over both gives."""
    c = config(kind, **change)
    fast, (z, x) = model(c), inputs(c, 2, 7)

    with torch.no_grad():
        source, past = fast.read(z), fast.new_cache()
        parts = torch.cat([fast.decode(piece, source, past) for piece in x.split(pieces, 1)], 1)

        torch.testing.assert_close(parts, fast(z, x), rtol=0, atol=1e-12)
    assert past.length == 7


def test_the_context_is_read_once():
    """Decoding meets W_k and W_v of the attention to z no more: spoiling them after `read` changes nothing."""
    c = config(EDTransformerConfig)
    fast, (z, x) = model(c), inputs(c, 1, 6)
    with torch.no_grad():
        whole, source, past = fast(z, x), fast.read(z), fast.new_cache()
        for layer in fast.decoder:
            layer.cross.W_qkv.weight[c.d_e :] = torch.nan
        for theta in fast.encoder.parameters():
            theta.fill_(torch.nan)

        torch.testing.assert_close(
            torch.cat([fast.decode(token, source, past) for token in x.split(1, 1)], 1), whole, rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("kind", KINDS)
def test_hypotheses_go_on_from_selected_rows(kind):
    """After `select`, rows of source and past are those that were named, as often as they were: a beam goes on."""
    c = config(kind)
    fast, (z, x) = model(c), inputs(c, 3, 6)
    real, rows = torch.ones(3, 3, dtype=torch.bool), torch.tensor([2, 0, 2, 1])
    real[2, 2] = False
    with torch.no_grad():
        source, past = fast.read(z, real=real), fast.new_cache()
        fast.decode(x[:, :4], source, past)
        past.select(rows)
        continued = fast.decode(x[rows, 4:], source.select(rows), past)

        torch.testing.assert_close(continued, fast(z, x, real_z=real)[rows, 4:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_weights_are_those_of_the_oracle(kind):
    """Those of the encoder, the decoder and between them are the oracle's softmax, transposed."""
    c = config(kind, H_kv=2, positions="bucketed")
    fast, (z, x) = model(c), inputs(c, 1, 6)
    name, *paths = NAMES[kind]
    seen = oracle.record(name, z[0].tolist(), x[0].tolist(), theta_of(fast), c)

    for layers, path in zip(attention_weights(fast, z, x), paths, strict=True):
        assert len(layers) == 2
        for l, weights in enumerate(layers, 1):
            for h in range(c.H):
                expected = seen[f"{path}[l={l}]/5.2[h={h + 1}]/4.6:softmax"].T
                np.testing.assert_allclose(weights[0, h].numpy(), expected, rtol=0, atol=1e-14)


def test_attention_weights_of_padded_sequences():
    """Nobody looks at padding, in any of the three kinds; what looks sums to 1."""
    c = config(EDTransformerConfig)
    fast, (z, x) = model(c), inputs(c, 1, 6)
    real_z, real_x = torch.tensor([[False, True, True]]), torch.arange(6)[None] < 4

    seen = attention_weights(fast, z, x, real_z=real_z, real_x=real_x)

    for layers, real in zip(seen, (real_z, real_x, real_z), strict=True):
        for weights in layers:
            assert float(weights[..., ~real[0]].abs().max()) == 0
    for weights in (*seen.decoder, *seen.cross):
        torch.testing.assert_close(weights[:, :, :4].sum(-1), torch.ones(1, 4, 4).double())


@pytest.mark.parametrize("kind", KINDS)
def test_what_sees_what(kind):
    """Every token of z changes all logits; a token of x only its own and later ones, bitwise."""
    c = config(kind)
    fast, (z, x) = model(c), inputs(c, 1, 6)
    other_z, other_x = z.clone(), x.clone()
    other_z[0, 2], other_x[0, 4] = (z[0, 2] + 1) % 11, (x[0, 4] + 1) % 11

    with torch.no_grad():
        before, later = fast(z, x), fast(z, other_x)

        assert (fast(other_z, x) - before).abs().amax(-1).min() > 1e-4
        assert later[:, :4].tolist() == before[:, :4].tolist()
        assert (later[:, 4:] - before[:, 4:]).abs().amax(-1).min() > 1e-4


def test_too_long_a_context_or_sequence():
    """Either sequence may have ell_max = 9 tokens and no more; at once, or after a past."""
    c = config(EDTransformerConfig)
    fast, (z, x) = model(c), (tokens(c, 1, 10), tokens(c, 1, 9))
    source, past = fast.read(x), fast.new_cache()
    fast.decode(x, source, past)

    for refused in (lambda: fast(z, x), lambda: fast(x, z), lambda: fast.decode(x[:, :1], source, past)):
        with pytest.raises(AlgorithmError, match="10 tokens is longer than ell_max = 9"):
            refused()


def test_layers_of_algorithm_8a_share_one_b():
    """T5's B is one parameter of each stack, not of each layer; its gradient is that of all layers together."""
    c = config(PreEDTransformerConfig, positions="bucketed")

    names = [name for name, _ in EDTransformer(c).named_parameters() if name.endswith("B")]

    assert names == ["scores_enc.B", "scores_dec.B"]


def test_initial_parameters():
    """Matrices that end a branch are smaller by the root of the branches where norms come before, else not."""
    big = {"d_e": 128, "d_mlp": 512, "N_V": 500, "L_enc": 8, "L_dec": 6}
    post, pre = (EDTransformer(config(k, **big), generator=torch.Generator().manual_seed(0)) for k in KINDS)

    def spread(made, name):
        return pytest.approx(float(made.get_parameter(f"{name}.weight").detach().std()), rel=0.02)

    assert spread(post, "encoder.3.attention.W_o") == 0.02
    assert spread(pre, "encoder.3.attention.W_o") == 0.02 / 4
    assert spread(pre, "decoder.3.cross.W_o") == 0.02 / 18**0.5
    assert spread(pre, "decoder.3.mlp.W_mlp4") == 0.02 / 18**0.5
    assert spread(pre, "decoder.3.mlp.W_mlp3") == 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_can_be_copied_and_pickled(kind):
    """Copies compute the same; a tied model stays tied."""
    fast = model(config(kind, tied=True, positions="bucketed"))
    given = inputs(fast.config, 1, 5)

    for copied in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert fast(*given).tolist() == copied(*given).tolist()
        assert copied.W_u.weight is copied.W_e.weight
