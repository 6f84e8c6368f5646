"""The models that the paper names, and their architectures as it describes them."""

from transformulary.paper.config import DTransformerConfig, EDTransformerConfig, ETransformerConfig
from transformulary.paper.presets import Family

PAPER = "Phuong and Hutter 2022, arXiv:2207.09238"
_TINY = "The paper has no sizes: these are small ones of ours."

PAPER_8 = Family(
    "paper-8",
    "the paper's encoder-decoder, Algorithm 8",
    EDTransformerConfig,
    f"{PAPER}, Algorithm 8",
    {},
    """
    name  L_enc  L_dec  H  d_e  d_mlp  N_V  ell_max
    tiny  2      2      2  12   20     37   24
    """,
    _TINY,
)
PAPER_9 = Family(
    "paper-9",
    "the paper's encoder, Algorithm 9",
    ETransformerConfig,
    f"{PAPER}, Algorithm 9",
    {},
    """
    name  L  H  d_e  d_mlp  N_V  ell_max
    tiny  2  2  12   20     37   24
    """,
    _TINY,
)
PAPER_10 = Family(
    "paper",
    "the paper's decoder, Algorithm 10",
    DTransformerConfig,
    f"{PAPER}, Algorithm 10",
    {},
    """
    name  L  H  d_e  d_mlp  N_V  ell_max
    tiny  2  2  12   20     37   24
    """,
    _TINY,
)

TRANSFORMER = Family(
    "transformer",
    "the original Transformer",
    EDTransformerConfig,
    "Vaswani et al. 2017, arXiv:1706.03762, table 3; eps and biases: tensor2tensor",
    {
        "N_V": 37000,
        "ell_max": 512,
        "eps": 1e-6,
        "tied": True,
        "positions": "sinusoid_vaswani",
        "embedding_scale": "sqrt",
        "absent": ("b_q", "b_k", "b_v", "b_o", "b_u"),
    },
    """
    name  published  L_enc  L_dec  H   d_e
    base  65M        6      6      8   512
    big   213M       6      6      16  1024
    """,
    "The vocabulary is printed as about 37,000, with which there are 63.0M and 214.2M parameters, not 65M and 213M; "
    "ell_max is ours, the article has none. Its authors' code makes sines in the first half of the width and cosines "
    "in the second (sinusoid_t2t).",
)

BERT = Family(
    "bert",
    "BERT",
    ETransformerConfig,
    "Devlin et al. 2018, arXiv:1810.04805; google-research/bert, uncased",
    {"N_V": 30522, "ell_max": 512, "eps": 1e-12, "segments": 2, "embedding_norm": True, "tied": True, "absent": ()},
    """
    name   published  L   H   d_e
    base   110M       12  12  768
    large  340M       24  16  1024
    """,
    "Counted with the head that guesses masked tokens, without the pooler and the head for next sentences, which the "
    "paper does not have. Google's code has the tanh form of GELU, Hugging Face's the exact one, as here.",
)

GPT2 = Family(
    "gpt2",
    "GPT-2",
    DTransformerConfig,
    "Radford et al. 2019; openai/gpt-2, hparams.json",
    {"N_V": 50257, "ell_max": 1024, "eps": 1e-5, "activation": "gelu_tanh", "tied": True},
    """
    name    published  L   H   d_e
    small   117M       12  12  768
    medium  345M       24  16  1024
    large   762M       36  20  1280
    xl      1542M      48  25  1600
    """,
    "The article's numbers of parameters (117M, 345M, 762M, 1542M) are too low; its authors corrected them to 124M, "
    "355M, 774M, 1558M.",
)

_NO_BAND = (
    "The width of the band and the layers that have it were not published: local(128) in every second layer is ours."
)
GPT3 = Family(
    "gpt3",
    "GPT-3",
    DTransformerConfig,
    "Brown et al. 2020, arXiv:2005.14165, table 2.1",
    {
        "N_V": 50257,
        "ell_max": 2048,
        "eps": 1e-5,
        "activation": "gelu_tanh",
        "tied": True,
        "mask": ("causal", "local(128)"),
    },
    """
    name  published  L   H   d_e    d_attn
    125m  125M       12  12  768    64
    350m  350M       24  16  1024   64
    760m  760M       24  16  1536   96
    1.3b  1.3B       24  24  2048   128
    2.7b  2.7B       32  32  2560   80
    6.7b  6.7B       32  32  4096   128
    13b   13B        40  40  5140   128
    175b  175B       96  96  12288  128
    """,
    _NO_BAND,
    {
        "1.3b": "As printed: 24 heads of 128 are 3072 wide, not d_e = 2048, and give 1.52B; 16 heads would give 1.32B.",
        "13b": "As printed: 40 heads of 128 are 5120 wide, not d_e = 5140.",
    },
)

GOPHER = Family(
    "gopher",
    "Gopher",
    DTransformerConfig,
    "Rae et al. 2021, arXiv:2112.11446, table 1",
    {
        "N_V": 32000,
        "ell_max": 2048,
        "norm": "rms_norm",
        "positions": "relative",
        "activation": "gelu_tanh",
        "tied": True,
    },
    """
    name  published  L   H    d_e    d_attn
    44m   44M        8   16   512    32
    117m  117M       12  12   768    64
    417m  417M       12  12   1536   128
    1.4b  1.4B       24  16   2048   128
    7.1b  7.1B       32  32   4096   128
    280b  280B       80  128  16384  128
    """,
    "Eps, biases, tying, the activation and who shares u and v were not published. The printed sizes are met by "
    "13 L d_e^2 + 32000 d_e: a matrix W_r in every layer, and W_u tied to W_e.",
)

GATO = Family(
    "gato",
    "Gato",
    DTransformerConfig,
    "Reed et al. 2022, arXiv:2205.06175",
    {"N_V": 33024, "ell_max": 1024, "mlp": "gated", "positions": "relative", "tied": True},
    """
    name   published  L   H   d_e   d_attn  d_mlp
    79m    79M        8   24  768   32      1536
    364m   364M       12  12  1536  128     3072
    1.18b  1.18B      24  16  2048  128     4096
    """,
    "Without what Gato's line 2 adds for patches and places. The hidden width is printed as 4 d_e (once as 8196): "
    "taken as gate and values together, since twice that would give 1.7B. What is left then is met by relative "
    "positions, a matrix W_r in every layer: 11 L d_e^2 + 33024 d_e. Neither was published.",
)

NAMED = (PAPER_8, PAPER_9, PAPER_10, TRANSFORMER, BERT, GPT2, GPT3, GOPHER, GATO)
