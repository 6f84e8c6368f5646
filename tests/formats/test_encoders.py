"""BERT, Marian, BART and T5: their files are our models and the oracle's, in float64, and are given back bitwise."""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import huggingface
from formats.least import LEAST
from huggingface import randomise
from transformulary import oracle
from transformulary.errors import CheckpointError
from transformulary.formats import describe, open_source, theta_source
from transformulary.models import convert, load, save
from transformulary.nn import EClassifier, EDTransformer, EEmbedder, ETransformer
from transformulary.paper import PreEDTransformerConfig

BERT = {
    "vocab_size": 37, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20,
    "max_position_embeddings": 16, "attn_implementation": "eager",
}  # fmt: skip
T5 = {
    "vocab_size": 37, "d_model": 16, "d_kv": 5, "d_ff": 20, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4,
    "decoder_start_token_id": 0,
}  # fmt: skip
BART = {
    "vocab_size": 37, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 9,
}  # fmt: skip
x, z = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]]), torch.tensor([[2, 7, 1, 8, 2]])
s = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])


def bert(kind, **changes):
    return randomise(getattr(transformers, kind)(transformers.BertConfig(**BERT | changes)))


def t5(**changes):
    """With every norm in float64, which the library computes in float32."""
    model = randomise(transformers.T5ForConditionalGeneration(transformers.T5Config(**T5 | changes)))
    for module in model.modules():
        if type(module).__name__ == "T5LayerNorm":
            module.forward = _norm.__get__(module)
    return model


def bart(kind="BartForConditionalGeneration", **changes):
    model = randomise(getattr(transformers, kind)(transformers.BartConfig(**BART | changes)))
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.copy_(torch.randn(37))
    return model


def marian(**changes):
    """With every sinusoid in float64, which the library computes in float32."""
    exact, *_ = huggingface.marian()
    model = randomise(transformers.MarianMTModel(transformers.MarianConfig(**exact.config.to_dict() | changes)))
    model.final_logits_bias.copy_(exact.final_logits_bias)
    for stack in ("encoder", "decoder"):
        getattr(model.model, stack).embed_positions = getattr(exact.model, stack).embed_positions
    return model


def _norm(self, X):
    return X * torch.rsqrt(X.pow(2).mean(-1, keepdim=True) + self.variance_epsilon) * self.weight


MODELS = {
    "masked": (lambda: bert("BertForMaskedLM"), ETransformer),
    "masked, untied": (lambda: bert("BertForMaskedLM", tie_word_embeddings=False), ETransformer),
    "pretraining": (lambda: bert("BertForPreTraining"), ETransformer),
    "classes": (lambda: bert("BertForSequenceClassification", num_labels=5), EClassifier),
    "vectors": (lambda: bert("BertModel"), EEmbedder),
    "marian": (lambda: huggingface.marian()[0], EDTransformer),
    "marian, separate": (lambda: marian(share_encoder_decoder_embeddings=False), EDTransformer),
    "marian, untied": (
        lambda: marian(share_encoder_decoder_embeddings=False, tie_word_embeddings=False),
        EDTransformer,
    ),
    "bart": (lambda: bart(scale_embedding=True, activation_function="relu"), EDTransformer),
    "bart, untied": (lambda: bart(tie_word_embeddings=False), EDTransformer),
    "t5": (lambda: t5(), EDTransformer),
    "t5 1.1": (lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False), EDTransformer),
}


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


def theirs_of(model):
    """What their model computes of x, or of z and x: logits, or the vectors of all tokens."""
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            return model(input_ids=z, decoder_input_ids=x).logits
        found = model(input_ids=x, token_type_ids=s)
    for output in ("prediction_logits", "logits", "last_hidden_state"):
        if output in found:
            return found[output]
    raise AssertionError(found)


def ours_of(model):
    with torch.no_grad():
        if isinstance(model, EDTransformer):
            return model(z, x)
        return model.encode(x, s) if isinstance(model, EEmbedder) else model(x, s)


def close(one, other, atol=1e-13):
    torch.testing.assert_close(one, other, rtol=0, atol=atol)


