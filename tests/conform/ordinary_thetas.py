"""The configs and the numbers of the models in ordinary_encoders.py, by the paper's names."""

import re

from transformulary.oracle import theta_from
from transformulary.paper import EDTransformerConfig, ETransformerConfig, PreEDTransformerConfig


def config_of(s):
    c = {"N_V": s.vocab, "ell_max": s.context, "H": s.heads, "d_e": s.width, "d_attn": s.head, "d_mlp": s.hidden,
         "eps": s.eps, "activation": s.act, "tied": True}  # fmt: skip
    two = {"L_enc": s.layers, "L_dec": s.decoder_layers}
    if s.kind == "bert":
        return ETransformerConfig(**c, L=s.layers, segments=2, embedding_norm=True, absent=frozenset())
    if s.kind == "seq2seq":
        return EDTransformerConfig(**c, **two, positions="sinusoid_halves", embedding_scale="sqrt", absent=frozenset())
    lacking = {"b_q", "b_k", "b_v", "b_o", "b_u", *(f"b_mlp{k}" for k in range(1, 7))}
    return PreEDTransformerConfig(
        **c, **two, norm="rms_norm", positions="bucketed", scale="none", unembedding_scale="sqrt",
        absent=frozenset(lacking),
    )  # fmt: skip


def theta_of(m, c):
    """Their numbers by the paper's names."""
    stacks = {"": m.encoder, "_enc": m.encoder, "_dec": getattr(m, "decoder", None), "_ed": getattr(m, "decoder", None)}
    flat = {
        "W_e": lambda: m.embedding.tokens.weight.T, "W_p": lambda: m.embedding.wpe.weight.T,
        "b_u": lambda: m.logits.bias, "W_s": lambda: m.segments.weight.T, "W_f": lambda: m.dense.weight,
        "b_f": lambda: m.dense.bias, "gamma": lambda: m.ln_h.weight, "beta": lambda: m.ln_h.bias,
        "gamma_x": lambda: m.ln_e.weight, "beta_x": lambda: m.ln_e.bias, "gamma_enc": lambda: m.encoder.ln_f.weight,
        "gamma_dec": lambda: m.decoder.ln_f.weight,
    }  # fmt: skip

    def array(name, shape):
        bundle, l, base, i = re.fullmatch(r"(?:W(\w*)\[(\d+)\]\.)?(\w+?)(?:\[(\d+)\])?", name).groups()
        if l is not None:
            block = stacks[bundle].blocks[int(l) - 1]
            linear = getattr(block.cross if bundle == "_ed" else block.attn, base[-1])
            value = linear.weight if base[0] == "W" else linear.bias
            return numpy(value[(int(i) - 1) * c.d_attn : int(i) * c.d_attn] if i else value)
        if base in ("B_enc", "B_dec"):
            return numpy(stacks[base[1:]].bias.weight[:, int(i) - 1])
        if base in flat:
            return numpy(flat[base]())
        k = int(base[-1])
        decoder = k > 2
        block = (m.decoder if decoder else m.encoder).blocks[int(i) - 1]
        if "mlp" in base:
            linear = block.mlp.down if k % 2 == 0 else block.mlp.up
            return numpy(linear.weight if base[0] == "W" else linear.bias)
        norm = block.norms[k - 3 if decoder else k - 1]
        return numpy(norm.weight if base.startswith("gamma") else norm.bias)

    return theta_from(c, array)


def numpy(tensor):
    return tensor.detach().double().numpy().copy()
