"""What others call the symbols of the paper: libraries, and what their checkpoints call parameters."""

from __future__ import annotations


def _pairs(text: str) -> dict[str, str]:
    """ours theirs ours theirs ..."""
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_GPT = _pairs("""
    N_V vocab_size  L n_layer  H n_head  d_e n_embd  tau temperature  ell_gen max_new_tokens
    W_e wte.weight  W_p wpe.weight  W_u lm_head.weight  gamma ln_f.weight  beta ln_f.bias
    gamma_1 ln_1.weight  beta_1 ln_1.bias  gamma_2 ln_2.weight  beta_2 ln_2.bias
    W_qkv attn.c_attn.weight  b_q attn.c_attn.bias  b_k attn.c_attn.bias  b_v attn.c_attn.bias
    W_o attn.c_proj.weight  b_o attn.c_proj.bias
    W_mlp1 mlp.c_fc.weight  b_mlp1 mlp.c_fc.bias  W_mlp2 mlp.c_proj.weight  b_mlp2 mlp.c_proj.bias
""")
_LATER = _pairs("""
    N_V vocab_size  ell_max max_position_embeddings  L num_hidden_layers  H num_attention_heads  d_e hidden_size
    d_mlp intermediate_size  activation hidden_act  tied tie_word_embeddings  x input_ids
""")
#: Who -> our name -> their name: models in Hugging Face's library; nanoGPT; OpenAI's release of GPT-2; torch.nn.
#: What they call a parameter is the end of its name in a checkpoint.
OTHERS: dict[str, dict[str, str]] = {
    "GPT-2": _GPT
    | _pairs("""
    ell_max n_positions  d_mlp n_inner  eps layer_norm_epsilon  activation activation_function
    tied tie_word_embeddings  x input_ids
    """),
    "Llama": _LATER
    | _pairs("""
    H_kv num_key_value_heads  d_attn head_dim  eps rms_norm_eps  base rope_theta
    W_e embed_tokens.weight  W_u lm_head.weight  gamma_1 input_layernorm.weight
    gamma_2 post_attention_layernorm.weight  gamma norm.weight
    W_q self_attn.q_proj.weight  W_k self_attn.k_proj.weight  W_v self_attn.v_proj.weight
    W_o self_attn.o_proj.weight  W_mlp1 mlp.gate_proj.weight  W_mlp2 mlp.down_proj.weight  W_mlp3 mlp.up_proj.weight
    """),
    "BERT": _LATER
    | _pairs("""
    eps layer_norm_eps  segments type_vocab_size  W_s token_type_embeddings.weight
    W_e word_embeddings.weight  W_p position_embeddings.weight  W_u predictions.decoder.weight  b_u predictions.bias
    gamma_x embeddings.LayerNorm.weight  beta_x embeddings.LayerNorm.bias
    W_q self.query.weight  W_k self.key.weight  W_v self.value.weight  W_o attention.output.dense.weight
    b_q self.query.bias  b_k self.key.bias  b_v self.value.bias  b_o attention.output.dense.bias
    gamma_1 attention.output.LayerNorm.weight  beta_1 attention.output.LayerNorm.bias
    W_mlp1 intermediate.dense.weight  b_mlp1 intermediate.dense.bias
    W_mlp2 output.dense.weight  b_mlp2 output.dense.bias
    gamma_2 output.LayerNorm.weight  beta_2 output.LayerNorm.bias
    W_f predictions.transform.dense.weight  b_f predictions.transform.dense.bias
    gamma predictions.transform.LayerNorm.weight  beta predictions.transform.LayerNorm.bias
    """),
    "Marian": _pairs("""
    N_V vocab_size  ell_max max_position_embeddings  L_enc encoder_layers  L_dec decoder_layers  d_e d_model
    H encoder_attention_heads  d_mlp encoder_ffn_dim  activation activation_function  embedding_scale scale_embedding
    W_e shared.weight  b_u final_logits_bias
    W_q self_attn.q_proj.weight  W_k self_attn.k_proj.weight  W_v self_attn.v_proj.weight
    b_q self_attn.q_proj.bias  b_k self_attn.k_proj.bias  b_v self_attn.v_proj.bias
    W_o self_attn.out_proj.weight  b_o self_attn.out_proj.bias
    W_mlp1 fc1.weight  b_mlp1 fc1.bias  W_mlp2 fc2.weight  b_mlp2 fc2.bias
    W_mlp3 fc1.weight  b_mlp3 fc1.bias  W_mlp4 fc2.weight  b_mlp4 fc2.bias
    gamma_1 self_attn_layer_norm.weight  beta_1 self_attn_layer_norm.bias
    gamma_2 final_layer_norm.weight  beta_2 final_layer_norm.bias
    gamma_3 self_attn_layer_norm.weight  beta_3 self_attn_layer_norm.bias
    gamma_4 encoder_attn_layer_norm.weight  beta_4 encoder_attn_layer_norm.bias
    gamma_5 final_layer_norm.weight  beta_5 final_layer_norm.bias
    """),
    "T5": _pairs("""
    N_V vocab_size  L_enc num_layers  L_dec num_decoder_layers  H num_heads  d_e d_model  d_attn d_kv  d_mlp d_ff
    eps layer_norm_epsilon  W_e shared.weight
    W_q SelfAttention.q.weight  W_k SelfAttention.k.weight  W_v SelfAttention.v.weight  W_o SelfAttention.o.weight
    W_mlp1 DenseReluDense.wi.weight  W_mlp2 DenseReluDense.wo.weight
    B relative_attention_bias.weight
    """),
    "nanoGPT": _GPT | _pairs("ell_max block_size  x idx  eta learning_rate"),
    "OpenAI": _pairs("N_V n_vocab  ell_max n_ctx  L n_layer  H n_head  d_e n_embd  eps epsilon"),
    "torch.nn": _pairs("""
    N_V num_embeddings  L num_layers  L_enc num_encoder_layers  L_dec num_decoder_layers  H nhead  d_e d_model
    d_mlp dim_feedforward  eps layer_norm_eps
    """),
    "torch.optim": _pairs("eta lr"),
}
