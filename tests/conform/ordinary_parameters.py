"""The config and the parameters of the paper for an ordinary GPT or Llama of `ordinary.py`."""

import numpy as np

from huggingface import theta_by
from transformulary.paper import Causal, DTransformerConfig, Local


def config_of(s):
    c = {"N_V": s.vocab, "ell_max": s.context, "L": s.layers, "H": s.heads, "d_e": s.width, "d_mlp": s.hidden,
         "eps": s.eps, "mask": tuple(Causal() if w is None else Local(w) for w in s.windows), "activation": s.act,
         "embedding_scale": "sqrt" if s.embedding_scaled else "none",
         "scale": "sqrt" if s.scaled else "none"}  # fmt: skip
    if not s.llama:
        return DTransformerConfig(**c, tied=True, absent=frozenset())
    biases = frozenset({"b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u"})
    return DTransformerConfig(
        **c,
        H_kv=s.kv_heads,
        qk_norm=s.qk_norm,
        norm="rms_norm",
        mlp="gated",
        positions="rotary",
        base=s.base,
        absent=biases,
    )


def theta_of(model, c):
    m = model.blocks
    first, gate = ("gate", "up") if c.mlp == "gated" else ("up", "gate")
    layered = {"gamma_1": "ln_1.weight", "beta_1": "ln_1.bias", "gamma_2": "ln_2.weight", "beta_2": "ln_2.bias",
               "W_mlp1": f"mlp.{first}.weight", "b_mlp1": f"mlp.{first}.bias", "W_mlp2": "mlp.down.weight",
               "b_mlp2": "mlp.down.bias", "W_mlp3": f"mlp.{gate}.weight"}  # fmt: skip
    table = {ours: (lambda l, n=n: m[l].get_parameter(n).detach()) for ours, n in layered.items()}
    table |= {
        "W_e": lambda: model.wte.weight.T, "W_p": lambda: model.wpe.weight.T, "W_u": lambda: model.head.weight,
        "gamma": lambda: model.ln_f.weight, "beta": lambda: model.ln_f.bias, "b_u": lambda: model.head.bias,
    }  # fmt: skip
    heads = {f"{a}_{q}": (lambda _, l, q=q, kind=kind: (getattr(getattr(m[l].attn, q), kind), c.d_attn))
             for q in "qkv" for a, kind in (("W", "weight"), ("b", "bias"))}  # fmt: skip
    norms = {f"W.gamma_{q}": (lambda l, q=q: getattr(m[l].attn, f"ln_{q}").weight) for q in "qk"}
    layers = norms | {"W.W_o": lambda l: m[l].attn.o.weight, "W.b_o": lambda l: m[l].attn.o.bias}
    return theta_by(c, table, heads=heads, layers=layers).map(np.array)
