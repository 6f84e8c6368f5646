"""Marian as stored by `transformers`: Algorithm 8 with sinusoids in halves, scaled embeddings, eps and a bias b_u."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from transformulary.errors import ConfigError
from transformulary.formats import gpt2
from transformulary.formats.bert import modules
from transformulary.formats.format import NEEDED, Format, Key, Keys
from transformulary.formats.names import Shape
from transformulary.formats.rules import Rule
from transformulary.paper import Config, EDTransformerConfig


def same(ours: str, theirs: tuple[str, ...], *also: str) -> Keys:
    """One field of ours that several keys say, some of which may be missing: Algorithm 8 has one for both stacks."""

    def read(config: dict[str, Any]) -> dict[str, Any]:
        given = {key: config[key] for key in (*theirs, *also) if key in config}
        if any(value != given[theirs[0]] for value in given.values()):
            said = ", ".join(f"{key} = {value!r}" for key, value in given.items())
            raise ConfigError(f"{said}: encoder and decoder differ, and Algorithm 8 has one {ours} for both.")
        return {ours: given[theirs[0]]}

    return Keys((*theirs, *also), read, _written((*theirs, *also), ours), dict.fromkeys(theirs, NEEDED))


def yes(theirs: dict[str, Any], name: str) -> bool:
    """Whether a key is true.  Raises ConfigError for what is neither true nor false."""
    given = theirs[name]
    if type(given) is not bool:
        raise ConfigError(f"{name} = {given!r} is neither true nor false.")
    return given


def read_tables(theirs: dict[str, Any]) -> dict[str, Any]:
    """Which tables of tokens are one: W_u and W_e, and that of z and W_e."""
    shared, tied = yes(theirs, "share_encoder_decoder_embeddings"), yes(theirs, "tie_word_embeddings")
    if shared and not tied:
        raise ConfigError(
            "tie_word_embeddings = False and share_encoder_decoder_embeddings = True: older programs read one table of "
            "tokens for z and x there, newer ones two. Which is meant is anyone's guess."
        )
    return {"tied": tied, "separate": [] if shared else ["W_e"]}


def write_tables(ours: dict[str, Any]) -> dict[str, Any]:
    """Their two words."""
    return {"tie_word_embeddings": ours["tied"], "share_encoder_decoder_embeddings": "W_e" not in ours["separate"]}


#: The parameter that a file without a head lacks.
BIAS = "final_logits_bias"


def headed(with_head: str, without: str) -> Keys:
    """Whether there is a bias b_u: by what is stored, and where only the config is known by its `architectures`."""

    def read(theirs: dict[str, Any]) -> dict[str, Any]:
        there = BIAS in theirs["stored"] if "stored" in theirs else theirs.get("architectures") != [without]
        return {"absent": [] if there else ["b_u"]}

    def write(ours: dict[str, Any]) -> dict[str, Any]:
        return {"architectures": [without if "b_u" in ours["absent"] else with_head]}

    return Keys(("stored", "architectures"), read, write)


def _written(theirs: tuple[str, ...], ours: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda config: dict.fromkeys(theirs, config[ours])


#: Those that BART has too.
COMMON = (
    Key("max_position_embeddings", "ell_max", NEEDED),
    Key("d_model", "d_e", NEEDED),
    Key("activation_function", "activation", "gelu", gpt2.ACTIVATIONS),
    Key("scale_embedding", "embedding_scale", False, {True: "sqrt", False: "none"}),
    Key("decoder_layers", "L_dec", NEEDED),
    same("L_enc", ("encoder_layers",), "num_hidden_layers"),
    same("H", ("encoder_attention_heads", "decoder_attention_heads"), "num_attention_heads"),
    same("d_mlp", ("encoder_ffn_dim", "decoder_ffn_dim")),
)
TABLES = ("tie_word_embeddings", "share_encoder_decoder_embeddings")
KEYS = (
    *COMMON,
    same("N_V", ("vocab_size",), "decoder_vocab_size"),
    Keys(TABLES, read_tables, write_tables, dict.fromkeys(TABLES, True)),
    headed("MarianMTModel", "MarianModel"),
)
#: Keys that change the mathematics, and the only value that we compute.
REQUIRED = {
    "is_decoder": False,
    "is_encoder_decoder": True,
    "add_final_layer_norm": False,
    "normalize_before": False,
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "pruned_heads": {},
}
#: Dropout, the initialisation, what `generate` does, and what other users of the same keys need.
HARMLESS = gpt2.HARMLESS | {
    "activation_dropout",
    "add_bias_logits",
    "attention_dropout",
    "bad_words_ids",
    "classif_dropout",
    "classifier_dropout",
    "decoder_layerdrop",
    "decoder_start_token_id",
    "dropout",
    "encoder_layerdrop",
    "extra_pos_embeddings",
    "forced_eos_token_id",
    "init_std",
    "max_length",
    "num_beams",
}


@dataclass(frozen=True)
class Row:
    """They store a vector as a matrix with one row."""

    def shape(self, ours: Shape) -> Shape:
        return (1, *ours)

    def load(self, tensor: Any, c: Config) -> Any:
        return tensor.reshape(-1)

    def save(self, tensor: Any, c: Config) -> Any:
        return tensor.reshape(1, -1)


def layers(stack: str, norms: dict[str, str], *attentions: tuple[str, str]) -> dict[str, str]:
    """The modules of a layer of BART's kind: their name -> ours."""
    h, o = f"model.{stack}.layers.{{l}}.", f"{stack}.{{l}}."
    mlp = (1, 2) if stack == "encoder" else (3, 4)
    found = {f"{h}fc{k}": f"{o}mlp.W_mlp{n}" for k, n in enumerate(mlp, 1)}
    for theirs, ours in attentions:
        found |= {f"{h}{theirs}.{x}_proj": f"{o}{ours}.W_qkv.W_{x}" for x in "qkv"}
        found |= {f"{h}{theirs}.out_proj": f"{o}{ours}.W_o"}
    return found | {f"{h}{theirs}_layer_norm": f"{o}{ours}" for theirs, ours in norms.items()}


SELF = ("self_attn", "attention")
LAYERS = layers("encoder", {"self_attn": "norm_1", "final": "norm_2"}, SELF) | layers(
    "decoder", {"self_attn": "norm_3", "encoder_attn": "norm_4", "final": "norm_5"}, SELF, ("encoder_attn", "cross")
)
SHARED, SEPARATE = (("separate", frozenset(tables)) for tables in ((), ("W_e",)))
WEIGHTS = (
    Rule("model.shared.weight", "W_e.weight", only=SHARED),
    Rule("model.encoder.embed_tokens.weight", "W_e_z.weight", only=SEPARATE),
    Rule("model.decoder.embed_tokens.weight", "W_e.weight", only=SEPARATE),
    *modules(LAYERS),
    Rule("lm_head.weight", "W_u.weight"),
    Rule(BIAS, "W_u.bias", (Row(),)),
)
COPIES = {f"model.{stack}.embed_tokens.weight": "model.shared.weight" for stack in ("encoder", "decoder")}

MARIAN = Format(
    "marian",
    keys=KEYS,
    weights=WEIGHTS,
    fixed={"positions": "sinusoid_halves", "eps": 1e-5},
    copies=COPIES,
    buffers=("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"),
    prefix="model.",
    sees=frozenset({BIAS}),
    writes={"pad_token_id": 0},  # theirs must be in the vocabulary
    required=REQUIRED,
    harmless=HARMLESS,
    kind=EDTransformerConfig,
)
