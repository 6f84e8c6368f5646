"""The table of symbols covers the paper, the configs and every parameter; its spellings follow one rule."""

import re
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given

from strategies import ARCHITECTURES, configs
from transformulary.errors import ConfigError
from transformulary.paper import SYMBOLS, ETransformerConfig, called, parameters, symbol
from transformulary.paper.others import OTHERS
from transformulary.paper.parameters import split
from transformulary.paper.symbols import APPENDIX, BOXES, GROUPS

#: Names that are no LaTeX command: another thing has the letter, its command is another's, or an accent no word.
FREE = {"vocabulary", "eps", "reals", "naturals", "integers", "inf", "t_prime"}


def spelling(latex):
    r"""A LaTeX command without backslash, braces and style; accents after the letter; no difference between ^ and _."""
    plain = re.sub(r"\\(?:boldsymbol|mathrm|mathcal)", "", latex.replace("^*", "*").replace("/", ""))
    plain = re.sub(r"\\(tilde|hat)(.*)", r"\2_\1", plain)
    return re.sub(r"[\\{}]", "", plain).replace("^", "_")


def test_spellings_are_unique():
    """One name, one symbol."""
    assert len(SYMBOLS) == sum(map(len, GROUPS.values()))


@pytest.mark.parametrize("name", sorted(SYMBOLS.keys() - FREE))
def test_a_symbol_is_spelled_as_its_latex_command(name):
    """ell_max is \\ell_{\\max}, W_mlp1 is W_{mlp1}, X_tilde is \\tilde{X}."""
    assert name == spelling(SYMBOLS[name].latex)


def test_only_some_spellings_are_free():
    """The rule has the exceptions that are written down, and no others."""
    assert {name for name, s in SYMBOLS.items() if name != spelling(s.latex)} == FREE


def test_names_of_values_are_ascii():
    """Python folds letters such as the paper's length to plain ones: names avoid them."""
    assert all(name.isascii() for name in SYMBOLS)


def test_the_whole_list_of_notation_is_there():
    """Appendix B, in its order; d_... stands as d_e."""
    listed = (
        "[N] i j vocabulary N_V V* ell_max ell d_e t x z M[i,j] M[i,:] M[:,j] e X Z Mask L L_enc L_dec l H h N_data n "
        "eta tau W_e W_p W_u W_q b_q W_k b_k W_v b_v W_qkv W_o b_o W W_mlp b_mlp gamma beta theta theta_hat"
    )

    assert listed.split() == [s.name for s in APPENDIX]


def test_what_the_list_forgets_is_there():
    """Symbols that the paper uses without listing them."""
    used = "d_in d_attn d_value d_mid d_out d_mlp d_f T N_C N_epochs p_mask ell_gen odot Delta"

    assert set(used.split()) <= {s.name for s in BOXES}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_field_of_a_config_is_a_symbol(architecture):
    """Sizes and choices alike, so that `symbols` explains whatever a config file may hold."""
    assert set() == {f.name for f in fields(architecture)} - SYMBOLS.keys()


def stated(space, config):
    """A space of the symbols' table as the parameters' table writes it: all widths are d_e outside a head."""
    width = {"d_x": "d_e", "d_z": "d_e", "d_out": "d_e"}
    return [width.get(size, size) for size in space.split(" x ")]


@given(configs)
def test_every_parameter_is_a_symbol_with_its_shape(config):
    """All architectures, all slots: the shape beside the symbol is the shape in the table of parameters."""

    def flat(table):
        for name, shape in table.items():
            yield from [(name, shape)] if isinstance(shape, str) else [(name, ""), *flat(shape)]

    narrow = {"gamma", "beta", "W_u"} if isinstance(config, ETransformerConfig) else set()  # d_f, as `meaning` says
    for entry, shape in flat(parameters(config)):
        name, count = split(entry)
        expected = shape.replace("d_f", "d_e") if name in narrow else shape

        assert expected.split() == (stated(SYMBOLS[name].space, config) if shape else [])
        assert count in SYMBOLS or not count


