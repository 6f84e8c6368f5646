"""BERT as stored by `transformers`: Algorithm 9 with segments, a norm after the embedding, eps and a tied W_u.

Only its config is read so far.
"""

from transformulary.formats import gpt2
from transformulary.formats.format import Format, Key
from transformulary.paper import ETransformerConfig

KEYS = (
    Key("vocab_size", "N_V", 30522),
    Key("max_position_embeddings", "ell_max", 512),
    Key("hidden_size", "d_e", 768),
    Key("num_hidden_layers", "L", 12),
    Key("num_attention_heads", "H", 12),
    Key("intermediate_size", "d_mlp", 3072),
    Key("hidden_act", "activation", "gelu", gpt2.ACTIVATIONS),
    Key("layer_norm_eps", "eps", 1e-12),
    Key("type_vocab_size", "segments", 2),
    Key("tie_word_embeddings", "tied", True),
)
#: Keys that change the mathematics, and the only value that we compute.
REQUIRED = {
    "is_decoder": False,
    "is_encoder_decoder": False,
    "add_cross_attention": False,
    "position_embedding_type": "absolute",
    "pruned_heads": {},
}
#: Dropout, and the pooler, which the paper does not have.
HARMLESS = gpt2.HARMLESS | {
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "directionality",
    "hidden_dropout_prob",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
}

BERT = Format(
    "bert",
    keys=KEYS,
    weights=(),
    fixed={"embedding_norm": True, "absent": []},
    required=REQUIRED,
    harmless=HARMLESS,
    kind=ETransformerConfig,
)
