"""Published models that people run today, all of them Algorithm 10 but Marian: sizes as their config.json has them."""

from transformulary.paper.config import DTransformerConfig, EDTransformerConfig
from transformulary.paper.presets import Family

_BIASES = ("b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u")
_LLAMA = {"norm": "rms_norm", "activation": "silu", "mlp": "gated", "positions": "rotary", "absent": _BIASES}
_LLAMA_3 = _LLAMA | {"N_V": 128256, "H_kv": 8, "eps": 1e-5, "base": 500000.0}
_LLAMA_31 = _LLAMA_3 | {"ell_max": 131072, "frequencies": "llama3", "ell_train": 8192, "beta_fast": 4.0}
_QWEN2 = _LLAMA | {
    "ell_max": 32768,
    "eps": 1e-6,
    "base": 1000000.0,
    "absent": tuple(name for name in _BIASES if name not in ("b_q", "b_k", "b_v")),
}

_QWEN3 = _LLAMA | {"H_kv": 8, "d_attn": 128, "qk_norm": True, "eps": 1e-6, "base": 1000000.0}

MARIAN = Family(
    "marian",
    "Marian",
    EDTransformerConfig,
    "huggingface.co/Helsinki-NLP/opus-mt-en-de; Junczys-Dowmunt et al. 2018, arXiv:1804.00344",
    {
        "eps": 1e-5,
        "activation": "silu",
        "tied": True,
        "positions": "sinusoid_halves",
        "embedding_scale": "sqrt",
        "absent": (),
    },
    """
    name   L_enc  L_dec  H  d_e  N_V    ell_max
    en-de  6      6      8  512  58101  512
    """,
)

GPT_NEO = Family(
    "gpt-neo",
    "GPT-Neo",
    DTransformerConfig,
    "Black et al. 2021; huggingface.co/EleutherAI",
    {
        "N_V": 50257,
        "ell_max": 2048,
        "eps": 1e-5,
        "activation": "gelu_tanh",
        "tied": True,
        "scale": "none",
        "mask": ("causal", "local(256)"),
        "absent": ("b_q", "b_k", "b_v", "b_u"),
    },
    """
    name  published  L   H   d_e
    125m  125M       12  12  768
    1.3b  1.3B       24  16  2048
    2.7b  2.7B       32  20  2560
    """,
)

LLAMA = Family(
    "llama",
    "Llama",
    DTransformerConfig,
    "Touvron et al. 2023, arXiv:2302.13971, table 2",
    _LLAMA | {"N_V": 32000, "ell_max": 2048},
    """
    name  published  L   H   d_e   d_mlp  eps
    7b    6.7B       32  32  4096  11008  1e-6
    13b   13.0B      40  40  5120  13824  1e-6
    30b   32.5B      60  52  6656  17920  1e-6
    65b   65.2B      80  64  8192  22016  1e-5
    """,
)

LLAMA_2 = Family(
    "llama-2",
    "Llama 2",
    DTransformerConfig,
    "Touvron et al. 2023, arXiv:2307.09288; huggingface.co/meta-llama",
    _LLAMA | {"N_V": 32000, "ell_max": 4096, "eps": 1e-5},
    """
    name  published  L   H   H_kv  d_e   d_mlp
    7b    7B         32  32  32    4096  11008
    13b   13B        40  40  40    5120  13824
    70b   70B        80  64  8     8192  28672
    """,
)

LLAMA_3 = Family(
    "llama-3",
    "Llama 3",
    DTransformerConfig,
    "Grattafiori et al. 2024, arXiv:2407.21783; huggingface.co/meta-llama",
    _LLAMA_3 | {"ell_max": 8192},
    """
    name  published  L   H   d_e   d_mlp
    8b    8B         32  32  4096  14336
    70b   70B        80  64  8192  28672
    """,
)

LLAMA_31 = Family(
    "llama-3.1",
    "Llama 3.1",
    DTransformerConfig,
    "Grattafiori et al. 2024, arXiv:2407.21783; huggingface.co/meta-llama",
    _LLAMA_31 | {"factor": 8.0},
    """
    name  published  L    H    d_e    d_mlp
    8b    8B         32   32   4096   14336
    70b   70B        80   64   8192   28672
    405b  405B       126  128  16384  53248
    """,
    notes={"70b": "Llama 3.3 70B has the same sizes."},
)