@pytest.mark.parametrize("name", sorted(SYMBOLS))
def test_a_symbol_has_a_meaning(name):
    """One line, without a full stop; no column of the table slipped."""
    s = SYMBOLS[name]

    assert s.meaning
    assert not s.meaning.endswith(".")
    assert s.latex
    assert s.unicode


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("d_e", ["d_e"]),
        ("n_embd", ["d_e"]),
        ("hidden_size", ["d_e"]),
        ("d_model", ["d_e"]),
        ("block_size", ["ell_max"]),
        (r"\ell_{\max}", ["ell_max"]),
        (r"ell_{\max}", ["ell_max"]),
        ("ℓ_max", ["ell_max"]),
        ("γ¹", ["gamma_1"]),
        ("attn.c_attn.weight", ["W_qkv"]),
        ("mlp.up_proj.weight", ["W_mlp3"]),
        ("attn.c_attn.bias", ["b_q", "b_k", "b_v"]),
        ("output.dense.weight", ["W_mlp2"]),
        ("output.LayerNorm.weight", ["gamma_2"]),
        ("self_attn_layer_norm.weight", ["gamma_1", "gamma_3"]),
        ("learning_rate", ["eta"]),
        ("word_embeddings.weight", ["W_e"]),
        ("num_layers", ["L", "L_enc"]),
        ("V", ["V"]),
        ("nobody", []),
    ],
)
def test_lookup_by_any_name(theirs, ours):
    """Ours, LaTeX, the terminal's, or another library's."""
    assert ours == [s.name for s in called(theirs)]


@pytest.mark.parametrize("name", sorted({theirs for names in OTHERS.values() for theirs in names.values()}))
def test_every_name_of_others_leads_to_us(name):
    """Whatever the others' tables hold, `symbol` finds."""
    assert name in {*symbol(name).others.values(), symbol(name).name}


def test_others_name_only_our_symbols():
    """A slip in a table of others' names would be a symbol that does not exist."""
    assert set() == {ours for names in OTHERS.values() for ours in names} - SYMBOLS.keys()


def test_nobody_calls_it_that():
    """The message proposes the nearest name that anybody uses."""
    with pytest.raises(ConfigError) as error:
        symbol("hidden_sise")

    assert "no symbol is called 'hidden_sise', in the paper or elsewhere. Did you mean hidden_size?" == str(error.value)


BERT_SIZES = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 4, "vocab_size": 5}
MARIAN_SIZES = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}


@pytest.mark.parametrize(
    ("who", "model", "sizes"),
    [
        ("GPT-2", "GPT2LMHeadModel", {"n_layer": 1, "n_head": 2, "n_embd": 4, "vocab_size": 5}),
        ("Llama", "LlamaForCausalLM", BERT_SIZES),
        ("BERT", "BertForMaskedLM", BERT_SIZES),
        ("Marian", "MarianMTModel", MARIAN_SIZES | {"d_model": 4, "vocab_size": 5, "pad_token_id": 0}),
        ("T5", "T5ForConditionalGeneration", {"num_layers": 1, "num_heads": 2, "d_model": 4, "vocab_size": 5}),
    ],
)
def test_hugging_face_calls_it_that(who, model, sizes):
    """Each name in the table is an attribute of the installed library's config or the end of a tensor's name."""
    transformers = pytest.importorskip("transformers")
    kind = getattr(transformers, model)
    config = kind.config_class(**sizes)
    tensors = kind(config).state_dict()
    words = {"input_ids", "temperature", "max_new_tokens"}  # arguments of calls
    words |= {*dir(config), *(getattr(config, "rope_parameters", None) or {})}
    unknown = {
        theirs
        for theirs in OTHERS[who].values()
        if theirs not in words and not any(name.endswith(theirs) for name in tensors)
    }

    assert set() == unknown


#: Whose parameters `huggingface` finds for the paper's names, by maps of its own, proven by equal probabilities.
PROVEN = {"GPT-2": "gpt2", "Llama": "llama", "BERT": "bert", "Marian": "marian"}


@pytest.mark.parametrize("who", PROVEN)
def test_what_they_call_it_is_that(who):
    """The numbers of a parameter of ours are those of the tensor whose name we say is theirs: none is swapped."""
    pytest.importorskip("transformers")
    huggingface = pytest.importorskip("huggingface")
    model, _, theta = getattr(huggingface, PROVEN[who])()
    tensors = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    ours = {}
    for name, array in theta.items():
        if name.startswith("W_ed"):  # the same names as in self-attention, in another module of theirs
            continue
        base = re.sub(r"\[\d+\]", "", name).rpartition(".")[2]
        ours.setdefault("W_qkv" if (who, base) == ("GPT-2", "W_q") else base, []).append(array)

    wrong, seen = set(), set()
    for symbol_name, theirs in OTHERS[who].items():
        named = [tensor.ravel() for name, tensor in tensors.items() if name.endswith(theirs)]
        if named and symbol_name in ours:
            seen.add(symbol_name)
            if not all(np.isin(array, np.concatenate(named)).all() for array in ours[symbol_name]):
                wrong.add(symbol_name)

    assert set() == wrong
    assert seen == ours.keys() & {name for name, theirs in OTHERS[who].items() if "." in theirs or "bias" in theirs}
    assert {"gamma_1", "gamma_2", "W_mlp1", "W_mlp2", "W_o"} <= seen
