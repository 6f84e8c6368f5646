"""Configs: the defaults are the paper, and nothing impossible, contradictory or unknown gets through."""

import json
from dataclasses import fields

import pytest
from hypothesis import given

from strategies import configs, masks
from transformulary.errors import ConfigError
from transformulary.paper import (
    SLOTS,
    Causal,
    Choices,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    Local,
    Strided,
    flops,
    leaves,
    number_of_parameters,
    parameters,
)

SHARED = {"N_V": 11, "ell_max": 8, "H": 2, "d_e": 6, "d_mlp": 5}
SIZES = {
    DTransformerConfig: SHARED | {"L": 3},
    ETransformerConfig: SHARED | {"L": 3},
    EDTransformerConfig: SHARED | {"L_enc": 3, "L_dec": 2},
}


def D(**changes):
    return DTransformerConfig(**SIZES[DTransformerConfig] | changes)


def E(**changes):
    return ETransformerConfig(**SIZES[ETransformerConfig] | changes)


def ED(**changes):
    return EDTransformerConfig(**SIZES[EDTransformerConfig] | changes)


def message(make, **changes):
    with pytest.raises(ConfigError) as error:
        make(**changes)
    return str(error.value)


@pytest.mark.parametrize("make", [D, E, ED])
def test_the_defaults_are_the_paper(make):
    """Nothing but sizes given: layer norm without eps, learned positions, square-root scale, no output bias b_u."""
    config = make()
    table = {slot: getattr(config, slot) for slot in SLOTS}

    assert {slot: values[0] for slot, values in SLOTS.items()} | {
        "activation": "relu" if make is ED else "gelu"
    } == table
    assert (0.0, False, False) == (config.eps, config.tied, config.embedding_norm)
    assert (config.H, config.d_e // config.H, config.d_attn) == (config.H_kv, config.d_attn, config.d_mid)
    assert {"b_u"} | ({"W_s"} if make is E else set()) == config.absent


def test_algorithm_10_is_causal_and_algorithm_9_projects_to_its_own_width():
    """The paper's mask in line 6 of Algorithm 10; d_f = d_e and no segments in Algorithm 9."""
    assert (Causal(),) == D().mask
    assert (6, 0) == (E().d_f, E().segments)


@given(configs)
def test_to_dict_and_back(config):
    """from_dict undoes to_dict, which JSON does not change."""
    plain = config.to_dict()

    assert config == type(config).from_dict(plain)
    assert plain == json.loads(json.dumps(plain))


@given(masks)
def test_masks_may_be_given_as_text(mask):
    """One mask, its text, and lists of either are the same cycle."""
    assert (mask,) == D(mask=mask).mask == D(mask=str(mask)).mask == D(mask=[str(mask)]).mask
    assert (Causal(), mask) == D(mask=["causal", mask]).mask


def test_whole_numbers_serve_as_real_ones():
    """JSON may write eps = 0: it is the same model as eps = 0.0."""
    config = D(eps=0, base=10000)

    assert (D(), float, float) == (config, type(config.eps), type(config.base))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"d_e": 2, "H": 8}, "Nearest H that do: 1, 2; or give d_attn."),
        ({"d_e": 768, "H": 10}, "Nearest H that do: 8, 12; or give d_attn."),
        ({"d_e": 10**9, "H": 3}, "Nearest H that do: 2, 4; or give d_attn."),
        ({"d_e": 1000003, "H": 5000}, "Give d_attn."),
    ],
)
def test_H_must_divide_d_e(sizes, expected):
    """Without d_attn every head gets d_e / H numbers; the message proposes the nearest that work."""
    H, d_e = sizes["H"], sizes["d_e"]
    start = f"DTransformerConfig: H = {H} does not divide d_e = {d_e}: every head gets d_attn = d_e / H numbers. "

    assert start + expected == message(D, **sizes)


