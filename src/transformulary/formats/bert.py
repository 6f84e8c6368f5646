"""BERT as stored by `transformers`: Algorithm 9 with segments, a norm after the embedding, eps and a tied W_u.

A file holds lines 10-12, or a classifier (Algorithm 9c), or neither, and often parts that the paper does not have.
"""

from transformulary.formats import gpt2
from transformulary.formats.format import NEEDED, Format, Key
from transformulary.formats.rules import Head, Rule
from transformulary.paper import ETransformerConfig

KEYS = (
    Key("vocab_size", "N_V", NEEDED),
    Key("max_position_embeddings", "ell_max", NEEDED),
    Key("hidden_size", "d_e", NEEDED),
    Key("num_hidden_layers", "L", NEEDED),
    Key("num_attention_heads", "H", NEEDED),
    Key("intermediate_size", "d_mlp", NEEDED),
    Key("hidden_act", "activation", "gelu", gpt2.ACTIVATIONS),
    Key("layer_norm_eps", "eps", 1e-12),
    Key("type_vocab_size", "segments", NEEDED),
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
#: Dropout, names of classes, what the pooler and generation are told, which this has not.
HARMLESS = gpt2.HARMLESS | {
    "do_sample",
    "eos_token_ids",
    "length_penalty",
    "max_length",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "repetition_penalty",
    "temperature",
    "top_k",
    "top_p",
    "use_bfloat16",
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

e, h, o = "bert.embeddings.", "bert.encoder.layer.{l}.", "layers.{l}."
_MODULES = {
    e + "LayerNorm": "norm_x",
    h + "attention.self.query": o + "attention.W_qkv.W_q",
    h + "attention.self.key": o + "attention.W_qkv.W_k",
    h + "attention.self.value": o + "attention.W_qkv.W_v",
    h + "attention.output.dense": o + "attention.W_o",
    h + "attention.output.LayerNorm": o + "norm_1",
    h + "intermediate.dense": o + "mlp.W_mlp1",
    h + "output.dense": o + "mlp.W_mlp2",
    h + "output.LayerNorm": o + "norm_2",
}


def modules(table: dict[str, str]) -> tuple[Rule, ...]:
    """Rules for the matrix, or scale, and the bias of modules: their name -> ours."""
    return tuple(Rule(f"{a}.{kind}", f"{b}.{kind}") for a, b in table.items() for kind in ("weight", "bias"))


WEIGHTS = (
    Rule(e + "word_embeddings.weight", "W_e.weight"),
    Rule(e + "position_embeddings.weight", "W_p.weight"),
    Rule(e + "token_type_embeddings.weight", "W_s.weight"),
    *modules(_MODULES),
)
MASKED = (
    *modules({"cls.predictions.transform.dense": "W_f", "cls.predictions.transform.LayerNorm": "norm"}),
    Rule("cls.predictions.decoder.weight", "W_u.weight"),
    Rule("cls.predictions.bias", "W_u.bias", only=("tied", True)),
    Rule("cls.predictions.decoder.bias", "W_u.bias", only=("tied", False)),
)
HEADS = (
    Head("tokens", "cls.predictions.*", "BertForMaskedLM", MASKED, also=("BertForPreTraining",)),
    Head(
        "classes",
        "classifier.*",
        "BertForSequenceClassification",
        modules({"bert.pooler.dense": "W_pool", "classifier": "W_c"}),
    ),
    Head("vectors", "", "BertModel", also=("BertForNextSentencePrediction",)),
)

#: What else `transformers` puts on top.
REFUSED = {
    "BertForQuestionAnswering": "two numbers for each token",
    "BertForTokenClassification": "classes for each token",
}

BERT = Format(
    "bert",
    keys=KEYS,
    weights=WEIGHTS,
    heads=HEADS,
    copies={"cls.predictions.decoder.bias": "cls.predictions.bias"},
    unused=("bert.pooler.dense.*", "cls.seq_relationship.*", "cls.predictions.bias"),
    buffers=("bert.embeddings.position_ids",),
    prefix="bert.",
    fixed={"embedding_norm": True, "absent": []},
    required=REQUIRED,
    refused=REFUSED,
    harmless=HARMLESS,
    kind=ETransformerConfig,
)
