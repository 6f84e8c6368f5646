"""The architectures of GGUF files: what llama.cpp calls the numbers and tensors of GPT-2 and Llama."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Any

from transformulary.errors import ConfigError
from transformulary.formats.format import NEEDED, Format, Key, Keys
from transformulary.formats.llama import FIXED
from transformulary.formats.names import JOINT, Shape
from transformulary.formats.rules import Rule
from transformulary.paper import Config


def unwritten(ours: dict[str, Any]) -> dict[str, Any]:
    """GGUF files are read, not written."""
    raise AssertionError("no GGUF file is written")


@dataclass(frozen=True)
class Neighbours:
    """Rows of each head in the order of pairs of neighbours, (0, 1), (2, 3)...; ours pairs halves.

    heads  the field of the config that says how many there are
    """

    heads: str

    def shape(self, ours: Shape) -> Shape:
        return ours

    def load(self, tensor: Any, c: Config) -> Any:
        H = getattr(c, self.heads)
        return tensor.reshape(H, len(tensor) // H // 2, 2, -1).swapaxes(1, 2).reshape(tensor.shape)

    def save(self, tensor: Any, c: Config) -> Any:
        H = getattr(c, self.heads)
        return tensor.reshape(H, 2, len(tensor) // H // 2, -1).swapaxes(1, 2).reshape(tensor.shape)


#: A bias that some models store -> what ours is called.
BIASES = {
    "attn_q.bias": "b_q",
    "attn_k.bias": "b_k",
    "attn_v.bias": "b_v",
    "attn_output.bias": "b_o",
    "ffn_gate.bias": "b_mlp1",
    "ffn_down.bias": "b_mlp2",
    "ffn_up.bias": "b_mlp3",
}


def read_llama_tensors(theirs: dict[str, Any]) -> dict[str, Any]:
    """What the file holds says which parameters the model has: no output.weight means that it is token_embd.weight."""
    has = set(theirs["tensors"])
    absent = [ours for name, ours in BIASES.items() if f"blk.0.{name}" not in has]
    return {"tied": "output.weight" not in has, "absent": ["b_u", *absent]}


def _rope(name: str) -> str:
    return f"llama.rope.{name}"


ROPE_KEYS = (
    "freq_base",
    "dimension_count",
    "scaling.type",
    "scaling.factor",
    "scaling.original_context_length",
    "scaling.finetuned",
    "scaling.yarn_beta_fast",
    "scaling.yarn_beta_slow",
)


def read_rope(theirs: dict[str, Any]) -> dict[str, Any]:
    """Base and frequencies; those of llama3 are a tensor, rope_freqs, of which the published ones are recognised."""
    H, d_e = theirs.get("llama.attention.head_count"), theirs.get("llama.embedding_length")
    if not (type(H) is int and type(d_e) is int and H > 0):
        raise ConfigError(f"llama.attention.head_count = {H!r} and llama.embedding_length = {d_e!r} are no sizes.")
    d_attn = theirs.get("llama.attention.key_length", d_e // H)
    if theirs.get(_rope("dimension_count"), d_attn) != d_attn:
        raise ConfigError(
            f"{theirs[_rope('dimension_count')]} of {d_attn} numbers of a head turn: only all of them can."
        )
    kind, factor = theirs.get(_rope("scaling.type"), "none"), theirs.get(_rope("scaling.factor"), 1.0)
    ours = {"base": theirs.get(_rope("freq_base"), 10000.0), "d_attn": d_attn}
    if theirs.get("rope_freqs"):
        if kind != "none":
            raise ConfigError(f"rope_freqs.weight and a scaling of type {kind}: only one of them is computed.")
        return ours | recognised(theirs["rope_freqs"], ours["base"], d_attn)
    match kind:
        case "none":
            return ours
        case "linear":
            return ours | {"frequencies": "linear", "factor": factor}
        case "yarn":
            return ours | {
                "frequencies": "yarn",
                "factor": factor,
                "ell_train": theirs.get(_rope("scaling.original_context_length")),
                "beta_fast": theirs.get(_rope("scaling.yarn_beta_fast"), 32.0),
                "beta_slow": theirs.get(_rope("scaling.yarn_beta_slow"), 1.0),
                "attention_factor": 0.1 * log(factor) + 1.0,
            }
    raise ConfigError(f"{_rope('scaling.type')} = {kind!r} is none of 'none', 'linear', 'yarn'.")


#: The factors of published models: Llama 3.1 and 3.3, Llama 3.2.
LLAMA3 = tuple({"factor": f, "beta_slow": 1.0, "beta_fast": 4.0, "ell_train": 8192} for f in (8.0, 32.0))


def recognised(freqs: list[float], base: float, d_attn: int) -> dict[str, Any]:
    """The numbers of llama3 frequencies from what they divide each frequency by."""
    for numbers in LLAMA3:
        if len(freqs) == d_attn // 2 and all(
            abs(given - wanted) <= 1e-5 * wanted
            for given, wanted in zip(freqs, divisors(numbers, base, d_attn), strict=True)
        ):
            return {"frequencies": "llama3", **numbers}
    raise ConfigError("rope_freqs.weight holds none of the frequencies that Llama 3 was published with.")


def divisors(numbers: dict[str, Any], base: float, d_attn: int) -> list[float]:
    """What llama3 frequencies are divided by, pair by pair."""
    found = []
    for i in range(d_attn // 2):
        turns = numbers["ell_train"] * base ** (-2 * i / d_attn) / (2 * pi)
        kept = (turns - numbers["beta_slow"]) / (numbers["beta_fast"] - numbers["beta_slow"])
        kept = max(0.0, min(1.0, kept))
        found.append(1 / (kept + (1 - kept) / numbers["factor"]))
    return found


h, o = "blk.{l}.", "layers.{l}."
BOTH = ("weight", "bias")
GGUF_LLAMA = Format(
    "gguf llama",
    keys=(
        Key("llama.vocab_size", "N_V", NEEDED),
        Key("llama.context_length", "ell_max", NEEDED),
        Key("llama.embedding_length", "d_e", NEEDED),
        Key("llama.block_count", "L", NEEDED),
        Key("llama.feed_forward_length", "d_mlp", NEEDED),
        Key("llama.attention.head_count", "H", NEEDED),
        Key("llama.attention.head_count_kv", "H_kv"),
        Key("llama.attention.value_length", "d_mid"),
        Key("llama.attention.layer_norm_rms_epsilon", "eps"),
        Keys(("llama.attention.key_length", "rope_freqs", *map(_rope, ROPE_KEYS)), read_rope, unwritten),
        Keys(("tensors",), read_llama_tensors, unwritten),
    ),
    fixed=FIXED | {"activation": "silu"},
    weights=(
        Rule("token_embd.weight", "W_e.weight"),
        Rule(h + "attn_norm.weight", o + "norm_1.weight"),
        *(Rule(f"{h}attn_q.{k}", f"{o}attention.W_qkv.W_q.{k}", (Neighbours("H"),)) for k in BOTH),
        *(Rule(f"{h}attn_k.{k}", f"{o}attention.W_qkv.W_k.{k}", (Neighbours("H_kv"),)) for k in BOTH),
        *(Rule(f"{h}attn_v.{k}", f"{o}attention.W_qkv.W_v.{k}") for k in BOTH),
        *(Rule(f"{h}attn_output.{k}", f"{o}attention.W_o.{k}") for k in BOTH),
        Rule(h + "ffn_norm.weight", o + "norm_2.weight"),
        *(Rule(f"{h}ffn_gate.{k}", f"{o}mlp.W_mlp1.{k}") for k in BOTH),
        *(Rule(f"{h}ffn_down.{k}", f"{o}mlp.W_mlp2.{k}") for k in BOTH),
        *(Rule(f"{h}ffn_up.{k}", f"{o}mlp.W_mlp3.{k}") for k in BOTH),
        Rule("output_norm.weight", "norm.weight"),
        Rule("output.weight", "W_u.weight"),
    ),
    buffers=("rope_freqs.weight", "blk.*.attn_rot_embd.weight"),
)

GGUF_GPT2 = Format(
    "gguf gpt2",
    keys=(
        Key("gpt2.vocab_size", "N_V", NEEDED),
        Key("gpt2.context_length", "ell_max", NEEDED),
        Key("gpt2.embedding_length", "d_e", NEEDED),
        Key("gpt2.block_count", "L", NEEDED),
        Key("gpt2.feed_forward_length", "d_mlp", NEEDED),
        Key("gpt2.attention.head_count", "H", NEEDED),
        Key("gpt2.attention.layer_norm_epsilon", "eps"),
        Keys(("tensors",), lambda theirs: {"tied": "output.weight" not in theirs["tensors"]}, unwritten),
    ),
    fixed={"activation": "gelu_tanh"},
    required={"rope_freqs": None},
    weights=(
        Rule("token_embd.weight", "W_e.weight"),
        Rule("position_embd.weight", "W_p.weight"),
        *(Rule(f"{h}attn_norm.{k}", f"{o}norm_1.{k}") for k in BOTH),
        *(Rule(f"{h}attn_qkv.{k}", tuple(f"{o}attention.W_qkv.{part}.{k}" for part in JOINT)) for k in BOTH),
        *(Rule(f"{h}attn_output.{k}", f"{o}attention.W_o.{k}") for k in BOTH),
        *(Rule(f"{h}ffn_norm.{k}", f"{o}norm_2.{k}") for k in BOTH),
        *(Rule(f"{h}ffn_up.{k}", f"{o}mlp.W_mlp1.{k}") for k in BOTH),
        *(Rule(f"{h}ffn_down.{k}", f"{o}mlp.W_mlp2.{k}") for k in BOTH),
        *(Rule(f"output_norm.{k}", f"norm.{k}") for k in BOTH),
        Rule("output.weight", "W_u.weight"),
    ),
)
