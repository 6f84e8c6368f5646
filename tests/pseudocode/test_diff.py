"""What differs between the pseudocode of two models."""

import re
from dataclasses import replace

import pytest

from pseudocode.published import CONFIGS
from transformulary.pseudocode import FORMATS, diff


def lines(a, b):
    """The rows of a diff that differ."""
    rows = diff(CONFIGS[a], CONFIGS[b]).splitlines()[2:]
    return [row for row in rows if row.startswith(("+", "-"))]


def test_gpt2_against_the_paper():
    """GPT-2 is the paper with exactly three lines changed: eps, the tanh form of GELU, the tied unembedding."""
    page = diff(CONFIGS["paper 10"], CONFIGS["GPT-2"], names=("paper", "gpt2"))

    assert page.splitlines() == [
        "--- paper",
        "+++ gpt2",
        "@@ Algorithm 6: ê ← layer_norm(e | γ, β) @@",
        "    2  v ← Σ_{i=1..d_e} (e[i] − m)²/d_e",
        "-   3  return ê = (e − m)/√v ⊙ γ + β",
        "+   3  return ê = (e − m)/√(v + 10⁻⁵) ⊙ γ + β",
        "@@ Algorithm 10: P ← DTransformer(x | θ) @@",
        "    7      for t ∈ [ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l², β_l²)",
        "-   8      X ← X + W_mlp2^l GELU(W_mlp1^l X̃ + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ",
        "+   8      X ← X + W_mlp2^l GELU_tanh(W_mlp1^l X̃ + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ",
        "    9  end",
        "   10  for t ∈ [ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)",
        "-  11  return P = softmax(W_u X)",
        "+  11  return P = softmax(W_eᵀ X)",
        "",
        "where",
        "    GELU(x) = x Φ(x) for every entry x",
        "    Φ(x) = (1 + erf(x/√2))/2",
        "    GELU_tanh(x) = (x/2) (1 + tanh(√(2/π) (x + 0.044715 x³))) for every entry x",
    ]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("b", "brings"), [("Llama", ["SiLU"]), ("Llama, yarn", ["ramp"]), ("GPT-Neo", [])])
def test_what_a_diff_brings_in_is_defined(b, brings, form):
    """Below a diff stand the functions that only one of the two uses; those of both are left out."""
    page = diff(CONFIGS["paper 10" if brings else "GPT-2"], CONFIGS[b], form)

    below = re.split(r">where<|(?<=\n)where\b|noindent where", page)
    assert (1 + bool(brings)) == len(below)
    for name in brings:
        assert name in below[1]
    assert "softmax" not in "".join(below[1:])


@pytest.mark.parametrize("form", ["latex", "html"])
def test_a_table_of_sizes_cites_nothing(form):
    """Where no line differs, no algorithm is printed, and the paper's entry is left out; else it comes along."""
    gpt2 = CONFIGS["GPT-2"]

    assert "PH22" not in diff(gpt2, replace(gpt2, L=3), form).partition("\\begin{document}")[2 * (form == "latex")]
    assert "PH22" in diff(gpt2, CONFIGS["Llama"], form)


def test_bert_against_the_paper():
    """BERT: eps, segments, a norm of the embedding, the tied unembedding with its bias (and Algorithm 9 takes s)."""
    assert lines("paper 9", "BERT") == [
        "-   3  return ê = (e − m)/√v ⊙ γ + β",
        "+   3  return ê = (e − m)/√(v + 10⁻¹²) ⊙ γ + β",
        "-Algorithm 9: P ← ETransformer(x | θ)",
        "+Algorithm 9: P ← ETransformer(x, s | θ)",
        "+  2a  for t ∈ [ℓ]: e_t ← e_t + W_s[:,s[t]]",
        "+  3a  for t ∈ [ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_x, β_x)",
        "-  12  return P = softmax(W_u X)",
        "+  12  return P = softmax(W_eᵀ X + b_u 1ᵀ)",
    ]


def test_a_name_is_no_difference():
    """Where one of two models norms vectors of several widths, the width has the same name on both sides."""
    assert [row for row in lines("Llama", "Qwen3") if "/d" in row and "v ←" in row] == []
    assert [row for row in lines("paper 9", "BERT") if "m ←" in row] == []


