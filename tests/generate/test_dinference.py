"""Algorithm 14 on the fast model."""

import math

import pytest
import torch

from generate.scripted import Script
from transformulary.errors import AlgorithmError, CheckpointError, ConfigError, TokenError
from transformulary.generate import DInference, Sampling
from transformulary.generate.dinference import last, last_logits
from transformulary.generate.sampling import draw
from transformulary.nn import DTransformer
from transformulary.paper import Causal, DTransformerConfig, Full, Local

SIZES = {"N_V": 31, "ell_max": 12, "L": 2, "H": 3, "d_e": 12, "d_mlp": 20, "eps": 1e-5}
GREEDY = Sampling(tau=0)


def make(dropout=0.0, **choices):
    """A small random model in float64."""
    model = DTransformer(DTransformerConfig(**SIZES | choices), dropout, torch.Generator().manual_seed(0)).double()
    return model.eval()


@pytest.mark.parametrize("choices", [{}, {"positions": "rotary", "d_attn": 4}, {"mask": (Causal(), Local(3))}])
def test_remembering_equals_computing_anew(choices):
    """With a cache the logits are those of the whole sequence, token by token and in pieces (float64, 1e-12)."""
    model, x = make(**choices), torch.randint(31, (12,), generator=torch.Generator().manual_seed(1)).tolist()
    for ends in (range(1, 13), [4, 5, 6, 12]):
        logits = last_logits(model, crop=False)
        for end in ends:
            torch.testing.assert_close(logits(x[:end]), last(model, x[:end]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("choices", [{}, {"mask": (Full(),)}, {"mask": (Local(2),)}])
def test_it_is_the_algorithm(choices):
    """The tokens are those of Algorithm 14 written down: the whole sequence, the last column, one draw."""
    model, x = make(**choices), [3, 1, 4]
    sampling, generator = Sampling(tau=1.5, top_k=20, top_p=0.9), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for _ in range(8):
            q = sampling(model(torch.tensor([x]))[0, -1])
            x = [*x, draw(q, generator)]

    assert list(DInference(model, [3, 1, 4], 8, sampling, seed=7)) == x[3:]


def test_each_token_is_computed_once():
    """The prompt goes through the model in one piece, then every token alone; the last one is never needed."""
    model = Script([5, 5, 6, 7, 8, 9], 10)

    y = list(DInference(model, [1, 2, 3], 3))

    assert y == [6, 7, 8]
    assert model.calls == [[1, 2, 3], [6], [7]]


@pytest.mark.parametrize(("ell", "ell_gen", "generated"), [(12, 5, 1), (11, 5, 2), (1, 12, 12), (1, 20, 12), (3, 0, 0)])
def test_how_much_is_generated(ell, ell_gen, generated):
    """At most ell_max + 1 - ell tokens: a prompt of exactly ell_max gives one."""
    assert len(list(DInference(make(), [1] * ell, ell_gen))) == generated


def test_without_a_table_of_positions_there_is_no_limit():
    """A rotary model goes on beyond ell_max."""
    assert len(list(DInference(make(positions="rotary", d_attn=4), [1] * 13, 20))) == 20


@pytest.mark.parametrize("ell", [1, 12, 13, 30])
def test_crop(ell):
    """With crop each token is drawn from the model's view of the last ell_max tokens alone, computed anew."""
    model, x = make(), [i % 31 for i in range(ell)]
    for _ in range(20):
        x.append(int(last(model, x[-12:]).argmax()))

    assert list(DInference(model, x[:ell], 20, GREEDY, crop=True)) == x[ell:]


@pytest.mark.parametrize(
    ("x", "settings", "error", "message"),
    [
        ([], {}, AlgorithmError, "prompt is empty"),
        ([1] * 13, {}, AlgorithmError, "13 tokens, more than ell_max = 12"),
        ([1, 31], {}, TokenError, r"token 31, outside \[0, N_V\) = \[0, 31\)"),
        ([-1], {}, TokenError, "token -1"),
        ([1], {"ell_gen": -1}, ConfigError, "ell_gen = -1"),
        ([1], {"seed": 2**64}, ConfigError, "seed = 18446744073709551616"),
        ([1], {"ids": [40]}, ConfigError, "no token may be drawn"),
    ],
)
def test_impossible_requests_are_refused_at_once(x, settings, error, message):
    """Everything is checked before the first token is asked for, so before anything is computed."""
    with pytest.raises(error, match=message):
        DInference(make(), x, **{"ell_gen": 3} | settings)


def test_a_seed_repeats_and_no_global_state_is_touched():
    """One seed, one result, whatever else is drawn meanwhile; torch's global random state stays as it was."""
    model, state = make(), torch.get_rng_state()
    alone = list(DInference(model, [1], 11, seed=3))
    a, b = DInference(model, [1], 11, seed=3), DInference(model, [1], 11)

    together = [y for y, _ in zip(a, b, strict=True)]

    assert together == alone
    assert torch.equal(torch.get_rng_state(), state)
    assert len({tuple(DInference(model, [1], 11, seed=seed)) for seed in range(5)}) == 5


def test_end_of_sequence():
    """It ends after any of the eos ids, which is the last token; an eos in the prompt ends nothing."""
    model = Script([1, 1, 4, 5, 6, 7], 10)

    assert list(DInference(model, [6, 5], 9, eos=[5, 6])) == [1, 4, 5]


def test_only_tokens_that_there_are_can_be_drawn():
    """Of 16 equally probable logits, of which the tokenizer has 11, in 10,000 draws only those 11 come."""
    model = make(N_V=16, positions="none")
    model.W_u.weight.data.zero_()

    y = list(DInference(model, [1], 300, Sampling(tau=math.inf), seed=0, ids=range(11)))

    assert set(y) == set(range(11))


def test_uniform_over_the_real_vocabulary():
    """At infinite temperature the most improbable token is drawn as often as any, and a banned one never."""
    q = Sampling(tau=math.inf)(
        torch.tensor([5.0, -300.0, 0.0, 9.0]).masked_fill(torch.tensor([0, 0, 0, 1]) == 1, -math.inf)
    )

    assert q.tolist() == [1 / 3, 1 / 3, 1 / 3, 0]


def test_dropout_is_off_and_the_mode_comes_back():
    """A model in training mode generates as in evaluation, and between tokens is in training mode again."""
    training, evaluated = make(dropout=0.5).train(), make()
    training.layers[0].eval()
    modes = [module.training for module in training.modules()]

    y = []
    for token in DInference(training, [1], 9, GREEDY):
        y.append(token)
        assert [module.training for module in training.modules()] == modes

    assert y == list(DInference(evaluated, [1], 9, GREEDY))


def test_no_gradient_is_kept():
    """The logits have no graph, and the caller's gradient mode is as it was between tokens."""
    model = make()

    for _ in DInference(model, [1], 3):
        assert torch.is_grad_enabled()

    assert not last(model, [1, 2]).requires_grad


def test_a_damaged_model_is_an_error():
    """NaN among the parameters ends generation with an error that says so."""
    model = make()
    model.W_u.weight.data[3, 0] = math.nan

    with pytest.raises(CheckpointError, match="largest logit is nan"):
        list(DInference(model, [1], 3))
