"""T5 as stored by `transformers`: Algorithm 8a with RMSnorm, bucketed positions, no biases and no division by sqrt.

Version 1.0 ties W_u to W_e and divides the last X by sqrt(d_e); 1.1 gates its MLPs and does neither.  Newer config.json
always say "tied": whether the file has a W_u of its own decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformulary.errors import ConfigError
from transformulary.formats import gpt2
from transformulary.formats.format import NEEDED, Format, Key, Keys
from transformulary.formats.llama import ATTENTION
from transformulary.formats.names import Shape
from transformulary.formats.rules import Rule
from transformulary.paper import Config, PreEDTransformerConfig

#: feed_forward_proj -> (mlp, activation); the first that gives ours is written.
PROJECTIONS = {
    "relu": ("plain", "relu"),
    "gated-gelu": ("gated", "gelu_tanh"),
    **{f"gated-{theirs}": ("gated", ours) for theirs, ours in gpt2.ACTIVATIONS.items() if theirs != "gelu"},
    **{theirs: ("plain", ours) for theirs, ours in gpt2.ACTIVATIONS.items()},
}
#: Parts of feed_forward_proj that newer files also say by themselves.
SAID_TWICE = ("dense_act_fn", "is_gated_act")


def read_mlp(theirs: dict[str, Any]) -> dict[str, Any]:
    """feed_forward_proj says both, and "gated-gelu" means the approximation by tanh."""
    given = theirs["feed_forward_proj"]
    if given not in PROJECTIONS:
        raise ConfigError(f"feed_forward_proj = {given!r} is none of {', '.join(PROJECTIONS)}.")
    mlp, activation = PROJECTIONS[given]
    said = gpt2.ACTIVATIONS.get(theirs.get("dense_act_fn", ""), activation), theirs.get("is_gated_act", mlp == "gated")
    if said != (activation, mlp == "gated"):
        raise ConfigError(f"feed_forward_proj = {given!r} and {' and '.join(SAID_TWICE)} contradict each other.")
    return {"mlp": mlp, "activation": activation}


def write_mlp(ours: dict[str, Any]) -> dict[str, Any]:
    """Their word for both."""
    both = ours["mlp"], ours["activation"]
    return {"feed_forward_proj": next((theirs for theirs, mine in PROJECTIONS.items() if mine == both), None)}


def read_tied(theirs: dict[str, Any]) -> dict[str, Any]:
    """scale_decoder_outputs, or else tie_word_embeddings, says whether the last X is divided by sqrt(d_e)."""
    tied = theirs["tie_word_embeddings"]
    divided = theirs.get("scale_decoder_outputs", tied)
    if type(tied) is not bool or type(divided) is not bool:
        raise ConfigError(f"tie_word_embeddings = {tied!r}, scale_decoder_outputs = {divided!r}: not true or false.")
    own = "lm_head.weight" in theirs["stored"] if "stored" in theirs else not tied
    return {"tied": divided or not own, "unembedding_scale": "sqrt" if divided else "none"}


def write_tied(ours: dict[str, Any]) -> dict[str, Any]:
    """Their two words."""
    return {"tie_word_embeddings": ours["tied"], "scale_decoder_outputs": ours["unembedding_scale"] == "sqrt"}


KEYS = (
    Key("vocab_size", "N_V", NEEDED),
    Key("n_positions", "ell_max", 512),
    Key("d_model", "d_e", NEEDED),
    Key("d_kv", "d_attn", NEEDED),
    Key("d_ff", "d_mlp", NEEDED),
    Key("num_layers", "L_enc", NEEDED),
    Key("num_decoder_layers", "L_dec", lambda theirs: theirs["num_layers"]),
    Key("num_heads", "H", NEEDED),
    Key("layer_norm_epsilon", "eps", 1e-6),
    Keys(("feed_forward_proj", *SAID_TWICE), read_mlp, write_mlp, {"feed_forward_proj": "relu"}),
    Keys(
        ("tie_word_embeddings", "scale_decoder_outputs", "stored"),
        read_tied,
        write_tied,
        {"tie_word_embeddings": True},
    ),
)
#: Keys that change the mathematics, and the only value that we compute.
REQUIRED = {
    "is_decoder": False,
    "is_encoder_decoder": True,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
}
HARMLESS = gpt2.HARMLESS | {"classifier_dropout", "decoder_start_token_id", "dropout_rate", "initializer_factor"}


@dataclass(frozen=True)
class Buckets:
    """They store one row per bucket and one column per head, we all buckets of a head one after another."""

    def shape(self, ours: Shape) -> Shape:
        return 32, ours[0] // 32

    def load(self, tensor: Any, c: Config) -> Any:
        return tensor.T.reshape(-1)

    def save(self, tensor: Any, c: Config) -> Any:
        return tensor.reshape(-1, 32).T


#: How the first matrix of an MLP is called, without and with a gate.
WI = {"wi.weight": "plain", "wi_0.weight": "gated"}


def stack(theirs: str, ours: str, norms: str, mlp: str, *attentions: tuple[str, str]) -> tuple[Rule, ...]:
    """The tensors of an encoder or a decoder."""
    h, o = f"{theirs}.block.{{l}}.layer.", f"{theirs}.{{l}}."
    rules = [
        Rule(f"{h}{k}.{kind}.{x}.weight", f"{o}{module}.{'W_o' if x == 'o' else f'W_qkv.W_{x}'}.weight")
        for k, (kind, module) in enumerate(attentions)
        for x in "qkvo"
    ]
    dense = f"{h}{len(attentions)}.DenseReluDense."
    first, second, gate = (f"{o}mlp.W_mlp{k}.weight" for k in mlp)
    rules += [Rule(dense + name, first, only=("mlp", kind)) for name, kind in WI.items()]
    rules += [Rule(dense + "wi_1.weight", gate)]
    rules += [Rule(dense + "wo.weight", second)]
    rules += [Rule(f"{h}{k}.layer_norm.weight", f"{o}norm_{n}.weight") for k, n in enumerate(norms)]
    bias = f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    rules += [Rule(bias, f"scores_{ours}.B", (Buckets(),))]
    return (*rules, Rule(f"{theirs}.final_layer_norm.weight", f"norm_{ours}.weight"))


SELF, CROSS = ("SelfAttention", "attention"), ("EncDecAttention", "cross")
T5 = Format(
    "t5",
    keys=KEYS,
    weights=(
        Rule("shared.weight", "W_e.weight"),
        *stack("encoder", "enc", "12", "125", SELF),
        *stack("decoder", "dec", "345", "346", SELF, CROSS),
        Rule("lm_head.weight", "W_u.weight"),
    ),
    fixed={
        "norm": "rms_norm",
        "positions": "bucketed",
        "scale": "none",
        "absent": [*ATTENTION, *(f"b_mlp{k}" for k in range(1, 7)), "b_u"],
    },
    required=REQUIRED,
    harmless=HARMLESS,
    copies={f"{side}.embed_tokens.weight": "shared.weight" for side in ("encoder", "decoder")},
    buffers=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
    sees=frozenset({"lm_head.weight"}),
    writes={"architectures": ["T5ForConditionalGeneration"]},
    kind=PreEDTransformerConfig,
)
