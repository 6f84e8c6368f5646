"""What a config leaves of an algorithm computes what the whole algorithm computes."""

import ast
from dataclasses import replace

import numpy as np
import pytest

from pseudocode.published import CONFIGS, by_the_oracle, inputs
from transformulary import oracle
from transformulary.oracle.source import FILES, read
from transformulary.paper import Causal, Full, Local
from transformulary.pseudocode import render
from transformulary.pseudocode.specialise import Program


def executable(program):
    """The specialised functions in place of the general ones, compiled."""
    scope = {"__name__": "specialised"}
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tree.body = [
            program[node.name] if isinstance(node, ast.FunctionDef) and node.name in program.executed else node
            for node in tree.body
            if not (isinstance(node, ast.ImportFrom) and node.module.startswith("transformulary.oracle."))
            or node.module.rpartition(".")[2] not in {file.stem for file in FILES}
        ]
        exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), scope)
    return scope


@pytest.mark.parametrize("numbers", [False, True], ids=["symbols", "numbers"])
@pytest.mark.parametrize("name", CONFIGS)
def test_specialised_program_is_the_general_one(name, numbers):
    """The specialised statements, compiled and run, return the oracle's P, bitwise."""
    config = CONFIGS[name]
    theta = oracle.random_theta(config, np.random.default_rng(1))
    function, before, after = inputs(config)

    P = executable(Program(config, numbers))[function](*before, theta, config, *after)

    np.testing.assert_array_equal(P, by_the_oracle(config, theta))


@pytest.mark.parametrize("name", CONFIGS)
def test_nothing_is_left_to_decide(name):
    """No choice is left: no `if`, no table, no absent parameter."""
    program = Program(CONFIGS[name])

    left = {
        type(node).__name__
        for function in program.executed
        for node in ast.walk(program[function])
        if isinstance(node, ast.If | ast.IfExp)
        or (isinstance(node, ast.Name) and node.id in program.source.tables)
        or (isinstance(node, ast.Attribute) and node.attr in program.config.absent)
    }

    assert left == set()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("paper 10", "4 5 6 10"),
        ("BERT", "4 5 6 9"),
        ("Marian", "2h 4 5 6 8"),
        ("Llama", "4 4r 5 6r 10"),
        ("Gopher", "4 4d 5 6r 10"),
    ],
)
def test_what_a_model_executes(name, expected):
    """The algorithms of a model are those that its lines call, in the order of their numbers."""
    program = Program(CONFIGS[name])

    assert expected.split() == [program.source.numbers[function] for function in program.executed]


def test_alternating_masks():
    """Where masks alternate, lines above the loop say which layer has which."""
    lines = [row.strip() for row in render(10, CONFIGS["GPT-Neo"]).splitlines()]
    at = lines.index("4  for l = 1, 2, …, L do")

    assert lines[at - 2 : at] == [
        "Mask_l[t,t′] = [[t ≤ t′]] for l odd",
        "Mask_l[t,t′] = [[t ≤ t′ ∧ t′ − t < 3]] for l even",
    ]
    assert "6      X ← X + MHAttention(X̃ | 𝓦_l, Mask_l)" in lines


def test_the_shortest_cycle_of_masks():
    """A cycle that repeats itself is printed once; one mask for all layers is in its line."""
    config = CONFIGS["GPT-Neo"]
    repeated, equal = replace(config, mask=config.mask * 3), replace(config, mask=config.mask[:1] * 4)

    assert render(10, config) == render(10, repeated)
    assert "MHAttention(X̃ | 𝓦_l, Mask[t,t′] = [[t ≤ t′]])" in render(10, equal)


def test_masks_of_every_kind():
    """The rule of a mask is that of its class, counted from 1 and with its numbers."""
    lines = [row.strip() for row in render(10, CONFIGS["sparse"]).splitlines() if row.strip().startswith("Mask_l")]

    assert lines == [
        "Mask_l[t,t′] = [[t ≤ t′ ∧ (⌈t/4⌉ = ⌈t′/4⌉ ∨ (t − 1) mod 4 ≥ 2)]] for l ∈ {1, 6}",
        "Mask_l[t,t′] = [[t ≤ t′ ∧ t′ − t < 2 ∨ t ≤ t′ ∧ (t′ − t) mod 3 = 0]] for l = 2",
        "Mask_l[t,t′] = [[t ≤ t′ ∨ t ≤ 3]] for l = 3",
        "Mask_l ≡ 1 for l = 4",
        "Mask_l[t,t′] = [[t ≤ t′ ∧ (t′ − t) mod 2 = 0]] for l = 5",
    ]


FULL, BAND = Causal(), Local(3)


@pytest.mark.parametrize(
    ("masks", "L", "which"),
    [
        ((FULL,) * 70 + (BAND,) * 10, 80, ["≤ 70", "> 70"]),
        ((FULL, BAND, BAND, FULL, FULL), 5, ["∈ {1, 4, 5}", "∈ {2, 3}"]),
        ((FULL, BAND, BAND, FULL), 8, ["mod 4 ∈ {0, 1}", "mod 4 ∈ {2, 3}"]),
        ((FULL, FULL, BAND), 30, ["mod 3 ∈ {1, 2}", "mod 3 = 0"]),
        ((BAND,) + (FULL,) * 4 + (BAND,), 6, ["∈ {1, 6}", "∈ {2, …, 5}"]),
        ((FULL, BAND, Full(), Full()), 2, ["odd", "even"]),
        ((FULL, FULL, Full()), 2, []),
    ],
)
def test_layers_with_the_same_mask(masks, L, which):
    """A mask is printed once, with all layers that have it; one that no layer has is not printed."""
    config = replace(CONFIGS["GPT-Neo"], L=L, mask=masks)
    lines = [row.strip() for row in render(10, config).splitlines() if row.strip().startswith("Mask_l")]

    assert which == [row.rpartition("for l ")[2] for row in lines]


def test_the_source_stays_as_it_is():
    """Specialising changes nothing of the oracle's tree, which all models share."""
    source = read()
    before = {name: ast.dump(function) for name, function in source.functions.items()}

    for config in CONFIGS.values():
        assert Program(config, numbers=True).executed

    assert before == {name: ast.dump(function) for name, function in source.functions.items()}
