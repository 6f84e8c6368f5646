"""Every value of a run has a path, and can be looked at or replaced."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import huggingface
from strategies import d_configs, seeds
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.oracle import Variant, Watch
from transformulary.oracle import path as paths
from transformulary.oracle.source import read
from transformulary.oracle.theta import W_qkv
from transformulary.paper import DTransformerConfig, EDTransformerConfig, ETransformerConfig, Full

c = DTransformerConfig(N_V=7, ell_max=6, L=2, H=2, d_e=4, d_mlp=5)


def theta(config=c):
    return oracle.random_theta(config, np.random.default_rng(0))


@settings(max_examples=30)
@given(d_configs(), seeds)
def test_watching_changes_nothing(config, rng):
    """A watched run is bitwise the plain run, for every choice of slots."""
    parameters, x = oracle.random_theta(config, rng), [0, 1, 1, 0]

    values = oracle.record("DTransformer", x, parameters, config)

    np.testing.assert_array_equal(values["10.11"], oracle.DTransformer(x, parameters, config))


def test_the_paths_of_the_docs():
    """The documented paths exist, with the shapes that the paper gives."""
    values = oracle.record("DTransformer", [1, 2, 3], theta(), c)

    shapes = {
        "10.3": (4, 3), "10.2[t=1]:W_e": (4,), "10.2[t=3]:W_p": (4,), "10.2[t=2]": (4,),
        "10.5[l=2]": (4, 3), "10.5[l=2,t=3]": (4,), "10.5[l=1,t=2]/6.3": (4,), "10.5[l=1,t=2]/6.1": (),
        "10.6[l=2]/5.2[h=1]/4.4": (3, 3), "10.6[l=2]/5.2[h=1]/4.6:softmax": (3, 3),
        "10.6[l=1]/5.2[h=2]/4.1:W_q": (2, 3), "10.6[l=1]/5.2[h=2]": (2, 3), "10.6[l=1]/5.3": (4, 3),
        "10.6[l=1]/5.4:W_o": (4, 3), "10.6[l=1]:MHAttention": (4, 3), "10.8[l=1]:W_mlp1": (5, 3),
        "10.8[l=1]:GELU": (5, 3), "10.8[l=2]:W_mlp2": (4, 3), "10.11:W_u": (7, 3), "10.11": (7, 3),
    }  # fmt: skip
    assert {path: np.shape(values[path]) for path in shapes} == shapes


def test_arguments_and_another_value_in_a_line():
    """A hook knows what a result was made of, and may have a line computed with something else in its place."""
    found = {}

    def hook(path, value):
        if path == "10.8[l=1]:GELU":
            found["A"], found["GELU"] = watch.args[0], value
        if path == "10.8[l=1]:W_mlp1":
            found["W_mlp1"], found["X"] = watch.args
        if path == "10.8[l=1]":
            found["line"] = watch.again({}, {"10.8[l=1]:GELU": 0 * found["GELU"]})
        return value

    watch = Watch(hook)
    P, parameters = watch.algorithms.DTransformer([1, 2, 3], theta(), c), theta()
    values = oracle.record("DTransformer", [1, 2, 3], theta(), c)

    np.testing.assert_array_equal(P, values["10.11"])
    np.testing.assert_array_equal(found["X"], values["10.7[l=1]"])
    np.testing.assert_array_equal(found["W_mlp1"] @ found["X"] + parameters.b_mlp1[0][:, None], found["A"])
    np.testing.assert_array_equal(found["line"], values["10.6[l=1]"] + parameters.b_mlp2[0][:, None])


def test_logits_are_before_the_softmax():
    """10.11:W_u are the logits, P their softmax; and a line's value follows from the values inside it."""
    values, parameters = oracle.record("DTransformer", [1, 2, 3], theta(), c), theta()

    np.testing.assert_array_equal(oracle.softmax(values["10.11:W_u"]), values["10.11"])
    np.testing.assert_array_equal(
        values["10.6[l=1]"] + values["10.8[l=1]:W_mlp2"] + parameters.b_mlp2[0][:, None], values["10.8[l=1]"]
    )


