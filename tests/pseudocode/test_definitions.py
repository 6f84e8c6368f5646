"""What pages say of functions in words, each sentence beside what the function does."""

import ast
import math
import re

import numpy as np
import pytest

from oracle.test_practice import Given
from pseudocode.formula_reader import FUNCTIONS, compiled
from pseudocode.published import CONFIGS
from transformulary import oracle
from transformulary.oracle import notation
from transformulary.oracle.theta import embeddings, matrices, norm, sharing
from transformulary.paper import Causal, DTransformerConfig, ETransformerConfig, Full, Inference, Training
from transformulary.paper.practice import Practice
from transformulary.pseudocode import text
from transformulary.pseudocode.definitions import DEFINITIONS, definitions
from transformulary.pseudocode.specialise import Program

CONFIG = DTransformerConfig(N_V=5, ell_max=9, L=1, H=1, d_e=2, d_mlp=2, eps=1e-3)
THETA = oracle.random_theta(CONFIG, np.random.default_rng(0))
BY_THE_CLOCK = Training(N_steps=2, schedule="linear", T_total=10.0, p_drop=0.25)
STOP = Inference(stop=(0, 2))


class Everything(Program):
    """Algorithms whose lines name every function that has a definition."""

    def __getitem__(self, name):
        return ast.parse("\n".join([*DEFINITIONS, "learning_rate"]))


T5 = CONFIGS["T5"]
ENCODER = ETransformerConfig(N_V=3, ell_max=3, L=1, H=1, d_e=2, d_mlp=2, positions="bucketed")


@pytest.mark.parametrize(
    ("config", "ways"),
    [(CONFIGS["T5's buckets"], "a later"), (ENCODER, "later"), (T5, "a later, later")],
    ids=["decoder", "encoder", "T5"],
)
def test_buckets_for_the_masks_that_a_model_has(config, ways):
    """A decoder's page says what buckets are for earlier tokens, an encoder's for both ways, T5's both."""
    program = Program(config)

    said = [text.line(row) for row in definitions(program, program.executed) if "bucket(" in text.line(row)]

    assert [re.search(r"attend to (a later|later)", row)[1] for row in said] == ways.split(", ")


def softmax():
    """A table with d = 3 rows."""
    A = np.array([[0.0, 1.0], [2.0, 3.0], [1.0, 1.0]])
    defined = [[np.exp(A[i, j]) / sum(np.exp(A[k, j]) for k in range(3)) for j in range(2)] for i in range(3)]
    return np.allclose(notation.softmax(A), defined, rtol=1e-14)


def entry_by_entry(name):
    """Whether a function of an array is that of each of its entries."""
    x, function = np.array([[-1.5, 0.5], [2.0, 0.0]]), getattr(notation, name)
    return np.array_equal(function(x), [[function(np.array(v)) for v in row] for row in x])


def ramp():
    return [notation.ramp(x, 2, 2) for x in (1.9, 2.1)] == [0, 1]


def buckets(sentence, mask):
    """The printed formula, read as a reader does; and in whole numbers, which no rounding touches."""
    formula, a = re.fullmatch(r"bucket\(δ, Mask\) = (.*) with a = (.*), where .*", sentence).groups()
    n, most, far = (8, 7, 16) if mask(1, 0) else (16, 15, 8)
    for delta in range(-300, 301):
        distance = int(compiled(a)(Named(δ=delta)))
        ours = notation.bucket(delta, mask)
        printed = compiled(formula)(Named(a=distance, δ=delta))
        steps = sum(far**k * n**n <= distance**n for k in range(1, most + 1))
        if not (ours == printed == (16 if mask(1, 0) and delta > 0 else 0) + min(distance, n) + steps):
            return False
    return True


class Named(dict):
    """A reader's names."""

    def symbol(self, letter, low, high):
        return self[letter]

    def call(self, name, arguments):
        return FUNCTIONS[name](*arguments)


def shared():
    W, B = THETA.W[0], [np.ones(32)]
    found = sharing(W, B)
    return found.B is B and all(getattr(found, name) is value for name, value in vars(W).items() if name != "B")


def dropout():
    even = notation.Dropout(0.25, lambda shape: (np.arange(8).reshape(shape) + 0.5) / 8)(np.ones((2, 4)))
    return sorted(even.ravel().tolist()) == [0, 0] + 6 * [1 / (1 - 0.25)]


def uniform():
    rng = np.random.default_rng(0)
    return {notation.uniform(4, rng) for _ in range(99)} == {0, 1, 2, 3}


def joined():
    return notation.joined([[3], [1, 2], []]) == [3, 1, 2]


def clock():
    """The second step, i = 2 in print, begins after 4 of 10 seconds."""
    return oracle.learning_rate(1, 1.0, BY_THE_CLOCK, [0.0, 4.0]) == 1 - 0.4


def kept(part):
    """The names of what is not 0 in a part of theta, the others with the shape that they have."""
    assert [a.shape for a in part.leaves()] == [a.shape for a in THETA.leaves()]
    return {name for name, a in part.items() if a.any()}


def decayed():
    return kept(matrices(THETA)) == {name for name, a in THETA.items() if a.ndim == 2} - {"W_p"}


def embedded():
    return kept(embeddings(THETA)) == {"W_e", "W_p"}


def normed():
    return math.isclose(norm(THETA), math.sqrt(sum(float(a) ** 2 for array in THETA.leaves() for a in array.flat)))


