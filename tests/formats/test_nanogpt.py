"""nanoGPT's ckpt.pt is a model by itself: its numbers, its config, no code, and nothing else that it holds."""

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from nn.models import tokens
from transformulary.cli import main
from transformulary.errors import CheckpointError
from transformulary.formats import config_of, format_for, open_source
from transformulary.models import load, save
from transformulary.tokens import Tokenizer
from transformulary.tokens.kinds import characters

SIZES = {"n_layer": 2, "n_head": 2, "n_embd": 8, "block_size": 9, "vocab_size": 11, "dropout": 0.1}


class NanoGPT(nn.Module):
    """What nanoGPT computes, under the names of its parameters."""

    def __init__(self, n_layer, n_head, n_embd, block_size, vocab_size, dropout, bias):
        super().__init__()
        d = n_embd
        self.n_head = n_head

        def block():
            attn = {"c_attn": nn.Linear(d, 3 * d, bias), "c_proj": nn.Linear(d, d, bias)}
            mlp = {"c_fc": nn.Linear(d, 4 * d, bias), "c_proj": nn.Linear(4 * d, d, bias)}
            norms = {f"ln_{k}": nn.LayerNorm(d, bias=bias) for k in (1, 2)}
            return nn.ModuleDict({**norms, "attn": nn.ModuleDict(attn), "mlp": nn.ModuleDict(mlp)})

        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocab_size, d),
                "wpe": nn.Embedding(block_size, d),
                "h": nn.ModuleList(block() for _ in range(n_layer)),
                "ln_f": nn.LayerNorm(d, bias=bias),
            }
        )
        self.lm_head = nn.Linear(d, vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, x):
        t = self.transformer
        x = t.wte(x) + t.wpe(torch.arange(x.shape[1]))
        for h in t.h:
            q, k, v = (
                a.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for a in h.attn.c_attn(h.ln_1(x)).chunk(3, -1)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + h.attn.c_proj(y)
            x = x + h.mlp.c_proj(F.gelu(h.mlp.c_fc(h.ln_2(x))))
        return self.lm_head(t.ln_f(x))


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def theirs(request):
    torch.manual_seed(1)
    model = NanoGPT(**SIZES, bias=request.param).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 5)
    return model


def saved(theirs, folder, wrapper="", **changes):
    """ckpt.pt as nanoGPT's train.py writes it, after one step."""
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=0.0)
    theirs(torch.tensor([[1, 2]])).sum().backward()
    optimizer.step()
    content = {
        "model": {wrapper + name: tensor for name, tensor in theirs.state_dict().items()},
        "optimizer": optimizer.state_dict(),
        "model_args": SIZES | {"bias": theirs.transformer.ln_f.bias is not None},
        "iter_num": 250,
        "best_val_loss": torch.tensor(1.5),
        "config": {"dataset": "shakespeare_char", "learning_rate": 1e-3, "compile": True},
    }
    folder.mkdir(exist_ok=True)
    torch.save(content | changes, folder / "ckpt.pt")
    return folder


@pytest.mark.parametrize("wrapper", ["", "_orig_mod."])
@pytest.mark.parametrize("name", [".", "ckpt.pt"])
def test_the_same_logits(theirs, tmp_path, wrapper, name):
    """The folder or its file, of a compiled model or not, is a model that computes what nanoGPT does."""
    fast = load(saved(theirs, tmp_path, wrapper) / name).model
    x = tokens(fast.config, 2, 9)

    torch.testing.assert_close(fast(x), theirs(x), rtol=0, atol=1e-13)
    assert fast.config == config_of(tmp_path / name)


def test_saved_in_a_published_format(theirs, tmp_path):
    """With biases it is a GPT-2 and is saved as one; without, in our own words."""
    fast = load(saved(theirs, tmp_path / "theirs")).model
    save(tmp_path / "ours", fast)
    x = tokens(fast.config, 1, 9)

    again = load(tmp_path / "ours").model

    biased = theirs.transformer.ln_f.bias is not None
    assert ("gpt2" if biased else "transformulary") == format_for(fast.config).model_type
    assert torch.equal(fast(x), again(x))


WRONG = {
    "no bias said": ({"model_args": SIZES}, "bias = None is neither true nor false"),
    "a key nobody knows": ({"model_args": SIZES | {"bias": True, "rope": 1}}, "rope = 1 has no rule"),
    "no size": (
        {"model_args": {"bias": True, "n_embd": 8}},
        "missing or null: vocab_size, block_size, n_layer, n_head.",
    ),
    "no width": (
        {"model_args": {"vocab_size": 1, "block_size": 1, "n_layer": 1, "n_head": 1, "bias": True}},
        "missing or null: n_embd.",
    ),
    "no tensors": ({"model": 1}, "holds int, not tensors"),
    "another layer": ({"model_args": SIZES | {"bias": True, "n_layer": 3}}, "ckpt.pt lacks transformer.h.2"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(tmp_path, name):
    """What is missing or unknown is one line that names the file."""
    changes, message = WRONG[name]
    saved(NanoGPT(**SIZES, bias=True), tmp_path, **changes)

    with pytest.raises(CheckpointError, match=message) as error:
        load(tmp_path)
    assert "ckpt.pt" in str(error.value)


def test_a_config_beside_means_another_model(tmp_path):
    """A ckpt.pt that is none of nanoGPT's needs a config.json like every other file of tensors."""
    torch.save(NanoGPT(**SIZES, bias=True).state_dict(), tmp_path / "ckpt.pt")

    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        open_source(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    assert "gpt2" == open_source(tmp_path).config["model_type"]


def test_its_vocabulary_is_not_opened(tmp_path, capsys):
    """meta.pkl may run code: it is not read, and the message says so; a tokenizer.json beside it serves."""
    saved(NanoGPT(**SIZES, bias=True), tmp_path)
    (tmp_path / "meta.pkl").write_bytes(b"cos\nabort\n(tR.")

    assert 2 == main(["generate", str(tmp_path), "--prompt", "a"])
    assert "meta.pkl is a pickle, which could run code, and is not opened" in capsys.readouterr().err
    Tokenizer(characters(["abcdefghijk"], None, ()), {}).save(tmp_path)
    assert 0 == main(["generate", str(tmp_path), "--prompt", "a", "--tokens", "3", "--seed", "1"])
