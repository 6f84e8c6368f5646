"""Algorithm 15 of the fast model: the oracle's tokens, each z its own, and beam search as it is defined."""

import itertools
import math

import numpy as np
import pytest
import torch

from nn.models import config, model
from transformulary import oracle
from transformulary.conform.theta import theta_of
from transformulary.errors import AlgorithmError, CheckpointError, ConfigError, TokenError
from transformulary.generate import Beam, EDInference, Frame, Sampling
from transformulary.paper import EDTransformerConfig, Inference, PreEDTransformerConfig

KINDS = [EDTransformerConfig, PreEDTransformerConfig]
FRAME = Frame(bos_token=3, eos=(5,))
CONTEXTS = [[1, 2, 3], [4], [0, 9, 8, 7, 6, 5], [2, 2]]


class Same:
    """The numbers that the fast model's generator of this seed draws, for the oracle."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def random(self):
        return 1 - float(torch.rand((), dtype=torch.float64, generator=self.generator))


def sharp(kind, seed=0, **changes):
    """A model whose distributions are far from flat."""
    fast = model(config(kind, **changes), seed)
    with torch.no_grad():
        fast.W_u.weight.mul_(3)
    return fast


def by_the_oracle(fast, z, how, frame, ell_gen, seed):
    """The oracle's x^."""
    inference = Inference(top_k=how.top_k, top_p=how.top_p)
    named = {"bos_token": frame.bos_token, "eos_token": frame.eos[0], "tau": how.tau, "ell_gen": ell_gen}
    return oracle.EDInference(z, theta_of(fast), fast.config, inference, **named, rng=Same(seed))


@pytest.mark.parametrize("positions", ["learned", "sinusoid_halves"])
@pytest.mark.parametrize(
    "how", [Sampling(tau=0), Sampling(), Sampling(tau=0.5, top_k=5, top_p=0.9), Sampling(tau=math.inf)], ids=str
)
def test_equals_the_oracle(how, positions):
    """In float64, with the same random numbers, a batch of unequal lengths has the oracle's tokens, z by z."""
    found, theirs = [], []
    for seed in range(2):
        fast = sharp(EDTransformerConfig, seed, positions=positions)
        found += [x for x, _ in EDInference(fast, CONTEXTS, 8, how, frame=FRAME, seed=7)]
        theirs += [by_the_oracle(fast, z, how, FRAME, 8, 7 + n) for n, z in enumerate(CONTEXTS)]

    assert theirs == found
    assert len({*map(tuple, theirs)}) > 1


def test_equals_algorithm_8a():
    """The other encoder-decoder at temperature 0: the most probable token of the oracle's last column."""
    fast = sharp(PreEDTransformerConfig, positions="bucketed")

    found = EDInference(fast, CONTEXTS, 8, Sampling(tau=0), frame=FRAME)

    for z, (x, _) in zip(CONTEXTS, found, strict=True):
        theirs = [3]
        while theirs[-1] != 5 and len(theirs) <= 8:
            theirs.append(int(oracle.PreEDTransformer(z, theirs, theta_of(fast), fast.config)[:, -1].argmax()))
        assert theirs == x


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [Sampling(tau=0), Sampling(tau=2), Beam(N_beam=3), Beam(N_beam=4, alpha=0)], ids=str)
def test_each_context_has_its_own_result(kind, how):
    """What is found for a z is what is found for it alone, and its log p is that of a plain pass over it."""
    fast, frame = sharp(kind, positions="sinusoid"), Frame(bos_token=3, eos=(5, 4))

    found = EDInference(fast, CONTEXTS, 7, how, frame=frame, seed=7)

    for n, (z, (x, log_p)) in enumerate(zip(CONTEXTS, found, strict=True)):
        assert [x] == [alone.x for alone in EDInference(fast, [z], 7, how, frame=frame, seed=7 + n)]
        assert log_p == pytest.approx(plain(fast, z, x), rel=0, abs=1e-11)
    assert {len(h.x) for h in found} != {8}


def plain(fast, z, x):
    """log p(x | z), from one pass over all of x."""
    with torch.no_grad():
        log_p = fast(torch.tensor([z]), torch.tensor([x])).log_softmax(-1)[0]
    return sum(float(log_p[t, y]) for t, y in enumerate(x[1:]))