def test_H_need_not_divide_d_e_when_d_attn_is_given():
    """W_o maps H d_mid numbers to d_e whatever they are: d_e = 1023 with 8 heads of 25 is a model."""
    config = D(d_e=1023, H=8, d_attn=25)
    W_o = [shape for name, _, shape in leaves(parameters(config), config) if name == "W.W_o"]

    assert [(1023, 8 * 25)] == W_o


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("hidden_size", "The paper calls it d_e."),
        ("n_embd", "The paper calls it d_e."),
        ("vocab_size", "The paper calls it N_V."),
        ("block_size", "The paper calls it ell_max."),
        ("num_hidden_layers", "The paper calls it L."),
        ("num_layers", "The paper calls it L."),
        ("num_key_value_heads", "The paper calls it H_kv."),
        ("rope_theta", "The paper calls it base."),
        ("tie_word_embeddings", "The paper calls it tied."),
        ("d_mpl", "Did you mean d_mlp?"),
        ("actvation", "Did you mean activation?"),
    ],
)
def test_an_unknown_key_is_named(key, hint):
    """What others call it leads to the paper's name, a slip to the nearest one."""
    given = SIZES[DTransformerConfig] | {key: 1}

    with pytest.raises(ConfigError) as error:
        DTransformerConfig.from_dict(given)

    assert f"DTransformerConfig has no {key!r}. {hint}" == str(error.value)


def test_a_key_that_nothing_resembles_lists_what_there_is():
    """No hint is invented; a decoder's mask is no field of the other two."""
    known = ", ".join(sorted(f.name for f in fields(ETransformerConfig)))

    with pytest.raises(ConfigError) as error:
        ETransformerConfig.from_dict(SIZES[ETransformerConfig] | {"zzz": 1})
    with pytest.raises(ConfigError, match="ETransformerConfig has no 'mask'"):
        ETransformerConfig.from_dict(SIZES[ETransformerConfig] | {"mask": "causal"})

    assert f"ETransformerConfig has no 'zzz'. It has: {known}." == str(error.value)


def test_missing_sizes_are_named():
    """All that are missing, at once."""
    with pytest.raises(ConfigError) as error:
        EDTransformerConfig.from_dict({"N_V": 3, "ell_max": 2, "H": 1, "L_enc": 1})

    assert "EDTransformerConfig cannot do without d_e, d_mlp, L_dec: no value was given." == str(error.value)


def test_a_config_file_that_is_a_list():
    """from_dict wants names and values."""
    with pytest.raises(ConfigError, match=r"DTransformerConfig needs names and values, not \[1, 2\]"):
        DTransformerConfig.from_dict([1, 2])


@pytest.mark.parametrize("name", ["N_V", "ell_max", "L", "H", "d_e", "d_mlp"])
@pytest.mark.parametrize("value", [0, -1, True, 2.0, "3", None, float("nan"), [4]])
def test_sizes_are_whole_numbers(name, value):
    """Neither booleans, nor text, nor numbers with a point, nor less than one."""
    assert f"DTransformerConfig: {name} = {value!r} must be a whole number, at least 1." == message(D, **{name: value})