def test_attention_weights_are_those_of_a_published_implementation():
    """4.6:softmax of layer 2, head 3 is what transformers returns as attentions, transposed."""
    model, config, parameters = huggingface.gpt2()
    x = [5, 3, 36, 0]

    weights = oracle.record("DTransformer", x, parameters, config)["10.6[l=2]/5.2[h=3]/4.6:softmax"]

    theirs = model(torch.tensor(x)[None], output_attentions=True).attentions[1][0, 2].detach().numpy()
    np.testing.assert_allclose(weights, theirs.T, rtol=0, atol=1e-14)


@pytest.mark.parametrize("number", range(1, 16))
def test_every_line_that_computes_a_value_is_watched(number):
    """Each numbered line of each algorithm, loops aside, passes a value to the hook."""
    e = ETransformerConfig(N_V=7, ell_max=6, L=1, H=1, d_e=2, d_mlp=2)
    ed = EDTransformerConfig(N_V=7, ell_max=6, L_enc=1, L_dec=1, H=1, d_e=2, d_mlp=2)
    d = DTransformerConfig(N_V=7, ell_max=6, L=1, H=1, d_e=2, d_mlp=2)
    t, rng = theta(d), np.random.default_rng(0)
    X = np.random.default_rng(0).normal(size=(2, 3))
    W = W_qkv(t.W[0], 0, 0)
    runs = {
        1: (0, t.W_e), 2: (0, t.W_p), 3: (X[:, 0], list(X.T), W), 4: (X, X, W, Full()), 5: (X, X, t.W[0], Full()),
        6: (X[:, 0], t.gamma, t.beta), 7: (X[:, 0], t.W_u), 8: ([1], [2, 3], theta(ed), ed), 9: ([1, 2], theta(e), e),
        10: ([1, 2], t, d), 11: ([[1]], [[1, 2]], theta(ed), ed), 12: ([[1, 2]], theta(e), e), 13: ([[1, 2]], t, d),
        14: ([1], t, d), 15: ([1], theta(ed), ed),
    }  # fmt: skip
    more = {11: {"eta": 0.1}, 12: {"eta": 0.1, "p_mask": 1.0, "mask_token": 4, "rng": rng}, 13: {"eta": 0.1},
            14: {"ell_gen": 1, "rng": rng}, 15: {"bos_token": 5, "eos_token": 6, "ell_gen": 1, "rng": rng}}  # fmt: skip

    values = oracle.record(read().name(number), *runs[number], **more.get(number, {}))

    seen = {p.steps[0].label for p in map(paths.parse, values) if len(p.steps) == 1 and not p.name}
    loops = {
        8: {"4", "13"},
        9: {"4"},
        10: {"4"},
        11: {"1", "2"},
        12: {"1", "2", "4"},
        13: {"1", "2"},
        14: {"2"},
        15: {"3"},
    }
    whole = {label for label in read().lines(number) if label.isdigit()} - loops.get(number, set())
    assert {label for label in seen if label.isdigit()} == whole
    assert ({"7a"} if number == 15 else set()) == seen - whole


def test_replacing_a_head():
    """Putting 0 in the place of one head is the same as zeroing its columns of W_o."""
    path, parameters = "10.6[l=2]/5.2[h=1]", theta()
    cut = oracle.watched(lambda p, value: 0 * value if p == path else value)

    P = cut.DTransformer([1, 2, 3], parameters, c)

    parameters.W[1].W_o[:, :2] = 0
    np.testing.assert_array_equal(P, oracle.DTransformer([1, 2, 3], parameters, c))


def test_replacing_inside_a_line():
    """The value of a named function can be replaced: uniform attention weights give the mean of the values."""
    even = oracle.watched(lambda p, v: np.full_like(v, 1 / len(v)) if p == "4.6:softmax" else v)
    W, X = W_qkv(theta().W[0], 0, 0), np.random.default_rng(0).normal(size=(4, 3))

    V_tilde = even.Attention(X, X, W, Full())

    V = W.W_v @ X + W.b_v[:, None]
    np.testing.assert_allclose(V_tilde, V.mean(1, keepdims=True) @ np.ones((1, 3)), rtol=0, atol=1e-15)


def test_training_is_seen_once():
    """Inside a gradient the hook sees real values, each path once, not the evaluations of the complex step."""
    tiny, seen = DTransformerConfig(N_V=3, ell_max=3, L=1, H=1, d_e=2, d_mlp=1), []

    def keep(path, value):
        seen.append((path, np.iscomplexobj(value)))
        return value

    oracle.watched(keep).DTraining([[0, 1, 2]], theta(tiny), tiny, N_epochs=2, eta=0.1)

    assert len({path for path, _ in seen}) == len(seen)
    assert not any(is_complex for _, is_complex in seen)
    assert "13.4[i=2,n=1]/10.8[l=1]:GELU" in {path for path, _ in seen}


