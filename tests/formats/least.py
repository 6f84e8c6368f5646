"""The least that a config.json must say: its kind, and the sizes that follow from no other; here the library's own."""

_LLAMA = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
_WIDTHS = ("attention_heads", "ffn_dim", "layers")


def _stacks(**sizes):
    """Of an encoder and a decoder alike."""
    return {f"{side}_{name}": sizes[name] for side in ("encoder", "decoder") for name in _WIDTHS}


_BART = {"d_model": 1024, "max_position_embeddings": 1024, **_stacks(attention_heads=16, ffn_dim=4096, layers=12)}
_SIZES = {
    "gpt2": {"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12},
    "gpt_neo": {
        "vocab_size": 50257, "max_position_embeddings": 2048, "hidden_size": 2048, "num_layers": 24, "num_heads": 16,
    },
    "llama": {**_LLAMA, "vocab_size": 32000, "intermediate_size": 11008},
    "mistral": {**_LLAMA, "vocab_size": 32000, "intermediate_size": 14336, "num_key_value_heads": 8},
    "qwen2": {**_LLAMA, "vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32},
    "qwen3": {
        **_LLAMA, "vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32, "head_dim": 128,
    },
    "bert": {
        "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_size": 768,
        "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
    },
    "marian": {**_BART, "vocab_size": 58101},
    "bart": {**_BART, "vocab_size": 50265},
    "t5": {"vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8},
}  # fmt: skip

#: model_type -> such a config.
LEAST = {kind: {"model_type": kind, **sizes} for kind, sizes in _SIZES.items()}
