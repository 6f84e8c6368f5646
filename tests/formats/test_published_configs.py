"""Configs as their publishers wrote them are understood: the numbers of parameters are those that are known."""

import pytest

from transformulary.formats import understood
from transformulary.paper import Causal, Local, number_of_parameters, preset

COMMON = {"torch_dtype": "bfloat16", "transformers_version": "4.42.0", "use_cache": True, "initializer_range": 0.02}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_dropout": 0.0, "pretraining_tp": 1}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
CONFIGS = {
    "Llama 3.1 8B": (8_030_261_248, {
        **COMMON, **LLAMA, "attention_bias": False, "mlp_bias": False, "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05, "rope_scaling": {**LLAMA3, "rope_type": "llama3"}, "rope_theta": 500000.0,
        "tie_word_embeddings": False, "vocab_size": 128256,
    }),
    "TinyLlama 1.1B": (1_100_048_384, {
        **COMMON, **LLAMA, "hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 2048,
        "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "rms_norm_eps": 1e-05,
        "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False, "vocab_size": 32000,
    }),
    "SmolLM2 135M": (134_515_008, {
        **COMMON, **LLAMA, "hidden_size": 576, "intermediate_size": 1536, "is_llama_config": True,
        "max_position_embeddings": 8192, "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
        "rms_norm_eps": 1e-05, "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000,
        "tie_word_embeddings": True, "transformers.js_config": {"dtype": "q4"}, "vocab_size": 49152,
    }),
    "Mistral 7B": (7_241_732_096, {
        **COMMON, "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
        "sliding_window": 4096, "tie_word_embeddings": False, "vocab_size": 32000, "hidden_act": "silu",
    }),
    "Qwen2.5 0.5B": (494_032_768, {
        **COMMON, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "attention_dropout": 0.0,
        "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
        "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": True, "use_mrope": False,
        "use_sliding_window": False, "vocab_size": 151936,
    }),
    "GPT-Neo 125M": (125_198_592, {
        "activation_function": "gelu_new", "architectures": ["GPTNeoForCausalLM"], "attention_dropout": 0,
        "attention_layers": ["global", "local"] * 6, "attention_types": [[["global", "local"], 6]],
        "bos_token_id": 50256, "embed_dropout": 0, "eos_token_id": 50256, "gradient_checkpointing": False,
        "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": None, "layer_norm_epsilon": 1e-05,
        "max_position_embeddings": 2048, "model_type": "gpt_neo", "num_heads": 12, "num_layers": 12,
        "resid_dropout": 0, "summary_activation": None, "summary_first_dropout": 0.1, "summary_use_proj": True,
        "summary_proj_to_labels": True, "summary_type": "cls_index", "transformers_version": "4.9.0.dev0",
        "use_cache": True, "vocab_size": 50257, "window_size": 256,
    }),
    "BERT base": (109_514_298, {
        "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
        "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
        "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0, "position_embedding_type": "absolute",
        "transformers_version": "4.6.0.dev0", "type_vocab_size": 2, "use_cache": True, "vocab_size": 30522,
    }),
    "OPUS-MT en-de": (73_944_309, {
        "activation_dropout": 0.0, "activation_function": "swish", "add_bias_logits": False,
        "add_final_layer_norm": False, "architectures": ["MarianMTModel"], "attention_dropout": 0.0,
        "bad_words_ids": [[58100]], "bos_token_id": 0, "classif_dropout": 0.0, "classifier_dropout": 0.0,
        "d_model": 512, "decoder_attention_heads": 8, "decoder_ffn_dim": 2048, "decoder_layerdrop": 0.0,
        "decoder_layers": 6, "decoder_start_token_id": 58100, "decoder_vocab_size": 58101, "dropout": 0.1,
        "encoder_attention_heads": 8, "encoder_ffn_dim": 2048, "encoder_layerdrop": 0.0, "encoder_layers": 6,
        "eos_token_id": 0, "forced_eos_token_id": 0, "init_std": 0.02, "is_encoder_decoder": True, "max_length": 512,
        "max_position_embeddings": 512, "model_type": "marian", "normalize_before": False,
        "normalize_embedding": False, "num_beams": 4, "num_hidden_layers": 6, "pad_token_id": 58100,
        "scale_embedding": True, "share_encoder_decoder_embeddings": True, "static_position_embeddings": True,
        "transformers_version": "4.22.0.dev0", "use_cache": True, "vocab_size": 58101,
    }),
    # those that `transformers` counts, 406,290,432, with final_logits_bias and without two unread rows of each W_p
    "BART large, CNN": (406_290_432 + 50264 - 2 * 2 * 1024, {
        "_num_labels": 3, "activation_dropout": 0.0, "activation_function": "gelu", "add_final_layer_norm": False,
        "architectures": ["BartForConditionalGeneration"], "attention_dropout": 0.0, "bos_token_id": 0,
        "classif_dropout": 0.0, "classifier_dropout": 0.0, "d_model": 1024, "decoder_attention_heads": 16,
        "decoder_ffn_dim": 4096, "decoder_layerdrop": 0.0, "decoder_layers": 12, "decoder_start_token_id": 2,
        "dropout": 0.1, "early_stopping": True, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096,
        "encoder_layerdrop": 0.0, "encoder_layers": 12, "eos_token_id": 2, "force_bos_token_to_be_generated": True,
        "forced_bos_token_id": 0, "forced_eos_token_id": 2, "gradient_checkpointing": False, "init_std": 0.02,
        "is_encoder_decoder": True, "length_penalty": 2.0, "max_length": 142, "max_position_embeddings": 1024,
        "min_length": 56, "model_type": "bart", "no_repeat_ngram_size": 3, "normalize_before": False, "num_beams": 4,
        "num_hidden_layers": 12, "output_past": True, "pad_token_id": 1, "prefix": " ", "scale_embedding": False,
        "task_specific_params": {}, "transformers_version": "4.7.0.dev0", "use_cache": True, "vocab_size": 50264,
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_the_number_of_parameters(name):
    """Sizes, biases and ties are read as meant."""
    parameters, theirs = CONFIGS[name]

    _, c = understood(theirs, "config.json")

    assert parameters == number_of_parameters(c)


def test_choices():
    """So are masks, frequencies and bases."""
    c = {name: understood(theirs, "config.json")[1] for name, (_, theirs) in CONFIGS.items()}

    assert [(Causal(),), (Local(4096),), (Causal(), Local(256))] == [
        c[name].mask for name in ("Qwen2.5 0.5B", "Mistral 7B", "GPT-Neo 125M")
    ]
    llama = c["Llama 3.1 8B"]
    assert ("llama3", 8, 1, 4, 8192, 500000) == (
        llama.frequencies, llama.factor, llama.beta_slow, llama.beta_fast, llama.ell_train, llama.base
    )  # fmt: skip


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("Llama 3.1 8B", "llama-3.1-8b"),
        ("Mistral 7B", "mistral-7b-v0.1"),
        ("Qwen2.5 0.5B", "qwen2.5-0.5b"),
        ("GPT-Neo 125M", "gpt-neo-125m"),
        ("BERT base", "bert-base"),
        ("OPUS-MT en-de", "marian-en-de"),
    ],
)
def test_presets_are_what_is_published(theirs, ours):
    """What is read from a publisher's config is the preset, field by field."""
    _, c = understood(CONFIGS[theirs][1], "config.json")

    assert preset(ours).config == c