def test_marian_against_the_paper():
    """Marian: eps, fixed sinusoids, scaled embeddings, its activation, the tied unembedding with its bias."""
    found = lines("paper 8", "Marian")

    changed = [row[1:5].strip() for row in found if row[0] == "+"]
    assert changed == ["1", "2", "3", "3", "2", "7", "11", "18", "21"]  # of Algorithms 2h, 6 and 8
    assert "+   2  for t ∈ [ℓ_z]: e_t ← √d_e W_e[:,z[t]] + sinusoid_halves(t)" in found
    assert "+   7      Z ← Z + W_mlp2^l SiLU(W_mlp1^l Z + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ" in found
    assert "+  21  return P = softmax(W_eᵀ X + b_u 1ᵀ)" in found


def test_llama_against_the_paper():
    """Llama: no biases, rotations, groups of heads, RMSnorm, no positions, a gated SiLU; 4r and 6r are new."""
    found = lines("paper 10", "Llama")
    added = [row[1:].strip() for row in found if row[0] == "+"]

    assert added[:5] == [
        "1  Q ← W_q X",
        "2  K ← W_k Z",
        "3  V ← W_v Z",
        "3a  for t ∈ [ℓ_x]: Q[:,t] ← rotate(Q[:,t], t)",
        "3b  for t ∈ [ℓ_z]: K[:,t] ← rotate(K[:,t], t)",
    ]
    assert added[9:13] == [
        "2      Y^h ← Attention(X, Z | W_qkv^{h,⌈h H_kv / H⌉}, Mask)",
        "4  return Ṽ = W_o Y",
        "2  v ← Σ_{i=1..d_e} e[i]²/d_e",
        "3  return ê = e/√(v + 10⁻⁵) ⊙ γ",
    ]
    assert added[13:] == [
        "2  for t ∈ [ℓ]: e_t ← W_e[:,x[t]]",
        "5      for t ∈ [ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l¹)",
        "7      for t ∈ [ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l²)",
        "8      X ← X + W_mlp2^l (SiLU(W_mlp1^l X̃) ⊙ W_mlp3^l X̃)",
        "10  for t ∈ [ℓ]: X[:,t] ← RMSnorm(X[:,t] | γ)",
    ]
    assert "-   3  return ê = (e − m)/√v ⊙ γ + β" in found


def test_gpt_neo_against_gpt2():
    """GPT-Neo: masks that alternate, no biases of queries, keys and values, no root of d_attn."""
    assert lines("GPT-2", "GPT-Neo") == [
        "-   1  Q ← W_q X + b_q 1ᵀ",
        "-   2  K ← W_k Z + b_k 1ᵀ",
        "-   3  V ← W_v Z + b_v 1ᵀ",
        "+   1  Q ← W_q X",
        "+   2  K ← W_k Z",
        "+   3  V ← W_v Z",
        "-   6  return Ṽ = V softmax(S/√d_attn)",
        "+   6  return Ṽ = V softmax(S)",
        "+      Mask_l[t,t′] = [[t ≤ t′]] for l odd",
        "+      Mask_l[t,t′] = [[t ≤ t′ ∧ t′ − t < 3]] for l even",
        "-   6      X ← X + MHAttention(X̃ | 𝓦_l, Mask[t,t′] = [[t ≤ t′]])",
        "+   6      X ← X + MHAttention(X̃ | 𝓦_l, Mask_l)",
    ]


def test_other_sizes_are_no_difference():
    """Models that differ in nothing but sizes have the same pseudocode: each format says so, and names these sizes."""
    gpt2 = CONFIGS["GPT-2"]
    other = replace(gpt2, L=3, d_mlp=7)

    assert [row.split()[0] for row in diff(gpt2, other).splitlines()[3:]] == ["parameters", "d_mlp", "L"]
    for form in FORMATS:
        page = diff(gpt2, other, form)
        assert ("Both execute the same lines; these sizes differ:" in page, page.what.differences) == (True, ())


@pytest.mark.parametrize("a", CONFIGS)
def test_a_diff_backwards(a):
    """The diff of b and a is that of a and b with the signs exchanged; a model and itself have none."""
    b = "Llama" if a.startswith("paper") else "paper 10"

    assert diff(CONFIGS[a], CONFIGS[a]) == "a and b\nBoth execute the same lines, with the same sizes."
    assert sorted(lines(a, b)) == sorted({"+": "-", "-": "+"}[row[0]] + row[1:] for row in lines(b, a))
