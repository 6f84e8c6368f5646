"""What other programs call the values of a model.

A name comes with the expression, in NumPy's words, that turns their array into ours: tokens are rows there and columns
here, and they hold all heads, or queries, keys and values, in one array.  Where a value has no entry, that program has
no such value: TransformerLens' attn_scores are scaled and ours are not, say.

transformers     MODULE:out or MODULE:in, what a forward hook of that module sees (first output, first input);
                 MODULE:out[1] is the second output, MODULE:out[2] the third; attn_implementation="eager" for the
                 weights of attention
TransformerLens  hook names of version 4's TransformerBridge as it loads a model; its compatibility mode moves numbers
                 between lines.  Before version 4 a LayerNorm's `hook_out` is called `hook_normalized`
llama.cpp        nodes of the graph as its `eval-callback` prints them, shapes reversed as NumPy has them; without flash
                 attention, whose kernel hides the scores; the last layer only has the tokens whose logits were asked
                 for.  A name that occurs several times in a layer means the last one
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from transformulary.oracle.path import parse
from transformulary.paper import Config
from transformulary.trace.encoders import BART, BERT, MARIAN, T5
from transformulary.trace.name import Name, lacks, plain, same

HEAD = "10.6[l]/5.2[h]"


def _transformers(
    blocks: str, norms: tuple[str, str], attention: str, W_o: str, mlp: dict[str, str], norm: str
) -> tuple[Name, ...]:
    """What all decoders of `transformers` have in common."""
    one, two = (f"{blocks}.{{l}}.{name}" for name in norms)
    attention = f"{blocks}.{{l}}.{attention}"
    return (
        Name("10.3", f"{blocks}.0:in"),
        Name("10.5[l]", f"{one}:out"),
        Name(f"{HEAD}/4.6:softmax", f"{attention}:out[1]", "[0, {h}].T"),
        Name(f"{HEAD}/4.6", f"{attention}.{W_o}:in", "[0, :, {z}].T"),
        Name("10.6[l]/5.3", f"{attention}.{W_o}:in"),
        Name("10.6[l]/5.4", f"{attention}.{W_o}:out"),
        Name("10.6[l]:MHAttention", f"{attention}.{W_o}:out"),
        Name("10.6[l]", f"{two}:in"),
        Name("10.7[l]", f"{two}:out"),
        *(Name(f"10.8[l]:{ours}", f"{blocks}.{{l}}.mlp.{theirs}", when=same(ours)) for ours, theirs in mlp.items()),
        Name("10.8[l]", f"{blocks}.{{l}}:out"),
        Name("10.10", f"{norm}:out"),
        Name("10.11:logits", "lm_head:out"),
    )


def _projections(module: str) -> tuple[Name, ...]:
    return tuple(
        Name(f"{HEAD}/4.{n}", f"{module}.{x}_proj:out", f"[0, :, {{{x}}}].T") for n, x in enumerate("qkv", start=1)
    )


GPT2 = (
    *_transformers(
        "transformer.h", ("ln_1", "ln_2"), "attn", "c_proj",
        {"W_mlp1": "c_fc:out", "ACTIVATION": "c_proj:in", "W_mlp2": "c_proj:out"}, "transformer.ln_f",
    ),
    *(Name(f"{HEAD}/4.{n}", "transformer.h.{l}.attn.c_attn:out", f"[0, :, {{joint_{x}}}].T")
      for n, x in enumerate("qkv", start=1)),
)  # fmt: skip
GPT_NEO = (
    *_transformers(
        "transformer.h", ("ln_1", "ln_2"), "attn.attention", "out_proj",
        {"W_mlp1": "c_fc:out", "ACTIVATION": "c_proj:in", "W_mlp2": "c_proj:out"}, "transformer.ln_f",
    ),
    *_projections("transformer.h.{l}.attn.attention"),
)  # fmt: skip
LLAMA = (
    *_transformers(
        "model.layers", ("input_layernorm", "post_attention_layernorm"), "self_attn", "o_proj",
        {"W_mlp1": "gate_proj:out", "ACTIVATION": "act_fn:out", "W_mlp3": "up_proj:out", "W_mlp2": "down_proj:out"},
        "model.norm",
    ),
    *_projections("model.layers.{l}.self_attn"),
    Name(f"{HEAD}/4.1a", "model.layers.{l}.self_attn.q_norm:out", "[0, :, {h}].T"),
    Name(f"{HEAD}/4.2a", "model.layers.{l}.self_attn.k_norm:out", "[0, :, {g}].T"),
)  # fmt: skip

block, attn, mlp = "blocks.{l}.", "blocks.{l}.attn.", "blocks.{l}.mlp."
TRANSFORMER_LENS = (
    Name("10.2[t]:W_e", "hook_embed", "[0, {t}]"),
    Name("10.2[t]:W_p", "hook_pos_embed", "[0, {t}]"),
    Name("10.3", "blocks.0.hook_resid_pre"),
    Name("10.5[l]", block + "ln1.hook_out"),
    Name(f"{HEAD}/4.1", attn + "hook_q", "[0, :, {h}].T"),
    Name(f"{HEAD}/4.2", attn + "hook_k", "[0, :, {g}].T"),
    Name(f"{HEAD}/4.3", attn + "hook_v", "[0, :, {g}].T"),
    Name(f"{HEAD}/4.3a", attn + "hook_rot_q", "[0, :, {h}].T"),
    Name(f"{HEAD}/4.3b", attn + "hook_rot_k", "[0, :, {g}].T"),
    Name(f"{HEAD}/4.6:softmax", attn + "hook_pattern", "[0, {h}].T"),
    Name(f"{HEAD}/4.6", attn + "hook_z", "[0, :, {h}].T"),
    Name("10.6[l]/5.4", block + "hook_attn_out"),
    Name("10.6[l]:MHAttention", block + "hook_attn_out"),
    Name("10.6[l]", block + "hook_resid_mid"),
    Name("10.7[l]", block + "ln2.hook_out"),
    Name("10.8[l]:W_mlp1", mlp + "hook_pre", when=lacks("b_mlp1")),
    Name("10.8[l]:W_mlp3", mlp + "hook_pre_linear"),
    Name("10.8[l]:ACTIVATION", mlp + "hook_post", when=plain),
    Name("10.8[l]:W_mlp2", block + "hook_mlp_out", when=lacks("b_mlp2")),
    Name("10.8[l]", block + "hook_resid_post"),
    Name("10.10", "ln_final.hook_out"),
    Name("10.11:logits", "unembed.hook_out"),
)

_COMMON = (
    Name("10.5[l]", "attn_norm-{l}", ".T"),
    Name(f"{HEAD}/4.4", "kq-{l}", "[{h}, :, :{ell}].T"),
    Name(f"{HEAD}/4.6:softmax", "kq_soft_max-{l}", "[{h}, :, :{ell}].T"),
    Name(f"{HEAD}/4.6", "kqv-{l}", "[{h}].T"),
    Name("10.6[l]/5.3", "kqv_out-{l}", ".T"),
    Name("10.6[l]", "ffn_inp-{l}", ".T"),
    Name("10.7[l]", "ffn_norm-{l}", ".T"),
    Name("10.8[l]:W_mlp2", "ffn_out-{l}", ".T", lacks("b_mlp2")),
    Name("10.8[l]", "l_out-{l}", ".T"),
    Name("10.10", "result_norm", ".T"),
    Name("10.11:logits", "result_output", ".T"),
)
LLAMA_CPP_GPT2 = (
    Name("10.3", "inpL", ".T"),
    Name("10.8[l]:W_mlp1", "ffn_up-{l}", ".T"),
    Name("10.8[l]:ACTIVATION", "ffn_gelu-{l}", ".T"),
    Name("10.8[l]:W_mlp2", "ffn_down-{l}", ".T"),
    Name(f"{HEAD}/4.1", "Qcur-{l}", "[:, {h}].T"),
    Name(f"{HEAD}/4.2", "Kcur-{l}", "[:, {g}].T"),
    Name(f"{HEAD}/4.3", "Vcur-{l}", "[:, {g}].T"),
    *_COMMON,
)
#: Its files hold the rows of W_q and W_k in pairs, so that rotated pairs are neighbours: x[2 i] there is x[i] here.
_PAIRS = "[:, {head}].T[[*range(0, {d_attn}, 2), *range(1, {d_attn}, 2)]]"


def _llama_cpp_rotary(turned: str) -> tuple[Name, ...]:
    """Gated models; `turned` makes ours of all rotated queries or keys, as its files of that kind order them."""
    return (
        Name("10.3", "embd", ".T"),
        Name(f"{HEAD}/4.3a", "Qcur-{l}", turned.replace("head", "h")),
        Name(f"{HEAD}/4.3b", "Kcur-{l}", turned.replace("head", "g")),
        Name(f"{HEAD}/4.3", "Vcur-{l}", "[:, {g}].T"),
        Name("10.8[l]:W_mlp1", "ffn_gate-{l}", ".T"),
        Name("10.8[l]:W_mlp3", "ffn_up-{l}", ".T"),
        *_COMMON,
    )


LLAMA_CPP_LLAMA = (
    *_llama_cpp_rotary(_PAIRS),
    Name("10.6[l]/5.4", "attn_out-{l}", ".T"),
    Name("10.6[l]:MHAttention", "attn_out-{l}", ".T"),
)
LLAMA_CPP_QWEN2 = _llama_cpp_rotary("[:, {head}].T")

#: program -> the model_type of a config.json -> its names; "" holds those that every model has.
NAMES: dict[str, dict[str, tuple[Name, ...]]] = {
    "transformers": {"gpt2": GPT2, "gpt_neo": GPT_NEO, "bert": BERT, "marian": MARIAN, "bart": BART, "t5": T5}
    | dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), LLAMA),
    "TransformerLens": {"": TRANSFORMER_LENS},
    "llama.cpp": {"gpt2": LLAMA_CPP_GPT2, "qwen2": LLAMA_CPP_QWEN2}
    | dict.fromkeys(("llama", "mistral"), LLAMA_CPP_LLAMA),  # its converter makes a Llama of a Mistral
}
#: Classes of `transformers` without a head, as architectures of a config.json call them -> what their names lack.
BARE = {
    **dict.fromkeys(("GPT2Model", "GPTNeoModel"), "transformer."),
    **dict.fromkeys(("LlamaModel", "MistralModel", "Qwen2Model", "Qwen3Model", "MarianModel", "BartModel"), "model."),
    "BertModel": "bert.",
    "T5Model": "",
}
#: What begins the names of heads, and of what a model as a whole gives.
HEADS = ("lm_head", "cls.", "classifier", ":")


def names(path: str, config: Config, model_type: str, ell: int, architecture: str = "") -> list[dict[str, str]]:
    """[{"program", "name", "ours"}] of those that have a name for the value at `path`.

    Args:
        path: a path of the model's run.
        config: the model.
        model_type: what its config.json calls its kind; "gguf llama" has the names of "llama".
        ell: the number of tokens.
        architecture: what its config.json calls its class in `transformers`, if it does.
    """
    indices = {name: value - 1 for step in parse(path).steps for name, value in step.indices}
    words: dict[str, Any] = {**indices, **_slices(config, indices.get("h", 0)), "ell": ell, "d_attn": config.d_attn}
    found = []
    for program, entry in _entries(path, model_type):
        bare = program == "transformers" and architecture in BARE
        if entry.when(config) and not (bare and entry.name.startswith(HEADS)):
            name = entry.name.removeprefix(BARE[architecture] if bare else "").format(**words)
            found.append({"program": program, "name": name, "ours": entry.ours.format(**words)})
    return found


def _entries(path: str, model_type: str) -> Iterator[tuple[str, Name]]:
    pattern = re.sub(r"=\d+", "", path)
    pattern = re.sub(r":(GELU|GELU_tanh|ReLU|SiLU)$", ":ACTIVATION", pattern)
    kind = model_type.removeprefix("gguf ")
    for program, tables in NAMES.items():
        for entry in tables.get(kind, tables.get("", ())):
            if entry.path == pattern:
                yield program, entry


def _slices(c: Config, h: int) -> dict[str, Any]:
    """Where head h, and its key/value head g, stand in arrays that hold all heads side by side."""
    g = h // (c.H // c.H_kv)
    keys, values = c.H * c.d_attn, (c.H + c.H_kv) * c.d_attn

    def at(begin: int, head: int, width: int) -> str:
        return f"{begin + head * width}:{begin + (head + 1) * width}"

    return {
        "g": g,
        "q": at(0, h, c.d_attn),
        "k": at(0, g, c.d_attn),
        "v": at(0, g, c.d_mid),
        "z": at(0, h, c.d_mid),
        "joint_q": at(0, h, c.d_attn),
        "joint_k": at(keys, g, c.d_attn),
        "joint_v": at(values, g, c.d_mid),
    }
