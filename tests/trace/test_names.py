"""What other programs call the values of a run."""

import numpy as np
import pytest
import torch

import huggingface
from huggingface import hooks
from transformulary.paper import DTransformerConfig
from transformulary.trace import names, trace

x = [5, 3, 36, 0, 11]
c = DTransformerConfig(N_V=37, ell_max=8, L=2, H=2, d_e=8, d_mlp=12, eps=1e-5)


#: Their eager attention computes its softmax, GPT-Neo's its scores as well, in float32 whatever the model.
RUNS = {
    "gpt2 eager": (huggingface.gpt2, 1e-12),
    "gpt_neo eager": (huggingface.gpt_neo, 1e-5),
    "llama eager": (huggingface.llama, 1e-5),
    "llama sdpa": (huggingface.llama, 1e-12),
}
EVERY = {"10.3", "10.5", "4.1", "4.2", "4.3", "4.6", "5.3", "5.4", "10.6", "10.7", "10.8", "10.10", "10.11:logits"}
FURTHER = {
    "gpt2 eager": {"4.6:softmax", "10.8:GELU_tanh"},
    "gpt_neo eager": {"4.6:softmax", "10.8:GELU_tanh"},
    "llama eager": {"4.6:softmax", "10.8:W_mlp1", "10.8:W_mlp2", "10.8:W_mlp3", "10.8:SiLU"},
    "llama sdpa": {"10.8:W_mlp1", "10.8:W_mlp2", "10.8:W_mlp3", "10.8:SiLU"},  # sdpa has no weights to be seen
}


@pytest.mark.parametrize("run", RUNS)
def test_the_names_of_transformers(tmp_path, run):
    """Every value that `transformers` names equals what a hook at that module sees, turned as the index says."""
    make, tolerance = RUNS[run]
    kind, attention = run.split()
    (model, config, parameters), seen = make(), {}
    model.set_attn_implementation(attention)

    with hooks(model, seen), torch.no_grad():
        model(torch.tensor([x]))
    index = trace(parameters, config, x, tmp_path / "out", about={"model_type": kind})

    compared = set()
    with np.load(tmp_path / "out" / "values.npz") as file:
        values = dict(file)
    for value in index["values"]:
        path = value["path"]
        for name in value["names"]:
            if name["program"] == "transformers" and name["name"] in seen:
                theirs = eval(f"a{name['ours']}", {"a": seen[name["name"]]})
                np.testing.assert_allclose(values[path], theirs, rtol=0, atol=tolerance, err_msg=path)
                compared.add(path)
    kinds = {
        path.split("/")[-1].replace(f"[l={l}]", "") for path in compared for l in (1, 2) if f"[l={3 - l}]" not in path
    }
    assert kinds - {"5.2[h=1]"} == EVERY | FURTHER[run]
    per_layer = [path for path in compared if path.startswith("10.6")]
    assert len(per_layer) == 2 * (config.H * (4 + ("4.6:softmax" in kinds)) + 3)


LLAMA = DTransformerConfig(
    N_V=9, ell_max=8, L=2, H=4, H_kv=2, d_e=16, d_mlp=12, norm="rms_norm", eps=1e-5, activation="silu", mlp="gated",
    positions="rotary", absent=frozenset({"b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u"}),
)  # fmt: skip


@pytest.mark.parametrize("kind", ["llama", "gguf llama", "mistral", "qwen2"])
@pytest.mark.parametrize(
    ("path", "name", "ours"),
    [
        ("10.3", "embd", ".T"),
        ("10.5[l=1]", "attn_norm-0", ".T"),
        ("10.6[l=1]/5.2[h=3]/4.3", "Vcur-0", "[:, 1].T"),
        ("10.6[l=2]/5.2[h=3]/4.6:softmax", "kq_soft_max-1", "[2, :, :5].T"),
        ("10.6[l=1]", "ffn_inp-0", ".T"),
        ("10.8[l=1]:W_mlp1", "ffn_gate-0", ".T"),
        ("10.8[l=1]:W_mlp2", "ffn_out-0", ".T"),
        ("10.8[l=2]", "l_out-1", ".T"),
        ("10.10", "result_norm", ".T"),
        ("10.11:logits", "result_output", ".T"),
    ],
)
def test_the_names_of_llama_cpp(kind, path, name, ours):
    """Nodes of its graph; head 3 shares the second key/value head where two queries share one."""
    assert {"program": "llama.cpp", "name": name, "ours": ours} in names(path, LLAMA, kind, 5)


def test_rotated_queries_of_llama_cpp():
    """Its rotated pairs are neighbours, ours are halves: the expression puts them in our order."""
    (name,) = [n for n in names("10.6[l=1]/5.2[h=2]/4.3a", LLAMA, "llama", 5) if n["program"] == "llama.cpp"]
    ours = np.random.default_rng(0).normal(size=(4, 5))
    theirs = np.zeros((5, 4, 4))
    theirs[:, 1, 0::2], theirs[:, 1, 1::2] = ours[:2].T, ours[2:].T

    np.testing.assert_array_equal(eval(f"a{name['ours']}", {"a": theirs}), ours)


def test_rotated_queries_of_qwen2_in_llama_cpp():
    """There it rotates halves, as we do, and what attention adds has no name of its own."""
    (name,) = [n for n in names("10.6[l=1]/5.2[h=2]/4.3a", LLAMA, "qwen2", 5) if n["program"] == "llama.cpp"]

    assert (name["name"], name["ours"]) == ("Qcur-0", "[:, 1].T")
    assert not [n for n in names("10.6[l=1]/5.4", LLAMA, "qwen2", 5) if n["program"] == "llama.cpp"]


def test_no_name_where_the_value_differs():
    """TransformerLens sees a product with its bias, which is no value of ours."""

    def lens(path, config):
        return [name["name"] for name in names(path, config, "", 5) if name["program"] == "TransformerLens"]

    assert lens("10.5[l=1]", LLAMA) == lens("10.5[l=1]", c) == ["blocks.0.ln1.hook_out"]
    assert lens("10.8[l=1]:W_mlp1", c) == []
    assert lens("10.8[l=1]:W_mlp1", LLAMA) == ["blocks.0.mlp.hook_pre"]
