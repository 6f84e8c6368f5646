"""Models of `transformers` as they would be if they computed everything in float64."""

import contextlib

import torch
import transformers
from transformers import modeling_rope_utils

from huggingface import randomise

SIZES = {
    "vocab_size": 11,
    "hidden_size": 16,
    "intermediate_size": 12,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 16,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
    "attn_implementation": "sdpa",
}
KINDS = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
}


def made(kind, **changes):
    """A random model with every parameter far from its initial value, in float64."""
    config, model = KINDS[kind]
    return exact(randomise(model(config(**SIZES | changes))))


def exact(model):
    """The same model with norms and rotations in float64, which the library computes in float32 whatever the model."""
    for module in list(model.modules()):
        for child in module.children():
            if type(child).__name__.endswith("RMSNorm"):
                child.forward = _norm.__get__(child)
            if type(child).__name__.endswith("RotaryEmbedding"):
                child.forward = _rotary.__get__(child)
    return model


def _norm(self, X):
    return X * torch.rsqrt(X.pow(2).mean(-1, keepdim=True) + self.variance_epsilon) * self.weight


def _rotary(self, X, position_ids):
    kind = self.config.rope_parameters["rope_type"]
    length = int(position_ids.max()) + 1
    with in_float64():
        known = {"default": lambda config, seq_len: (_default(config), 1.0)} | modeling_rope_utils.ROPE_INIT_FUNCTIONS
        omega, scaling = known[kind](self.config, seq_len=length)
    assert omega.dtype == torch.float64
    angle = torch.cat([position_ids[..., None].double() * omega] * 2, -1)
    return scaling * angle.cos(), scaling * angle.sin()


def _default(config):
    d = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return config.rope_parameters["rope_theta"] ** (-torch.arange(0, d, 2).double() / d)


class Float64:
    """PyTorch, where `float` is float64."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def in_float64():
    """The library's formulas for frequencies ask for torch.float: inside, that is float64."""
    modeling_rope_utils.torch = Float64()
    try:
        yield
    finally:
        modeling_rope_utils.torch = torch