def test_a_replaced_value_has_no_gradient():
    """What the hook puts in place of a value is constant under the gradient: nothing before it moves."""
    tiny = DTransformerConfig(N_V=3, ell_max=3, L=1, H=1, d_e=2, d_mlp=1)
    frozen = oracle.watched(lambda p, v: v + 1 if p == "13.4[i=1,n=1]/10.10" else v)
    start = theta(tiny)

    after = frozen.DTraining([[0, 1, 2]], start, tiny, eta=0.1)

    moved = {name for (name, a), b in zip(after.items(), start.leaves(), strict=True) if not np.array_equal(a, b)}
    assert moved == {"W_u"}


@pytest.mark.parametrize(
    "text", ["10.6[l=3]/5.2[h=1]/4.6:softmax", "10.11:W_u", "4.4", "10.6[l=1]/5.2[h=2]/4.4[t_z=1,t_x=2]/4d.1[i=3]",
     "3.4[t=1,u=2]:exp.2"]
)  # fmt: skip
def test_spelling_is_reversible(text):
    """A path is read and written back the same, and so is its file name, which holds no / and no :."""
    name = paths.to_filename(text)

    assert str(paths.parse(text)) == text
    assert paths.from_filename(name) == text
    assert not set(name) & set('/:\\*?"<>|')


@pytest.mark.parametrize("text", ["", "10", "10.6[l=]", "10.6/", "10.6:", "10.6[l=3]/softmax", "../x", "10.6[l=3]:a b"])
def test_other_spellings_are_errors(text):
    """Anything else is an error that shows what a path looks like."""
    with pytest.raises(AlgorithmError, match="A path looks like"):
        paths.parse(text)


def test_every_recorded_path_parses():
    """All paths of a run follow the grammar and are distinct as file names."""
    values = oracle.record("DTransformer", [1, 2, 3], theta(), c)

    names = {paths.to_filename(p) for p in values}

    assert len(names) == len(values)
    assert {str(paths.parse(p)) for p in values} == set(values)


def test_an_algorithm_that_there_is_not():
    """A misspelled name is answered with the nearest one."""
    with pytest.raises(AlgorithmError, match=r"no algorithm .Dtransformer.\. Did you mean DTransformer\?"):
        oracle.record("Dtransformer", [1], theta(), c)


def varied(*on):
    """P of one run with some variants on in every layer."""
    watch = Watch(lambda path, value: value, names={"twice": lambda A: 2 * A})
    watch.on = dict.fromkeys(on, 0)
    return watch.algorithms.DTransformer([1, 2, 3], theta(), c)


DOUBLED = Variant(
    "doubled", {"4.6": ("softmax(S / SCALE[c.scale](d_attn))", "twice(softmax(S / SCALE[c.scale](d_attn)))")}
)
UNSCALED = Variant("unscaled", {"4.6": ("S / SCALE[c.scale](d_attn)", "S")})
BOTH = Variant("both", {"4.6": ("softmax(S / SCALE[c.scale](d_attn))", "twice(softmax(S))")})


def test_two_variants_of_one_line_hold_together():
    """In either order, they are the line with both changes."""
    np.testing.assert_array_equal(varied(UNSCALED, DOUBLED), varied(BOTH))
    np.testing.assert_array_equal(varied(DOUBLED, UNSCALED), varied(BOTH))
    assert not np.array_equal(varied(DOUBLED), varied(BOTH))


def test_variants_that_exclude_each_other():
    """Two that replace the same part are refused."""
    with pytest.raises(AlgorithmError, match=r"of line 4\.6 cannot hold together"):
        varied(UNSCALED, Variant("other", {"4.6": ("S / SCALE[c.scale](d_attn)", "S / d_attn")}))


def test_a_part_is_no_end_of_a_name():
    """What a variant puts there does not count as the part of another: (e - m) is not in half(e - m)."""
    call = Variant("call", {"6.3": ("(e - m)", "twice(e - m)")})
    other = Variant("other", {"6.3": ("(e - m)", "e")})

    with pytest.raises(AlgorithmError, match="cannot hold together"):
        varied(call, other)