def by_entries():
    """A step of each optimiser that remembers squares is, for each number of theta, that of the number alone."""
    for optimiser, functions in (("adam", oracle.Adam), ("rmsprop", oracle.RMSProp), ("adagrad", oracle.AdaGrad)):
        how, g = Training(N_steps=1, optimiser=optimiser), THETA.map(lambda a: a + 0.5)
        found, _ = functions(g, oracle.MEMORY[optimiser](0), 0, how)
        for array, slope in zip(found.leaves(), g.leaves(), strict=True):
            alone = [functions(v, oracle.MEMORY[optimiser](0), 0, how)[0] for v in slope.flat]
            np.testing.assert_allclose(array.ravel(), alone, rtol=1e-14)
    return True


def chosen():
    rng = Given(0.1, 0.1, 0.7, 0.1)
    return notation.chosen([1, 4, 1, 2], 0.5, (4,), rng) == {0, 3}


def corrupted():
    draws = [Given(0.79), Given(0.81), Given(0.89), Given(0.91, 0.0), Given(0.91, 0.999)]
    return [notation.corrupted(3, 7, 5, rng) for rng in draws] == [7, 3, 3, 0, 4]


def likeliest():
    return np.allclose(notation.likeliest(np.array([0.1, 0.25, 0.4, 0.25]), 2), [0, 0.25 / 0.65, 0.4 / 0.65, 0])


def nucleus():
    p = np.array([0.1, 0.25, 0.4, 0.25])
    two, three = notation.nucleus(p, 0.65), notation.nucleus(p, 0.66)
    return np.allclose(two, [0, 0.25 / 0.65, 0.4 / 0.65, 0]) and np.allclose(three, p * (p > 0.1) / 0.9)


def stop():
    rng = np.random.default_rng(1)
    y = [oracle.DInference([1], THETA, CONFIG, STOP, ell_gen=8, rng=rng) for _ in range(9)]
    return all(tokens[-1] in (0, 2) or len(tokens) == 8 for tokens in y) and min(map(len, y)) < 8


BACK = (
    "bucket(δ, Mask) = min(a, 16) + min(15, ⌊16 (log max(1, a/16)) / (log 8)⌋) with a = max(0, −δ), where Mask lets "
    "no token attend to a later one"
)
AHEAD = (
    "bucket(δ, Mask) = 16 [[δ > 0]] + min(a, 8) + min(7, ⌊8 (log max(1, a/8)) / (log 16)⌋) with a = max(δ, −δ), "
    "where Mask lets tokens attend to later ones"
)
#: Sentence -> whether it is so.
SENTENCES = {
    "softmax(A)[i,j] = exp(A[i,j]) / Σ_{k=1..d} exp(A[k,j]) where A has d rows": softmax,
    "GELU(x) = x Φ(x) for every entry x": lambda: entry_by_entry("GELU"),
    "Φ(x) = (1 + erf(x/√2))/2": lambda: entry_by_entry("Phi"),
    "GELU_tanh(x) = (x/2) (1 + tanh(√(2/π) (x + 0.044715 x³))) for every entry x": lambda: entry_by_entry("GELU_tanh"),
    "ReLU(x) = max(0, x) for every entry x": lambda: entry_by_entry("ReLU"),
    "SiLU(x) = x/(1 + exp(−x)) for every entry x": lambda: entry_by_entry("SiLU"),
    "ramp(x, a, b) = max(0, min(1, (x − a)/(b − a))); a step at a where a = b": ramp,
    BACK: lambda: buckets(BACK, Causal()),
    AHEAD: lambda: buckets(AHEAD, Full()),
    "sharing(𝓦, B_enc) is 𝓦 with B_enc, which all layers have in common, as its B": shared,
    "dropout(X) is X with each entry 0 with probability 0.25 and else divided by 1 − 0.25, drawn anew for every "
    "sequence and step; in inference it is X": dropout,
    "uniform(d) is a random whole number from 0 to d − 1": uniform,
    "joined(D) is one list of all that the lists in D have, in their order": joined,
    "clock[i] is the time of training before step i, in seconds": clock,
    "matrices(θ) is θ with 0 in place of positional embeddings and of all vectors": decayed,
    "embeddings(g) is g with 0 in place of all but token and positional embeddings": embedded,
    "‖g‖ is the root of the sum of the squares of all numbers in g, of all layers together": normed,
    "√g is g with the root of every number; quotients and a number that is added are of every number too": by_entries,
    "chosen(x, p_mask, special) is a set of places of x, each with probability p_mask, but none of a special "
    "token": chosen,
    "corrupted(v, mask_token, N_V) is mask_token with probability 0.8, v with 0.1, else one of the N_V tokens at "
    "random": corrupted,
    "likeliest(p, a) is p on its a most probable tokens, of equals the first, and 0 elsewhere, divided by its "
    "sum": likeliest,
    "nucleus(p, b) is p on the fewest most probable tokens, of equals the first, that together reach b, and 0 "
    "elsewhere, divided by its sum": nucleus,
    "stop is the set of tokens {0, 2}, as `tokenizer.json` counts them, from 0": stop,
}  # fmt: skip


def test_the_sentences_are_those_of_pages():
    """What is checked here is what pages say, of every function that they say something of."""
    practice = Practice(training=BY_THE_CLOCK, inference=STOP)

    said = [text.line(row) for row in definitions(Everything(CONFIG, practice=practice), [""])]

    assert list(SENTENCES) == said


@pytest.mark.parametrize("sentence", SENTENCES, ids=list(DEFINITIONS))
def test_it_is_so(sentence):
    """The function does what the sentence says."""
    assert SENTENCES[sentence]()