@pytest.mark.parametrize(
    ("make", "changes", "expected"),
    [
        (D, {"H_kv": 0}, "H_kv = 0 must be a whole number, at least 1."),
        (D, {"d_attn": "4"}, "d_attn = '4' must be a whole number, at least 1."),
        (E, {"segments": -1}, "segments = -1 must be a whole number, at least 0."),
        (E, {"d_f": 1.5}, "d_f = 1.5 must be a whole number, at least 1."),
        (
            D,
            {"H": 4, "d_attn": 2, "H_kv": 3},
            "H_kv = 3 does not divide H = 4: every key/value head serves H / H_kv query heads.",
        ),
        (
            D,
            {"positions": "sinusoid_t2t", "d_e": 2, "H": 1},
            "d_e = 2 is too small for sinusoid_t2t, whose formula divides by d_e / 2 - 1: at least 4.",
        ),
        (D, {"norm": "layernorm"}, "norm = 'layernorm' is none of layer_norm, rms_norm."),
        (D, {"activation": "gelu_new"}, "activation = 'gelu_new' is none of gelu, relu, gelu_tanh, silu."),
        (D, {"scale": None}, "scale = None is none of sqrt, none."),
        (D, {"mlp": ["gated"]}, "mlp = ['gated'] is none of plain, gated."),
        (D, {"tied": 1}, "tied = 1 must be true or false."),
        (D, {"embedding_norm": "yes"}, "embedding_norm = 'yes' must be true or false."),
        (D, {"eps": "1e-5"}, "eps = '1e-5' must be a number."),
        (D, {"eps": True}, "eps = True must be a number."),
        (D, {"eps": -1e-5}, "eps = -1e-05 must be 0 or a positive number."),
        (D, {"eps": float("nan")}, "eps = nan must be 0 or a positive number."),
        (D, {"eps": float("inf")}, "eps = inf must be 0 or a positive number."),
        (D, {"base": 0}, "base = 0 must be a positive number."),
        (D, {"base": float("nan")}, "base = nan must be a positive number."),
        (D, {"absent": "b_q"}, "absent = 'b_q' must be a list of names of parameters."),
        (D, {"absent": None}, "absent = None must be a list of names of parameters."),
        (D, {"absent": [1]}, "absent = [1] must be a list of names of parameters."),
        (D, {"absent": {"b_q": False}}, "absent = {'b_q': False} must be a list of names of parameters."),
        (D, {"mask": []}, "mask = [] must be one mask or a list of at least one."),
        (D, {"mask": None}, "mask = None must be one mask or a list of at least one."),
        (D, {"mask": 3}, "mask = 3 must be one mask or a list of at least one."),
        (D, {"mask": ["causal", 3]}, "mask = ['causal', 3] must be one mask or a list of at least one."),
        (
            D,
            {"absent": ["W_p"]},
            "positions = 'learned' needs W_p, which absent names. Say positions = 'none' instead.",
        ),
        (
            E,
            {"absent": ["W_s"], "segments": 2},
            "segments = 2 needs W_s, which absent names. Say segments = 0 instead.",
        ),
        (E, {"tied": True, "d_f": 5}, "d_f = 5 is not d_e = 6: tied, W_u = W_e^T, needs them equal."),
        (
            D,
            {"positions": "rotary", "d_attn": 3},
            "d_attn = 3 is odd, and rotary positions turn pairs of numbers. Make d_attn even.",
        ),
        (
            ED,
            {"positions": "rotary", "d_attn": 4},
            "positions = 'rotary' compares places in one sequence, and line 16 of Algorithm 8 attends from one "
            "sequence to another. Use learned, a sinusoid, bucketed or none.",
        ),
    ],
)  # fmt: skip
def test_one_line_says_what_is_wrong(make, changes, expected):
    """The class, the name, the value, the reason."""
    assert f"{type(make()).__name__}: {expected}" == message(make, **changes)


def test_a_misspelt_mask_names_every_mask():
    """Text goes through parse_mask, whose message is about masks."""
    assert message(D, mask=["causal", "lokal(3)"]).startswith("mask 'lokal(3)' is none of full, causal, local(width),")


@pytest.mark.parametrize(
    ("make", "name"), [(D, "bq"), (D, "b_mlp4"), (D, "W_s"), (D, "W_e"), (E, "beta_3"), (ED, "b_f"), (ED, "beta")]
)
def test_absent_names_only_what_the_architecture_can_lack(make, name):
    """A slip, another architecture's parameter or one that no model can do without: all are named."""
    config = make()

    assert (
        f"{type(config).__name__}: absent names {name}, which this architecture cannot lack. "
        f"Those that can be absent: {', '.join(sorted(config.optional))}."
    ) == message(make, absent=["b_q", name])