LLAMA_32 = Family(
    "llama-3.2",
    "Llama 3.2",
    DTransformerConfig,
    "huggingface.co/meta-llama, the models of text",
    _LLAMA_31 | {"factor": 32.0, "tied": True},
    """
    name  published  L   H   d_e   d_mlp
    1b    1.23B      16  32  2048  8192
    3b    3.21B      28  24  3072  8192
    """,
)

MISTRAL = Family(
    "mistral",
    "Mistral",
    DTransformerConfig,
    "Jiang et al. 2023, arXiv:2310.06825; huggingface.co/mistralai",
    _LLAMA | {"eps": 1e-5, "H_kv": 8, "d_attn": 128},
    """
    name        published  L   H   d_e    d_mlp  N_V     ell_max  base       mask
    7b-v0.1     7.3B       32  32  4096   14336  32000   32768    10000      local(4096)
    7b-v0.2     7.3B       32  32  4096   14336  32000   32768    1000000    causal
    7b-v0.3     7.3B       32  32  4096   14336  32768   32768    1000000    causal
    nemo-12b    12B        40  32  5120   14336  131072  128000   1000000    causal
    small-22b   22B        56  48  6144   16384  32768   32768    1000000    causal
    small-24b   24B        40  32  5120   32768  131072  32768    100000000  causal
    large-123b  123B       88  96  12288  28672  32768   32768    1000000    causal
    """,
    notes={
        "nemo-12b": "Base of July 2024. Its card prints a hidden width of 14,436: the weights have 14,336.",
        "large-123b": "Of July 2024: its config.json said 32,768 tokens at first, its card 128k.",
    },
)

QWEN2 = Family(
    "qwen2",
    "Qwen2",
    DTransformerConfig,
    "Yang et al. 2024, arXiv:2407.10671; huggingface.co/Qwen, the instruct models",
    _QWEN2,
    """
    name  published  L   H   H_kv  d_e   d_mlp  N_V     tied
    0.5b  0.49B      24  14  2     896   4864   151936  true
    1.5b  1.54B      28  12  2     1536  8960   151936  true
    7b    7.62B      28  28  4     3584  18944  152064  false
    72b   72.7B      80  64  8     8192  29568  152064  false
    """,
)

QWEN25 = Family(
    "qwen2.5",
    "Qwen2.5",
    DTransformerConfig,
    "Yang et al. 2024, arXiv:2412.15115; huggingface.co/Qwen, the instruct models",
    _QWEN2,
    """
    name  published  L   H   H_kv  d_e   d_mlp  N_V     tied
    0.5b  0.49B      24  14  2     896   4864   151936  true
    1.5b  1.54B      28  12  2     1536  8960   151936  true
    3b    3.09B      36  16  2     2048  11008  151936  true
    7b    7.61B      28  28  4     3584  18944  152064  false
    14b   14.7B      48  40  8     5120  13824  152064  false
    32b   32.5B      64  40  8     5120  27648  152064  false
    72b   72.7B      80  64  8     8192  29568  152064  false
    """,
)

QWEN3 = Family(
    "qwen3",
    "Qwen3",
    DTransformerConfig,
    "Yang et al. 2025, arXiv:2505.09388, table 1; huggingface.co/Qwen; the models of April 2025",
    _QWEN3 | {"N_V": 151936, "ell_max": 40960},
    """
    name  published  L   H   d_e   d_mlp  tied
    0.6b  0.6B       28  16  1024  3072   true
    1.7b  1.7B       28  16  2048  6144   true
    4b    4.0B       36  32  2560  9728   true
    8b    8.2B       36  32  4096  12288  false
    14b   14.8B      40  40  5120  17408  false
    32b   32.8B      64  64  5120  25600  false
    """,
    "ell_max is that of their config.json: a prompt of 8,192 tokens and an answer of 32,768; base models have 32,768.",
)

TODAY = (MARIAN, GPT_NEO, LLAMA, LLAMA_2, LLAMA_3, LLAMA_31, LLAMA_32, MISTRAL, QWEN2, QWEN25, QWEN3)