@pytest.mark.parametrize("until", ["certain", "likely", "full"])
@pytest.mark.parametrize("alpha", [0, 0.6, 1, 2, -1])
def test_a_wide_beam_finds_the_best_of_all(alpha, until):
    """With as many beginnings as there are, beam search finds the best of every sequence that there is."""
    fast = sharp(EDTransformerConfig, N_V=4, ell_max=6)
    frame = Frame(bos_token=3, eos=(1,))
    beam = Beam(N_beam=4**3, alpha=alpha, until=until)

    found = EDInference(fast, [[0, 2]], 3, beam, frame=frame)[0]

    every = [list(y) for n in (1, 2, 3) for y in itertools.product(range(4), repeat=n)]
    whole = [[3, *y] for y in every if 1 not in y[:-1] and (y[-1] == 1 or len(y) == 3)]
    scores = [plain(fast, [0, 2], x) / (len(x) - 1) ** alpha for x in whole]
    assert whole[int(np.argmax(scores))] == found.x
    assert max(scores) == pytest.approx(beam.score(found.log_p, len(found.x) - 1), rel=0, abs=1e-11)


def test_a_certain_end_is_one():
    """`certain` goes on where `likely` ends too early: the longer x^ that scores better is found."""
    gains = 0
    for seed in range(20):
        fast = sharp(EDTransformerConfig, seed, N_V=5)
        beams = (Beam(N_beam=2, alpha=2, until=until) for until in ("certain", "likely"))
        certain, likely = (
            beam.score(h.log_p, len(h.x) - 1)
            for beam in beams
            for h in EDInference(fast, [[0, 2]], 8, beam, frame=Frame(bos_token=3, eos=(1,)))
        )
        assert certain >= likely
        gains += certain > likely

    assert gains


def test_one_beginning_is_greedy_up_to_its_end():
    """A beam of one that may not go on after its first end is line 6 at temperature 0."""
    fast = sharp(EDTransformerConfig)

    greedy = EDInference(fast, CONTEXTS, 8, Sampling(tau=0), frame=FRAME)
    beam = EDInference(fast, CONTEXTS, 8, Beam(N_beam=1, until="full"), frame=FRAME)

    assert [h.x for h in greedy] == [h.x for h in beam]


def test_equals_are_taken_in_order():
    """Where all tokens are equally likely, the lower id comes first, and of two sequences that of the lower ids."""
    fast = sharp(EDTransformerConfig)
    with torch.no_grad():
        fast.W_u.weight.zero_()
        fast.W_u.bias.zero_() if fast.W_u.bias is not None else None

    found = EDInference(fast, [[1]], 3, Beam(N_beam=2, alpha=1), frame=Frame(bos_token=3, eos=(10,)))

    assert [[3, 0, 0, 0]] == [h.x for h in found]


@pytest.mark.parametrize("how", [Sampling(tau=0), Sampling(tau=math.inf), Beam(N_beam=3)], ids=str)
def test_what_may_come(how):
    """Tokens that are banned, or not among `ids`, never come; what is forced comes first, and where it is cut."""
    fast = sharp(EDTransformerConfig)
    frame = Frame(bos_token=3, eos=(5,), first=9, last=5, banned=(0, 1))

    for x, log_p in EDInference(fast, CONTEXTS, 6, how, frame=frame, seed=0, ids=range(9)):
        assert (x[:2], x[-1]) == ([3, 9], 5)
        assert not {0, 1, 10} & {*x}
        assert log_p < 0


def test_what_is_forced_costs_nothing():
    """Where there is no choice the probability is 1; `renormalised` counts only tokens that may come."""
    fast = sharp(EDTransformerConfig)
    banned = tuple(i for i in range(11) if i not in (5, 6))
    frames = [Frame(bos_token=3, eos=(5,), first=9, last=5, banned=banned, renormalised=r) for r in (False, True)]

    as_all, among = (EDInference(fast, [[1, 2]], 3, Sampling(tau=0), frame=frame)[0] for frame in frames)

    x = as_all.x
    with torch.no_grad():
        logits = fast(torch.tensor([[1, 2]]), torch.tensor([x]))[0, 1]
    chosen = float(logits.log_softmax(-1)[x[2]]), float(logits[[5, 6]].log_softmax(-1)[[5, 6].index(x[2])])
    assert chosen == pytest.approx((as_all.log_p, among.log_p), rel=0, abs=1e-12)


