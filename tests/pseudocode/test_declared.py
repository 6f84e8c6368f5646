"""Boxes declare what their lines use, and callers and what they call agree, with every choice of practice."""

import itertools
from dataclasses import replace

import pytest

from pseudocode.published import CONFIGS
from transformulary.oracle.source import INDICES
from transformulary.paper import PRACTICES, Inference, Training
from transformulary.paper.practice import Practice
from transformulary.pseudocode import render
from transformulary.pseudocode.boxes import box, symbols
from transformulary.pseudocode.definitions import DEFINITIONS
from transformulary.pseudocode.nodes import Apply, Infix, Line, Sym, Words
from transformulary.pseudocode.specialise import ROOTS, Program

OPTIONS = {
    "N_acc": (1, 2), "alpha": (0.0, 0.1), "shuffle": (False, True), "decay": (0.0, 0.1), "g_max": (0.0, 1.0),
    "eta_embedding": (1.0, 2.0), "nesterov": (False, True), "N_warmup": (0, 5), "N_total": (0, 9),
    "T_total": (0.0, 9.0), "special": ((), (1,)),
    **{name: PRACTICES[name] for name in ("optimiser", "schedule", "loss", "masking")},
}  # fmt: skip
#: Every value of every choice, with the others as they are in the paper, and with the last of each.
USUAL = {"N_steps": 3, "N_batch": 2}
FULL = {**USUAL, **{name: values[-1] for name, values in OPTIONS.items()}}
TRAININGS = [
    Training(),
    Training(masking="bert"),
    *(Training(**usual | {name: v}) for usual in (USUAL, FULL) for name, values in OPTIONS.items() for v in values),
]
INFERENCES = [
    Inference(top_k=k, top_p=p, stop=stop, limit=limit)
    for k, p, stop, limit in itertools.product((0, 3), (1.0, 0.5), ((), (1,)), (False, True))
]
WRAPPERS = {"8": ("11", "15"), "8a": (), "9": ("12",), "10": ("13", "14")}


def programs():
    """Every architecture as it is practised, and every published model."""
    for name in ("paper 8", "paper 9", "paper 10"):
        for how in TRAININGS:
            yield Program(CONFIGS[name], practice=Practice(training=how))
            if name == "paper 10" and how.N_steps:
                yield Program(CONFIGS[name], practice=Practice(training=replace(how, chunks=True)))
        for how in INFERENCES:
            yield Program(CONFIGS[name], practice=Practice(inference=how))
    yield from (Program(config, numbers=n) for config in CONFIGS.values() for n in (False, True))


def executed(program):
    """The boxes of a model, of its training and of its inference."""
    root = ROOTS[type(program.config)]
    return [box(program, name) for name in program.executed_by(root, *WRAPPERS[root])]


def bound(lines):
    """The names that lines give a value to: by an arrow or an equation, as an index, or by drawing."""
    for row in lines:
        for before, part in itertools.pairwise((None, *row.parts)):
            if isinstance(part, Infix) and part.op in ("←", "=", "∈"):
                yield from symbols([Line("", 0, (part.left,))])
            if isinstance(part, Sym) and before in ("sample a token", "∀", ","):
                yield part.name


#: Names that no box needs to declare: letters that count, numbers and sets of mathematics, sizes of what is given
#: (ell_x is how many columns X has), what the paper declares with its vocabulary, Mask with the rule that it is called
#: with, and what stands below the boxes.
KNOWN = {
    *INDICES, *DEFINITIONS, "t_prime", "q", "pi", "inf", "ell_x", "ell_z", "clock", "stop", "Mask", "mask_token",
    "bos_token", "eos_token",
}  # fmt: skip


def test_lines_use_what_boxes_declare():
    """With any choice, every name in a line is declared in the head of its box, or was given a value there."""
    missing = set()
    for program in programs():
        for one in executed(program):
            head = [row for _, rows in one.head for row in rows]
            declared = {*symbols([*head, Line("", 0, (one.title,))]), *bound(one.lines), *KNOWN}
            missing |= {(one.number, name) for name in symbols(one.lines) if name not in declared}

    assert missing == set()


def calls(row):
    """Every call in a line, and every title: (what is called, how many inputs, how many parameters)."""

    def inside(part):
        if isinstance(part, Apply) and isinstance(part.function, Words):
            yield part.function.text, (len(part.given), len(part.parameters))
        for value in part if isinstance(part, tuple) else vars(part).values() if hasattr(part, "__dict__") else ():
            yield from inside(value)

    return inside(row.parts)


def assert_called_as_titled(boxes):
    titles = dict(call for one in boxes for call in calls(Line("", 0, (one.title,))))
    for one in boxes:
        for name, count in (call for row in one.lines for call in calls(row)):
            alone = name == "MHAttention" and count[0] == 1  # E4: a sequence that attends to itself
            assert count == (1 if alone else titles[name][0], titles[name][1]) if name in titles else True, name


def test_calls_have_the_arguments_of_what_they_call():
    """With any choice, each call in a line has as many inputs and parameters as the title of what it calls."""
    for program in programs():
        if not getattr(program.config, "segments", 0):  # Algorithm 12 has no segments
            assert_called_as_titled(executed(program))


@pytest.mark.parametrize("chosen", [{"loss": "tokens"}, {"optimiser": "sgd"}, {"optimiser": "adam"}], ids=str)
@pytest.mark.parametrize("number", [11, 12, 13])
def test_what_is_shown_together_is_of_one_practice(number, chosen):
    """An algorithm of the paper and those of practice on one page call each other with what they take."""
    page = render([number, "13b", "13d", "13u"], choose=chosen)

    assert_called_as_titled(page.what.boxes)
    whole = "A is any set" in str(page)
    assert whole == (number != 13)


@pytest.mark.parametrize("optimiser", PRACTICES["optimiser"])
@pytest.mark.parametrize("name", ["paper 8", "paper 9", "paper 10"])
def test_what_nothing_uses_is_not_printed(name, optimiser):
    """Plain gradient descent remembers nothing, so there is no omega; tokens are counted where a mean is taken."""
    for loss in PRACTICES["loss"]:
        how = Training(N_steps=3, optimiser=optimiser, loss=loss)
        program = Program(CONFIGS[name], practice=Practice(training=how))
        wrapper, *_ = WRAPPERS[ROOTS[type(program.config)]]
        names = {*symbols(row for one in map(program.source.name, (wrapper, "13u")) for row in box(program, one).lines)}

        assert ("omega" in names) == (optimiser != "sgd")
        assert ("N_tokens" in names) == (name == "paper 9" and loss == "tokens")


def test_special_tokens_are_declared_where_the_algorithm_is_not_the_papers():
    """BERT's masks declare mask_token, special and all that they are told; the paper's Algorithm 12 is as printed."""
    heads = []
    for how in (Training(), Training(N_steps=3, masking="bert")):
        head = dict(box(Program(CONFIGS["paper 9"], practice=Practice(training=how)), "ETraining").head)
        heads.append([*dict.fromkeys(symbols(head["Hyperparameters"]))])

    assert heads[0] == ["N_epochs", "naturals", "eta", "inf", "p_mask"]
    assert {"N_steps", "special", "mask_token", "N_V"} <= set(heads[1])
