"""A whole model with its numbers, and the functions that its lines name."""

import math
import re

import numpy as np
import pytest

from pseudocode.published import CONFIGS, inputs, x
from transformulary import oracle
from transformulary.oracle import notation
from transformulary.paper import DTransformerConfig, leaves, parameters
from transformulary.paper.presets import preset
from transformulary.pseudocode import describe
from transformulary.pseudocode.boxes import results
from transformulary.pseudocode.definitions import DEFINITIONS
from transformulary.pseudocode.spaces import SPACES
from transformulary.pseudocode.specialise import Program

GPT2_SMALL = DTransformerConfig(
    N_V=50257, ell_max=1024, L=12, H=12, d_e=768, d_mlp=3072, eps=1e-5, activation="gelu_tanh", tied=True
)


def test_all_algorithms_in_order():
    """GPT-2 executes Algorithms 4, 5, 6 and 10, described in this order, each once."""
    assert re.findall(r"^Algorithm (\w+):", describe(GPT2_SMALL, numbers=True), re.MULTILINE) == ["4", "5", "6", "10"]


def test_numbers_for_sizes():
    """Sizes are GPT-2's numbers, in heads, loops and formulas, down to the square root."""
    page = describe(GPT2_SMALL, numbers=True)

    for words in (
        "Hyperparameters: N_V = 50257, ℓ_max = 1024, L = 12, H = 12, d_e = 768, d_attn = 64, d_mlp = 3072",
        "W_e ∈ ℝ^{768×50257}, W_p ∈ ℝ^{768×1024}",
        "for l = 1, 2, …, 12 do",
        "for h ∈ [12]:",
        "Y ← [Y¹; Y²; …; Y¹²]",
        "V softmax(S/√64)",
        "v ← Σ_{i=1..768} (e[i] − m)²/768",
        "√(v + 10⁻⁵)",
    ):
        assert words in page
    assert not re.search(r"\b(d_e|d_attn|H|L)\b(?! =)", page)


def test_definitions_of_what_is_used():
    """The functions that the lines of a model name are defined below them, and no others."""
    where = describe(GPT2_SMALL, numbers=True).partition("\nwhere\n")[2].partition("\n\n")[0].splitlines()

    assert where == [
        "    softmax(A)[i,j] = exp(A[i,j]) / Σ_{k=1..d} exp(A[k,j]) where A has d rows",
        "    GELU_tanh(x) = (x/2) (1 + tanh(√(2/π) (x + 0.044715 x³))) for every entry x",
    ]


@pytest.mark.parametrize("name", [name for name, (what, value, _) in DEFINITIONS.items() if value and "(x)" in what])
def test_definitions_are_the_oracles(name):
    """Each definition computes what the oracle computes."""
    _, value, _ = DEFINITIONS[name]
    x = np.linspace(-5, 5, 41)

    defined = [eval(value, vars(math) | {"Phi": lambda v: notation.Phi(np.array(v)), "x": v}) for v in x]

    np.testing.assert_allclose(getattr(notation, name)(x), defined, rtol=1e-14, atol=1e-15)


def test_what_a_head_has():
    """A head's bundle has all that Algorithm 4 is given: where queries and keys are normed, the norms too."""
    attention = describe(CONFIGS["Qwen3"]).partition("Algorithm 5")[2].partition("Algorithm 6")[0]

    assert "W_qkv^{h,g} = (W_q^h, W_k^g, W_v^g, γ_q, γ_k)\n" in attention


@pytest.mark.parametrize("numbers", [False, True])
def test_a_norm_at_several_widths_has_its_own(numbers):
    """Where queries are normed too, the width in Algorithm 6 is no d_e; where all vectors have d_e numbers, it is."""
    page = describe(preset("qwen3-8b"), numbers=numbers).partition("Algorithm 6r")[2].partition("Algorithm")[0]
    usual = describe(preset("llama-3-8b")).partition("Algorithm 6r")[2].partition("Algorithm")[0]

    assert "e ∈ ℝ^d\n" in page
    assert "Σ_{i=1..d} e[i]²/d\n" in page
    assert "d_e" not in page
    assert "Σ_{i=1..d_e} e[i]²/d_e\n" in usual


def test_definition_of_ramp():
    """So does that of ramp, which is 0, a line or 1."""
    _, value, _ = DEFINITIONS["ramp"]

    defined = [eval(value, {"x": x, "a": 1, "b": 4}) for x in (0, 1, 2, 4, 5)]

    assert defined == [notation.ramp(x, 1, 4) for x in (0, 1, 2, 4, 5)] == [0, 0, 1 / 3, 1, 1]
    assert [notation.ramp(x, 1, 1) for x in (0, 1, 2)] == [0, 0, 1]