def test_it_ends_where_positions_end():
    """Where positions are learned x^ has ell_max + 1 tokens at most: the last one is not read."""
    fast = sharp(EDTransformerConfig)

    (found,) = EDInference(fast, [[1]], 99, Sampling(tau=0), frame=Frame(bos_token=3, eos=()))

    assert len(found.x) == fast.config.ell_max + 1


def test_no_contexts():
    """Nothing in, nothing out."""
    assert EDInference(sharp(EDTransformerConfig), [], 3, frame=FRAME) == []


@pytest.mark.parametrize(
    ("z", "changes", "error", "message"),
    [
        ([[1], []], {}, AlgorithmError, "context 2 of 2 is empty"),
        ([[1] * 10], {}, AlgorithmError, "context 1 of 1 has 10 tokens, more than ell_max = 9"),
        ([[11]], {}, TokenError, r"context 1 of 1 has token 11, outside \[0, N_V\) = \[0, 11\)"),
        ([[1]], {"ell_gen": 0}, ConfigError, "ell_gen = 0: one token is the least"),
        ([[1]], {"frame": Frame(bos_token=11, eos=())}, ConfigError, r"token 11 is outside \[0, N_V\)"),
        ([[1]], {"ids": ()}, ConfigError, "no token may be drawn"),
        ([[1]], {"ids": [1], "frame": Frame(bos_token=3, eos=(), banned=(1, 2))}, ConfigError, ".* banned = 2 "),
        ([[1]], {"seed": -1}, ConfigError, "seed = -1"),
    ],
)
def test_bad_input(z, changes, error, message):
    """What cannot be done is said in one line, before anything is computed."""
    with pytest.raises(error, match=f"^{message}"):
        EDInference(sharp(EDTransformerConfig), z, **{"ell_gen": 3, "frame": FRAME} | changes)


@pytest.mark.parametrize("renormalised", [False, True])
@pytest.mark.parametrize("how", [Sampling(tau=0), Sampling(), Beam(N_beam=3), Beam(N_beam=3, until="full")], ids=str)
def test_what_may_not_go_on(how, renormalised):
    """Where no token may come and nothing has ended there is no answer: what forbids them is named."""
    fast = sharp(EDTransformerConfig, N_V=6, positions="sinusoid")
    frame = Frame(bos_token=3, eos=(5,), banned=(0,), least=50, no_repeat=1, renormalised=renormalised)
    rules = r"banned = 1 \(bad_words_ids, .*\) and least = 50 \(min_length, .*\) and no_repeat = 1 \(no_repeat_ngram"

    with pytest.raises(ConfigError, match=f"^no token may be number 4 of an answer, with {rules}"):
        EDInference(fast, CONTEXTS[:1], 20, how, frame=frame, seed=0)


@pytest.mark.parametrize("renormalised", [False, True])
def test_what_has_ended_is_an_answer(renormalised):
    """A beginning that cannot go on is left behind; what has ended before is found."""
    fast = sharp(EDTransformerConfig, N_V=6, positions="sinusoid")
    frame = Frame(bos_token=3, eos=(5,), least=2, no_repeat=1, renormalised=renormalised)

    (found,) = EDInference(fast, [[1, 2]], 20, Beam(N_beam=64, until="full"), frame=frame)

    assert (found.x[-1], len(found.x), True) == (5, len({*found.x}), math.isfinite(found.log_p))


@pytest.mark.parametrize("how", [Sampling(), Beam(N_beam=2)], ids=str)
def test_damaged_parameters(how):
    """A model without a distribution is no reason to hand out tokens."""
    fast = sharp(EDTransformerConfig)
    with torch.no_grad():
        fast.W_e.weight.fill_(torch.nan)

    with pytest.raises(CheckpointError, match="the largest logit is nan"):
        EDInference(fast, [[1]], 3, how, frame=FRAME)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"N_beam": 0}, "N_beam = 0"), ({"N_beam": 257}, r"N_beam = 257 is outside \[1, 256\]"),
     ({"alpha": 11}, "alpha = 11"), ({"alpha": math.nan}, "alpha = nan"),
     ({"until": "maybe"}, "until = 'maybe' is none of certain, likely, full")],
)  # fmt: skip
def test_no_beam(fields, message):
    """A beam of nothing, a power that is none, an end that nobody knows."""
    with pytest.raises(ConfigError, match=f"^{message}"):
        Beam(**{"N_beam": 2} | fields)