def test_ours_loads_theirs(tmp_path, name):
    """The model that a file holds is found by what it holds, and computes what theirs does."""
    make, kind = MODELS[name]
    theirs = make()
    theirs.save_pretrained(tmp_path)

    ours = load(tmp_path).model

    assert type(ours) is kind
    close(ours_of(ours), theirs_of(theirs), 1e-12)


def test_the_oracle_reads_theirs(tmp_path, name):
    """The oracle computes the same from the same file, where it gives distributions over tokens."""
    make, kind = MODELS[name]
    theirs = make()
    theirs.save_pretrained(tmp_path)
    c, array = theta_source(open_source(tmp_path))
    if kind in (EEmbedder, EClassifier):
        with pytest.raises(CheckpointError, match=r"has no W_f\.weight: it is a model that gives (vectors|classes)"):
            oracle.theta_from(c, array)
        return
    theta = oracle.theta_from(c, array)
    algorithm = oracle.PreEDTransformer if isinstance(c, PreEDTransformerConfig) else oracle.EDTransformer

    if kind is ETransformer:
        P = oracle.ETransformer(x[0].tolist(), theta, c, s=s[0].tolist())
    else:
        P = algorithm(z[0].tolist(), x[0].tolist(), theta, c)

    np.testing.assert_allclose(P, theirs_of(theirs)[0].softmax(-1).T, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_there_and_back(tmp_path, name, dtype):
    """The same tensors under the same names, bitwise, parts included that we compute nothing with; theirs loads it."""
    theirs = MODELS[name][0]().to(getattr(torch, dtype))
    theirs.save_pretrained(tmp_path / "theirs")
    convert(tmp_path / "theirs", tmp_path / "ours")
    stored = [load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours")]

    assert stored[0].keys() == stored[1].keys()
    assert all(torch.equal(tensor, stored[1][name]) for name, tensor in stored[0].items())
    both = [
        type(theirs).from_pretrained(tmp_path / folder, output_loading_info=True, dtype="auto")
        for folder in ("theirs", "ours")
    ]
    assert [set()] * 3 == [set(both[1][1][k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")]
    assert torch.equal(*(theirs_of(model.eval()) for model, _ in both))


def test_saved_from_here(tmp_path, name):
    """A model of ours, saved without its origin, is the same when it is loaded again."""
    theirs = MODELS[name][0]()
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load(tmp_path / "theirs").model
    save(tmp_path / "ours", ours)

    again = load(tmp_path / "ours").model

    assert type(again) is type(ours)
    assert again.config == ours.config
    assert torch.equal(ours_of(again), ours_of(ours))


def edit(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


W = "bert.embeddings.word_embeddings.weight"


def test_older_files_of_bert(tmp_path):
    """Tied tensors stored twice, stored positions and a missing prefix change nothing; different ones are refused."""
    bert("BertForMaskedLM").save_pretrained(tmp_path)
    wanted = load(tmp_path).model
    more = {"bert.embeddings.position_ids": torch.arange(16)[None]}
    edit(tmp_path, lambda t: t.update({"cls.predictions.decoder.weight": t[W].clone(), **more}))
    edit(tmp_path, lambda t: t.update({"cls.predictions.decoder.bias": t["cls.predictions.bias"].clone()}))
    edit(tmp_path, lambda t: t.update({name.removeprefix("bert."): t.pop(name) for name in [*t]}))

    close(ours_of(load(tmp_path).model), ours_of(wanted), 0)
    edit(tmp_path, lambda t: t["cls.predictions.decoder.bias"].add_(1))
    with pytest.raises(CheckpointError, match=r"cls\.predictions\.decoder\.bias and cls\.predictions\.bias differ"):
        load(tmp_path)


def test_a_copy_alone_serves(tmp_path):
    """A file that has only the encoder's copy of the shared embedding has it."""
    huggingface.marian()[0].save_pretrained(tmp_path)
    wanted = load(tmp_path).model
    edit(tmp_path, lambda t: t.update({"model.encoder.embed_tokens.weight": t.pop("model.shared.weight")}))

    close(ours_of(load(tmp_path).model), ours_of(wanted), 0)


@pytest.mark.parametrize("make", [lambda: bart().model, lambda: marian().model], ids=["bart", "marian"])
def test_without_a_head(tmp_path, make):
    """A file of the layers alone has W_u = W_e^T and no bias; what is written of it is such a file."""
    theirs = make()
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load(tmp_path / "theirs").model
    assert "b_u" in ours.config.absent

    convert(tmp_path / "theirs", tmp_path / "converted")
    save(tmp_path / "saved", ours)

    with torch.no_grad():
        X = theirs(input_ids=z, decoder_input_ids=x).last_hidden_state
        close(ours_of(ours), X @ theirs.shared.weight.T)
        for folder in ("converted", "saved"):
            assert load(tmp_path / folder).model.config == ours.config
            again = type(theirs).from_pretrained(tmp_path / folder, dtype="auto").eval()
            close(again(input_ids=z, decoder_input_ids=x).last_hidden_state, X, 1e-6)  # its sinusoids are float32
            assert again.config.architectures == [type(theirs).__name__]


def test_an_unembedding_of_its_own(tmp_path):
    """T5 1.1's lm_head is its W_u though newer configs say that it is tied; 1.0's must be W_e, which it is tied to."""
    t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False).save_pretrained(tmp_path / "1.1")
    t5().save_pretrained(tmp_path / "1.0")
    own = torch.randn(37, 16, dtype=torch.float64)
    for folder in (tmp_path / "1.1", tmp_path / "1.0"):
        edit(folder, lambda t: t.update({"lm_head.weight": own}))

    ours = load(tmp_path / "1.1").model

    assert (ours.config.tied, ours.config.unembedding_scale) == (False, "none")
    assert torch.equal(ours.W_u.weight, own)
    with pytest.raises(CheckpointError, match=r"lm_head\.weight and shared\.weight differ"):
        load(tmp_path / "1.0")


def test_classes_are_counted_in_the_file(tmp_path):
    """A config.json may have forgotten how many classes there are; what is saved says it."""
    bert("BertForSequenceClassification", num_labels=5).save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    config = json.loads(path.read_text()) | {"id2label": {"0": "A", "1": "B"}, "num_labels": 5}
    path.write_text(json.dumps(config))
    convert(tmp_path / "theirs", tmp_path / "ours")

    assert describe(tmp_path / "ours").N_C == 5
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "ours")
    assert theirs.config.num_labels == 5


F = "cls.predictions.transform.dense.weight"
WRONG = {
    "misspelt": (lambda t: t.update({W + "s": t.pop(W)}), f"lacks {W}, .*has {W}s, .*misspelt"),
    "extra": (lambda t: t.update({"bert.embeddings.more": t[W].clone()}), "has bert.embeddings.more, for which"),
    "mis-shaped": (lambda t: t.update({W: t[W][:-1].clone()}), r"has shape \(36, 16\); W_e.weight needs \(37, 16\)"),
    "no layer": (lambda t: [t.pop(n) for n in [*t] if "layer.1" in n], "lacks bert.encoder.layer.1.*more tensors"),
    "a part of a head": (lambda t: t.pop(F), f"lacks {F}"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_tensors(tmp_path, kind):
    """One line names the file and the tensor."""
    change, message = WRONG[kind]
    bert("BertForMaskedLM").save_pretrained(tmp_path)
    edit(tmp_path, change)

    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relative_attention_num_buckets": 16}, "relative_attention_num_buckets = 16 is not computed"),
        ({"feed_forward_proj": "gated-mish"}, "feed_forward_proj = 'gated-mish' is none of"),
        ({"is_gated_act": True}, "feed_forward_proj = 'relu' and dense_act_fn and is_gated_act contradict"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings = 1, scale_decoder_outputs = 1: not true or false"),
        ({"d_model": 0}, "d_e = 0 must be a whole number, at least 1"),
        ({"num_layer": 3}, "num_layer = 3 has no rule.*Did you mean num_layers?"),
    ],
)
def test_a_wrong_config_of_t5(tmp_path, change, message):
    """What we do not compute or understand is one line that names it."""
    (tmp_path / "config.json").write_text(json.dumps(LEAST["t5"] | change))
    save_file({"shared.weight": torch.ones(1)}, tmp_path / "model.safetensors")

    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)