def test_definition_of_softmax():
    """So does that of softmax, entry by entry."""
    A = np.random.default_rng(0).normal(size=(4, 3))
    _, value, _ = DEFINITIONS["softmax"]

    defined = [[eval(value, {"exp": math.exp, "A": A, "i": i, "j": j, "d": 4}) for j in range(3)] for i in range(4)]

    np.testing.assert_allclose(notation.softmax(A), defined, rtol=1e-14)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_function_is_defined_or_printed(name):
    """What a page calls is an algorithm of the same description, a definition below, or elementary."""
    page = describe(CONFIGS[name], numbers=True)
    known = set(re.findall(r"← (\w+)\(", page)) | set(re.findall(r"^    (\w+)\(\w.*(?: = | is )", page, re.MULTILINE))
    elementary = {"length", "exp", "tanh", "erf", "max", "min", "floor", "ceil", "sin", "cos"}

    called = set(re.findall(r"([A-Za-zΦ]\w*)\(", page)) - elementary - {"Δ", "θ"}

    assert called <= known


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_all_declared(name):
    """The numbers of parameters in the boxes add up to the model's."""
    config = CONFIGS[name]
    page = describe(config, numbers=True)
    box = re.split(r"^Algorithm", page, flags=re.MULTILINE)
    whole = next(b for b in box if re.match(r" (8a?|9|10):", b)).partition("Parameters:\n")[2]
    heads = next(b for b in box if b.startswith(" 5:")).partition("Parameters:\n")[2]

    declared = counted(whole, counted(heads, 0))

    assert sum(n * math.prod(shape) for _, n, shape in leaves(parameters(config), config)) == declared


def counted(rows, bundle):
    """How many numbers the rows of a box declare; `bundle` is one Algorithm 5's."""
    total, times = 0, 1
    for row in rows.splitlines():
        if re.match(r" *(\d+[a-z]?  |--)", row) or "W_qkv" in row:
            break
        if not row.startswith("            "):
            times = 1
        if found := re.match(r" *for \w ∈ \[(\d+)\]:", row):
            times = int(found[1])
        names = 0
        for item in re.sub(r"for \w ∈ \[\d+\]:", "", row).partition(":")[0].split(", "):
            names += bool(item.strip())
            if space := re.search(r"∈ ℝ(?:\^\{(.*)\}|([⁰¹²³⁴⁵⁶⁷⁸⁹]+))", item):
                shape = (space[1] or space[2].translate(str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789"))).split("×")
                total, names = total + times * names * math.prod(map(int, shape)), 0
        total += times * names * (bundle - 4 * 32 * ("B^h = 0" in row))
    return total


def test_spaces_name_what_algorithms_take_and_return():
    """Every input and output of every algorithm has a space."""
    source = Program(CONFIGS["paper 10"]).source

    for name, function in source.functions.items():
        given = [a.arg for a in function.args.posonlyargs]
        assert {*results(function), *given} - {"how"} <= set(SPACES), name


@pytest.mark.parametrize("name", ["paper 8", "paper 9", "paper 10", "Llama", "sparse"])
def test_spaces_of_results_are_the_values_shapes(name):
    """What the boxes of Algorithms 4, 5, 6 and the whole model call the space of the result is its shape in a run."""
    config = CONFIGS[name]
    theta = oracle.random_theta(config, np.random.default_rng(0))
    function, before, after = inputs(config)
    lengths = {"ℓ_x": len(x), "ℓ_z": len(x), "length(x)": len(x)}
    boxes = {
        b.partition(":")[0].strip(): b
        for b in re.split(r"^Algorithm", describe(config, numbers=True), flags=re.MULTILINE)
        if b
    }
    last = {"4": "4.6", "5": "5.4", "8": "8.21", "9": "9.12", "10": "10.11"}

    run = oracle.record(function, *before, theta, config, *after)

    for path, value in run.items():
        number, _, label = path.rpartition("/")[2].partition("[")[0].partition(".")
        if last.get(number) == f"{number}.{label}" and ":" not in label and not path.startswith(("8.5", "8.16")):
            shape = re.search(r"Output: \S+ ∈ \S+?\^\{(.*?)\}", boxes[number])[1].split("×")
            assert tuple(lengths.get(size) or int(size) for size in shape) == value.shape, path
