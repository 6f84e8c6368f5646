"""Small encoders with a vocabulary of words, as folders."""

import json

import torch
from tokenizers import Tokenizer as Pipeline
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from nn.models import model
from transformulary.models import save
from transformulary.nn import EClassifier, EEmbedder, ETransformer
from transformulary.paper import ETransformerConfig
from transformulary.tokens import Tokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *["the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran"]]
SPECIAL = {"mask_token": "[MASK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def tokenizer():
    """Words; texts are framed as BERT's are."""
    pipeline = Pipeline(WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]"))
    pipeline.pre_tokenizer = Whitespace()
    pipeline.add_special_tokens(WORDS[:5])
    pipeline.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return Tokenizer(pipeline, SPECIAL)


def config(**changes):
    sizes = {"N_V": len(WORDS) + 2, "ell_max": 12, "L": 2, "H": 2, "d_e": 8, "d_mlp": 12, "segments": 2, "eps": 1e-5}
    return ETransformerConfig(**sizes | {"embedding_norm": True, "tied": True, "absent": []} | changes)


KINDS = {
    "fill": lambda c: ETransformer(c),
    "classify": lambda c: EClassifier(c, 3),
    "embed": lambda c: EEmbedder(c),
}


def saved(folder, verb, dtype=torch.float64, words=None, **about):
    """The folder of a model that answers to a verb; `about` is said by its config.json besides."""
    made = model(config(), made=KINDS[verb](config())).to(dtype)
    save(folder, made, words or tokenizer())
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | about))
    return folder
