"""The molecules of annalog (MIT): an encoder-decoder with tables for z and x each, and its vocabulary.

    pip install --no-deps annalog==1.0.6
    transformulary convert annalog/ckpt_and_vocab/Lev_extended.pt molecules --format annalog_format.py
    python annalog_format.py annalog/ckpt_and_vocab/stereo_experiment_vocab_ttf.pkl molecules

Its checkpoint has tensors alone: all sizes and choices stand here.  Its vocabulary is a pickle, of which the last
command makes a tokenizer.json.
"""

import pickle
import sys
from typing import Any

from transformulary.formats import Format, Rule
from transformulary.paper import EDTransformerConfig

ATTENTION = {"fc_q": "W_qkv.W_q", "fc_k": "W_qkv.W_k", "fc_v": "W_qkv.W_v", "fc_o": "W_o"}


def stack(side: str, norms: dict[str, str], attentions: dict[str, str], mlp: tuple[int, int]) -> dict[str, str]:
    """The modules of a layer of one side: their name -> ours."""
    found = {f"{theirs}_layer_norm": f"norm_{k}" for theirs, k in norms.items()}
    found |= {f"positionwise_feedforward.fc_{n}": f"mlp.W_mlp{k}" for n, k in enumerate(mlp, 1)}
    for theirs, ours in attentions.items():
        found |= {f"{theirs}_attention.{a}": f"{ours}.{b}" for a, b in ATTENTION.items()}
    return {f"{side}.layers.{{l}}.{theirs}": f"{side}.{{l}}.{ours}" for theirs, ours in found.items()}


MODULES = {
    **stack("encoder", {"self_attn": "1", "ff": "2"}, {"self": "attention"}, (1, 2)),
    **stack(
        "decoder", {"self_attn": "3", "enc_attn": "4", "ff": "5"}, {"self": "attention", "encoder": "cross"}, (3, 4)
    ),
    "decoder.fc_out": "W_u",
}

FORMAT = Format(
    "annalog",
    keys=(),
    fixed={
        "N_V": 59, "ell_max": 102, "L_enc": 3, "L_dec": 3, "H": 8, "d_e": 256, "d_mlp": 512,
        "eps": 1e-5, "embedding_scale": "sqrt", "separate": ["W_e", "W_p"], "absent": [],
    },
    weights=(
        Rule("encoder.tok_embedding.weight", "W_e_z.weight"),
        Rule("encoder.pos_embedding.weight", "W_p_z.weight"),
        Rule("decoder.tok_embedding.weight", "W_e.weight"),
        Rule("decoder.pos_embedding.weight", "W_p.weight"),
        *(
            Rule(f"{theirs}.{kind}", f"{ours}.{kind}")
            for theirs, ours in MODULES.items()
            for kind in ("weight", "bias")
        ),
    ),
    kind=EDTransformerConfig,
)  # fmt: skip


class Plain(pickle.Unpickler):
    """Reads lists, dictionaries, texts and numbers; whatever else a pickle wants made is refused, so nothing is run."""

    def find_class(self, module: str, name: str) -> Any:
        """Raises UnpicklingError."""
        raise pickle.UnpicklingError(f"it wants {module}.{name}, and a vocabulary is made of lists and texts")


def vocabulary(path: str) -> Any:
    """The tokenizer of a vocabulary of theirs: an atom, a bond, a ring or a bracket is a token."""
    from tokenizers import Regex
    from tokenizers import Tokenizer as Pipeline
    from tokenizers.decoders import Fuse
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split
    from tokenizers.processors import TemplateProcessing

    from transformulary.tokens import Tokenizer

    special = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<sos>", "eos_token": "<eos>"}
    with open(path, "rb") as file:
        ids = Plain(file).load()["stoi"]
    pipeline = Pipeline(WordLevel(ids, unk_token="<unk>"))
    pipeline.pre_tokenizer, pipeline.decoder = Split(Regex(r"\[[^\]]*\]|%\d{2}|Br|Cl|."), "isolated"), Fuse()
    pipeline.add_special_tokens([*special.values()])
    ends = [(token, ids[token]) for token in ("<sos>", "<eos>")]
    pipeline.post_processor = TemplateProcessing(single="<sos> $A <eos>", special_tokens=ends)
    return Tokenizer(pipeline, special)


if __name__ == "__main__":
    vocabulary(sys.argv[1]).save(sys.argv[2])
