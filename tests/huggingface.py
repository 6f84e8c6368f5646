# ruff: noqa: C408, E501
"""Tiny random models of the `transformers` library and their parameters by the paper's names.

Written from the published maps (names, transposes, blocks of heads), independently of `formats/`, so that
the two can be compared.  Everything is float64.
"""

import re
from contextlib import contextmanager

import numpy as np
import torch
import transformers

from transformulary.oracle import theta_from
from transformulary.paper import Causal, DTransformerConfig, EDTransformerConfig, ETransformerConfig, Local


def randomise(model, seed=0):
    """Every parameter normal with deviation 0.15, norms' scales around 1; float64, evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    model = model.double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_scale = bool(re.search(r"(norm|ln_\w+)\.weight$", name, re.IGNORECASE))
            parameter.copy_(0.15 * torch.randn(parameter.shape, generator=generator).double() + is_scale)
    return model


@contextmanager
def hooks(model, seen):
    """Everything that goes into and out of every module of a model: {"MODULE:in", "MODULE:out"[, "MODULE:out[1]"]}."""

    def keep(name):
        def hook(module, inputs, output):
            outputs = output if isinstance(output, tuple) else getattr(output, "to_tuple", lambda: (output,))()
            more = {f"{name}:out[{k}]": outputs[k:] for k in (1, 2)}
            places = {f"{name}:in": inputs, f"{name}:out": outputs, **more}
            for place, tensors in places.items():
                if tensors and isinstance(tensors[0], torch.Tensor):
                    seen[place] = tensors[0].detach().numpy().copy()

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()]
    yield
    for handle in handles:
        handle.remove()


def numpy(tensor):
    return tensor.detach().numpy().astype(np.float64)


def theta_by(config, table, *, heads, layers):
    """theta whose array of each name is found by the table: name -> (their tensor, {l} = layer from 0).

    heads: name of a per-head parameter -> (their stacked tensor's name, its width per head)
    """

    def array(name, shape):
        found = re.fullmatch(r"(?:(W\w*)\[(\d+)\]\.)?(\w+)(?:\[(\d+)\])?", name)
        bundle, l_bundle, base, index = found.groups()
        if bundle and base in heads:
            value, width = heads[base](bundle, int(l_bundle) - 1)
            h = int(index) - 1
            return numpy(value)[h * width : (h + 1) * width]
        if bundle:
            return numpy(layers[f"{bundle}.{base}"](int(l_bundle) - 1))
        return numpy(table[base](int(index) - 1) if index else table[base]())

    return theta_from(config, array)


def gpt2(seed=0, **changes):
    """(model, config, theta)"""
    c = DTransformerConfig(**{**dict(N_V=37, ell_max=16, L=2, H=4, d_e=16, d_mlp=20, eps=1e-5,
                           activation="gelu_tanh", tied=True), **changes})  # fmt: skip
    model = randomise(
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=c.N_V, n_positions=c.ell_max, n_embd=c.d_e, n_layer=c.L, n_head=c.H, n_inner=c.d_mlp,
                tie_word_embeddings=c.tied, attn_implementation="eager",
                bos_token_id=None, eos_token_id=None,
            )
        ), seed,
    )  # fmt: skip
    t, d = model.transformer, c.d_e

    def third(k, kind):
        return lambda _, l: (getattr(t.h[l].attn.c_attn, kind)[..., k * d : (k + 1) * d].movedim(-1, 0), c.d_attn)

    norms = {f"{ours}_{k}": (lambda l, k=k, a=a: getattr(getattr(t.h[l], f"ln_{k}"), a))
             for k in (1, 2) for ours, a in (("gamma", "weight"), ("beta", "bias"))}  # fmt: skip
    theta = theta_by(
        c,
        {
            "W_e": lambda: t.wte.weight.T, "W_p": lambda: t.wpe.weight.T, "W_u": lambda: model.lm_head.weight,
            "gamma": lambda: t.ln_f.weight, "beta": lambda: t.ln_f.bias,
            "W_mlp1": lambda l: t.h[l].mlp.c_fc.weight.T, "b_mlp1": lambda l: t.h[l].mlp.c_fc.bias,
            "W_mlp2": lambda l: t.h[l].mlp.c_proj.weight.T, "b_mlp2": lambda l: t.h[l].mlp.c_proj.bias,
        } | norms,
        heads={f"{a}_{q}": third(k, kind) for k, q in enumerate("qkv") for a, kind in (("W", "weight"), ("b", "bias"))},
        layers={"W.W_o": lambda l: t.h[l].attn.c_proj.weight.T, "W.b_o": lambda l: t.h[l].attn.c_proj.bias},
    )  # fmt: skip
    return model, c, theta


def _linear_heads(module, c):
    """heads= for attention modules with separate projections: module(bundle, l) -> (q, k, v) linear layers."""
    widths = {"q": c.d_attn, "k": c.d_attn, "v": c.d_mid}
    return {
        f"{a}_{q}": (lambda bundle, l, k=k, q=q, kind=kind: (getattr(module(bundle, l)[k], kind), widths[q]))
        for k, q in enumerate("qkv")
        for a, kind in (("W", "weight"), ("b", "bias"))
    }


def bert(seed=0, **changes):
    c = ETransformerConfig(**{**dict(N_V=37, ell_max=16, L=2, H=4, d_e=16, d_mlp=20, eps=1e-12, tied=True, segments=2,
                           embedding_norm=True, absent=frozenset()), **changes})  # fmt: skip
    model = randomise(
        transformers.BertForMaskedLM(
            transformers.BertConfig(
                vocab_size=c.N_V, max_position_embeddings=c.ell_max, hidden_size=c.d_e, num_hidden_layers=c.L,
                num_attention_heads=c.H, intermediate_size=c.d_mlp, attn_implementation="eager",
            )
        ), seed,
    )  # fmt: skip
    e, layer, head = model.bert.embeddings, model.bert.encoder.layer, model.cls.predictions
    theta = theta_by(
        c,
        {
            "W_e": lambda: e.word_embeddings.weight.T, "W_p": lambda: e.position_embeddings.weight.T,
            "W_s": lambda: e.token_type_embeddings.weight.T,
            "gamma_x": lambda: e.LayerNorm.weight, "beta_x": lambda: e.LayerNorm.bias,
            "W_f": lambda: head.transform.dense.weight, "b_f": lambda: head.transform.dense.bias,
            "gamma": lambda: head.transform.LayerNorm.weight, "beta": lambda: head.transform.LayerNorm.bias,
            "b_u": lambda: head.bias,
            "gamma_1": lambda l: layer[l].attention.output.LayerNorm.weight,
            "beta_1": lambda l: layer[l].attention.output.LayerNorm.bias,
            "gamma_2": lambda l: layer[l].output.LayerNorm.weight, "beta_2": lambda l: layer[l].output.LayerNorm.bias,
            "W_mlp1": lambda l: layer[l].intermediate.dense.weight, "b_mlp1": lambda l: layer[l].intermediate.dense.bias,
            "W_mlp2": lambda l: layer[l].output.dense.weight, "b_mlp2": lambda l: layer[l].output.dense.bias,
        },
        heads=_linear_heads(lambda _, l: [getattr(layer[l].attention.self, k) for k in ("query", "key", "value")], c),
        layers={"W.W_o": lambda l: layer[l].attention.output.dense.weight,
                "W.b_o": lambda l: layer[l].attention.output.dense.bias},
    )  # fmt: skip
    return model, c, theta


def marian(seed=0, **changes):
    c = EDTransformerConfig(**{**dict(N_V=37, ell_max=16, L_enc=2, L_dec=2, H=4, d_e=16, d_mlp=20, eps=1e-5,
                            activation="silu", positions="sinusoid_halves", embedding_scale="sqrt", tied=True,
                            absent=frozenset()), **changes})  # fmt: skip
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=c.N_V, d_model=c.d_e, encoder_layers=c.L_enc, decoder_layers=c.L_dec,
            encoder_attention_heads=c.H, decoder_attention_heads=c.H, encoder_ffn_dim=c.d_mlp,
            decoder_ffn_dim=c.d_mlp, max_position_embeddings=c.ell_max, pad_token_id=36, eos_token_id=1,
            bos_token_id=0, decoder_start_token_id=36, scale_embedding=True, activation_function="swish",
            attn_implementation="eager",
        )
    )  # fmt: skip
    positions = [stack.embed_positions for stack in (model.model.encoder, model.model.decoder)]
    model = randomise(model, seed)
    half = np.arange(c.d_e // 2) * 2 / c.d_e
    angle = np.arange(c.ell_max)[:, None] / 10000**half
    exact = torch.tensor(np.concatenate([np.sin(angle), np.cos(angle)], 1))
    for table in positions:  # the library computes its table in float32; here it is exact
        with torch.no_grad():
            table.weight.copy_(exact)
    model.final_logits_bias = torch.randn(1, c.N_V, generator=torch.Generator().manual_seed(9)).double()
    E, D = model.model.encoder.layers, model.model.decoder.layers
    modules = {
        "W_enc": lambda l: E[l].self_attn,
        "W_dec": lambda l: D[l].self_attn,
        "W_ed": lambda l: D[l].encoder_attn,
    }
    norms = {1: (E, "self_attn_layer_norm"), 2: (E, "final_layer_norm"), 3: (D, "self_attn_layer_norm"),
             4: (D, "encoder_attn_layer_norm"), 5: (D, "final_layer_norm")}  # fmt: skip
    mlps = {1: (E, "fc1"), 2: (E, "fc2"), 3: (D, "fc1"), 4: (D, "fc2")}

    def of(table, ours):
        return {f"{name}{k}": (lambda l, stack=stack, m=m, a=a: getattr(getattr(stack[l], m), a))
                for k, (stack, m) in table.items() for name, a in ours}  # fmt: skip

    theta = theta_by(
        c,
        {"W_e": lambda: model.model.shared.weight.T, "b_u": lambda: model.final_logits_bias[0]}
        | of(norms, (("gamma_", "weight"), ("beta_", "bias")))
        | of(mlps, (("W_mlp", "weight"), ("b_mlp", "bias"))),
        heads=_linear_heads(lambda b, l: [getattr(modules[b](l), k) for k in ("q_proj", "k_proj", "v_proj")], c),
        layers={f"{b}.{ours}": (lambda l, b=b, a=a: getattr(modules[b](l).out_proj, a))
                for b in modules for ours, a in (("W_o", "weight"), ("b_o", "bias"))},
    )  # fmt: skip
    return model, c, theta


NO_BIASES = frozenset({"b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u"})


class _Norm(torch.nn.Module):
    """RMSnorm in float64 (the library's computes in float32 whatever the model)."""

    def __init__(self, weight, eps):
        super().__init__()
        self.weight, self.eps = weight, eps

    def forward(self, X):
        return X * torch.rsqrt(X.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class _Rotary(torch.nn.Module):
    """The angles in float64, for the same reason."""

    def __init__(self, omega):
        super().__init__()
        self.omega = omega

    def forward(self, X, position_ids):
        angle = position_ids[..., None].double() * self.omega
        angle = torch.cat([angle, angle], -1)
        return angle.cos(), angle.sin()


def llama(seed=0, exact=True, **changes):
    c = DTransformerConfig(**{**dict(N_V=37, ell_max=16, L=2, H=4, H_kv=2, d_e=16, d_mlp=20, norm="rms_norm", eps=1e-6,
                           activation="silu", mlp="gated", positions="rotary", absent=NO_BIASES), **changes})  # fmt: skip
    model = randomise(
        transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=c.N_V, hidden_size=c.d_e, num_hidden_layers=c.L, num_attention_heads=c.H,
                num_key_value_heads=c.H_kv, head_dim=c.d_attn, intermediate_size=c.d_mlp, rms_norm_eps=c.eps,
                max_position_embeddings=c.ell_max, tie_word_embeddings=c.tied, attn_implementation="sdpa",
            )
        ), seed,
    )  # fmt: skip
    layer = model.model.layers
    theta = theta_by(
        c,
        {
            "W_e": lambda: model.model.embed_tokens.weight.T, "W_u": lambda: model.lm_head.weight,
            "gamma": lambda: model.model.norm.weight,
            "gamma_1": lambda l: layer[l].input_layernorm.weight,
            "gamma_2": lambda l: layer[l].post_attention_layernorm.weight,
            "W_mlp1": lambda l: layer[l].mlp.gate_proj.weight, "W_mlp2": lambda l: layer[l].mlp.down_proj.weight,
            "W_mlp3": lambda l: layer[l].mlp.up_proj.weight,
        },
        heads=_linear_heads(lambda _, l: [getattr(layer[l].self_attn, k) for k in ("q_proj", "k_proj", "v_proj")], c),
        layers={"W.W_o": lambda l: layer[l].self_attn.o_proj.weight},
    )  # fmt: skip
    if exact:
        model.model.rotary_emb = _Rotary(10000.0 ** (-torch.arange(0, c.d_attn, 2).double() / c.d_attn))
        model.model.norm = _Norm(model.model.norm.weight, c.eps)
        for l in layer:
            l.input_layernorm = _Norm(l.input_layernorm.weight, c.eps)
            l.post_attention_layernorm = _Norm(l.post_attention_layernorm.weight, c.eps)
    return model, c, theta


def gpt_neo(seed=0, window=3, **changes):
    c = DTransformerConfig(**{**dict(N_V=37, ell_max=16, L=2, H=4, d_e=16, d_mlp=20, eps=1e-5, activation="gelu_tanh",
                           tied=True, scale="none", mask=(Causal(), Local(window)),
                           absent=frozenset({"b_q", "b_k", "b_v", "b_u"})), **changes})  # fmt: skip
    model = randomise(
        transformers.GPTNeoForCausalLM(
            transformers.GPTNeoConfig(
                vocab_size=c.N_V, max_position_embeddings=c.ell_max, hidden_size=c.d_e, num_layers=c.L,
                num_heads=c.H, intermediate_size=c.d_mlp, window_size=window,
                attention_types=[[["global", "local"], 1]], attn_implementation="eager",
            )
        ), seed,
    )  # fmt: skip
    t = model.transformer
    norms = {f"{ours}_{k}": (lambda l, k=k, a=a: getattr(getattr(t.h[l], f"ln_{k}"), a))
             for k in (1, 2) for ours, a in (("gamma", "weight"), ("beta", "bias"))}  # fmt: skip
    theta = theta_by(
        c,
        {
            "W_e": lambda: t.wte.weight.T, "W_p": lambda: t.wpe.weight.T,
            "gamma": lambda: t.ln_f.weight, "beta": lambda: t.ln_f.bias,
            "W_mlp1": lambda l: t.h[l].mlp.c_fc.weight, "b_mlp1": lambda l: t.h[l].mlp.c_fc.bias,
            "W_mlp2": lambda l: t.h[l].mlp.c_proj.weight, "b_mlp2": lambda l: t.h[l].mlp.c_proj.bias,
        } | norms,
        heads=_linear_heads(lambda _, l: [getattr(t.h[l].attn.attention, k) for k in ("q_proj", "k_proj", "v_proj")], c),
        layers={"W.W_o": lambda l: t.h[l].attn.attention.out_proj.weight,
                "W.b_o": lambda l: t.h[l].attn.attention.out_proj.bias},
    )  # fmt: skip
    return model, c, theta


def probabilities(model, **inputs):
    """P of the paper, (N_V, ell): the softmax of the library's logits, columns as tokens."""
    with torch.no_grad():
        return torch.softmax(model(**inputs).logits[0], -1).numpy().T
