"""What differs between the pseudocode of two models."""

from dataclasses import replace

import pytest

from pseudocode.published import CONFIGS
from transformulary.pseudocode import FORMATS, diff


def lines(a, b):
    """The rows of a diff that differ."""
    rows = diff(CONFIGS[a], CONFIGS[b]).splitlines()[2:]
    return [row for row in rows if row[0] in "+-"]


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
    ]


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