@pytest.mark.parametrize("positions", SLOTS["positions"])
def test_which_positions_need_an_even_width(positions):
    """Pairs of sine and cosine need an even d_e, but for the published formula, which may cut the last cosine off."""
    paired = positions in {"sinusoid", "sinusoid_halves", "sinusoid_t2t", "relative"}
    try:
        D(d_e=5, d_attn=2, positions=positions)
        refused = None
    except ConfigError as error:
        refused = str(error)

    assert (
        f"DTransformerConfig: d_e = 5 is odd, and {positions} positions pair a sine with a cosine. "
        "Make d_e even, or use sinusoid_vaswani."
        if paired
        else None
    ) == refused


def test_choices_rule_parameters_out():
    """Every beta under rms_norm, W_p unless positions are learned: `absent` says so."""
    config = D(norm="rms_norm", positions="rotary", d_attn=4, absent=["b_q"])

    assert {"b_q", "beta", "beta_1", "beta_2", "beta_x", "beta_q", "beta_k", "W_p"} == config.absent


def test_tables_of_the_context():
    """`separate` names tables of the embedding that z has beside those of x; any other name is refused."""
    one, both = ED(separate=["W_p"]), ED(separate=["W_p", "W_e"])
    names = [name for name, _, _ in leaves(parameters(both), both)][:4]

    assert ["W_e", "W_e_z", "W_p", "W_p_z"] == names
    assert "W_e_z" not in parameters(one)
    assert number_of_parameters(both) == number_of_parameters(one) + 6 * 11 == number_of_parameters(ED()) + 6 * (11 + 8)
    assert both == EDTransformerConfig.from_dict(json.loads(json.dumps(both.to_dict())))
    assert (
        "EDTransformerConfig: separate names W_u, which is no table of an embedding. "
        "Those that can be separate: W_e, W_p."
    ) == message(ED, separate=["W_u"])
    assert "EDTransformerConfig: positions = 'none' has no W_p, which separate names." == message(
        ED, positions="none", separate=["W_p"]
    )


@given(configs)
def test_absent_parameters_are_not_in_the_table(config):
    """What `absent` names is nowhere in the table of parameters; every other bias of the architecture is."""
    table = {name.split(".")[-1] for name, _, _ in leaves(parameters(config), config)}
    biases = {"b_q", "b_k", "b_v", "b_o", "b_u", "b_mlp1", "b_mlp2"}

    assert set() == table & config.absent
    assert biases - config.absent <= table


@pytest.mark.parametrize("make", [D, E, ED])
def test_huge_models_cost_nothing_to_describe(make):
    """A thousand million layers: made and counted without a loop over them."""
    huge = 10**9
    layers = {"L_enc": huge, "L_dec": huge} if make is ED else {"L": huge}
    masks = {"mask": (Causal(), Local(3) | Strided(3))} if make is D else {}
    config = make(**layers, **masks, ell_max=huge)

    assert number_of_parameters(config) > huge
    assert flops(config, huge).total > huge**3


def test_a_config_is_a_value():
    """Equal when its fields are, usable as a key, and never changed."""
    assert 1 == len({D(), D(absent={"b_u"}), D(mask="causal")})
    with pytest.raises(AttributeError):
        D().L = 4


def test_choices_alone_are_the_paper():
    """The choices that all architectures share stand for themselves."""
    assert ("layer_norm", frozenset({"b_u"})) == (Choices().norm, Choices().absent)


@pytest.mark.parametrize("name", ["L", "H", "N_V", "d_mlp"])
def test_sizes_that_no_array_has(name):
    """A size beyond every index is refused, before anything is counted of it."""
    sizes = {"N_V": 5, "ell_max": 4, "L": 1, "H": 1, "d_e": 2, "d_mlp": 2}

    with pytest.raises(ConfigError, match=f"{name} has 1329 bits, which is absurd"):
        DTransformerConfig(**sizes | {name: 10**400})
