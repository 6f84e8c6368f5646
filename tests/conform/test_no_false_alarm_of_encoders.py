"""No false alarm on released encoders and encoder-decoders, nor on ours."""

import numpy as np
import pytest
import torch
import transformers

import huggingface as hf
from transformulary import oracle
from transformulary.conform import conform
from transformulary.conform.reference import PRESETS
from transformulary.errors import CandidateError
from transformulary.models import load

SMALL = {"vocab_size": 61, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
BERT = transformers.BertConfig(
    vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, num_labels=5,
    max_position_embeddings=24,
)  # fmt: skip
MARIAN = transformers.MarianConfig(
    **SMALL, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=24, scale_embedding=True,
    activation_function="swish",
)  # fmt: skip
BART = transformers.BartConfig(
    **SMALL, d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=24, bos_token_id=0, forced_eos_token_id=1,
)  # fmt: skip
T5 = SMALL | {"d_model": 32, "d_kv": 9, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
MODELS = {
    "masked": ("BertForMaskedLM", BERT),
    "classes": ("BertForSequenceClassification", BERT),
    "vectors": ("BertModel", BERT),
    "marian": ("MarianMTModel", MARIAN),
    "bart": ("BartForConditionalGeneration", BART),
    "t5": ("T5ForConditionalGeneration", transformers.T5Config(**T5)),
    "t5 1.1": (
        "T5ForConditionalGeneration",
        transformers.T5Config(**T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    ),
}
NINE = {"9.3", "9.3a", "9.5", "9.6", "9.7", "9.8"}
EIGHT = {f"8.{n}" for n in (3, 5, 6, 7, 8, 12, 14, 15, 16, 17, 18, 19, 21)}
PRE = {f"8a.{n}" for n in (3, 5, 6, 7, 8, 10, 13, 15, 16, 17, 18, 19, 20, 22, 23)}
LINES = {
    "masked": NINE | {"9.10", "9.11", "9.12"},
    "classes": NINE | {"9c.1", "9c.2"},
    "vectors": NINE,
    "marian": EIGHT,
    "bart": EIGHT | {"8.3a", "8.12a"},
    "t5": PRE,
    "t5 1.1": PRE,
}
#: What a plain run is compared with; Marian and BART count positions from the padding on, which the report says.
DECODING = {"with a cache", "in a batch", "padded on the right", "padded on the left"}
NOT = {"masked": {"with a cache"}, "classes": {"with a cache"}, "vectors": {"with a cache"}}
NOT["marian"] = NOT["bart"] = {"padded on the left"}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """name -> the folder of a random model in float32, written once."""
    written = {}

    def checkpoint(name):
        if name not in written:
            written[name] = tmp_path_factory.mktemp("model")
            kind, config = MODELS[name]
            hf.randomise(getattr(transformers, kind)(config), 1).float().save_pretrained(written[name])
        return written[name]

    return checkpoint


@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", MODELS)
def test_transformers(checkpoints, name, attention, precision):
    """Weights, lines, and decoding with a cache, in a batch and padded agree in every precision."""
    path = checkpoints(name)
    kind = getattr(transformers, MODELS[name][0])
    theirs = kind.from_pretrained(path, attn_implementation=attention, dtype=getattr(torch, precision))

    report = conform(theirs, path)

    assert report.status == 0, report
    assert report.precision == precision
    assert {row.line for row in report.rows if row.status == "agrees"} == LINES[name]
    weights = [note.says for note in report.notes if note.kind == "weights" and note.status == "agrees"]
    assert weights[0].split()[0] == weights[0].split()[2]
    agrees = {
        note.says.partition(":")[0] for note in report.notes if (note.kind, note.status) == ("decoding", "agrees")
    }
    assert agrees == DECODING - NOT.get(name, set())


@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_ours(checkpoints, name, precision):
    """Our fast models agree with the same checkpoints."""
    path = checkpoints(name)

    report = conform(load(path).model.to(getattr(torch, precision)), path)

    assert report.status == 0, report
    seen = LINES[name] - ({"9c.1"} if name == "classes" else set())
    assert {row.line for row in report.rows if row.status == "agrees"} == seen


@pytest.mark.parametrize("candidate", ["transformers", "ours"])
@pytest.mark.parametrize("name", ["masked", "classes", "vectors", "marian", "bart", "t5"])
def test_by_name(checkpoints, candidate, name):
    """A library's own model of a folder, which is loaded by the name of the library."""
    assert conform(candidate, checkpoints(name)).status == 0


@pytest.mark.parametrize("name", ["transformer", "bert", "marian", "t5"])
def test_presets(name):
    """Tiny models with random parameters stand for a checkpoint."""
    report = conform("ours", name, tokens=[1, 2, 3])

    assert report.status == 0, report
    assert report.number == {"transformer": "8", "bert": "9", "marian": "8", "t5": "8a"}[name]
    assert (report.tokens, len(report.context) > 0, report.segments) == (
        (1, 2, 3), report.number != "9", (0, 0, 0) if PRESETS[name].positions == "learned" and name == "bert" else (),
    )  # fmt: skip


class BlindBert(transformers.BertForMaskedLM):
    """Does not look at its mask."""

    def forward(self, input_ids, attention_mask=None, position_ids=None, **named):
        return super().forward(input_ids, position_ids=position_ids, **named)


class BlindMarian(transformers.MarianMTModel):
    """Whose encoder looks at the mask, and whose cross-attention does not."""

    def forward(self, input_ids=None, attention_mask=None, decoder_input_ids=None):
        encoded = self.model.encoder(input_ids, attention_mask)
        return super().forward(encoder_outputs=encoded, decoder_input_ids=decoder_input_ids)


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [("masked", BlindBert, "padding is seen"), ("marian", BlindMarian, "padding is seen by cross-attention")],
)
def test_padding_that_is_seen_is_named(checkpoints, name, kind, says):
    """A sequence beside padding gives something else: the oracle that sees the padding there gives the same."""
    path = checkpoints(name)

    report = conform(kind.from_pretrained(path).double(), path)

    wrong = [note.says for note in report.notes if note.status == "differs"]
    assert wrong[0].startswith("padded on the right, logits differ")
    assert all(note.endswith(f": {says}") for note in wrong)
    assert report.status == 1


NORMS = ("5", "7", "10", "15", "17", "19", "22")


@pytest.mark.parametrize("path", ["8a.23:logits", "8a.23", "8a.20[l=3]"])
def test_what_a_program_computed_in_float32_is_said_of_dumps(checkpoints, path):
    """T5 in float64 norms in float32: a dump of one value, with that said, agrees, though no norm is in it."""
    folder, z, x = checkpoints("t5"), [5, 6, 7, 8, 9, 10], [0, 3, 4, 11]
    model = transformers.T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float64).eval()
    seen = {}
    with hf.hooks(model, seen), torch.no_grad():
        logits = model(input_ids=torch.tensor([z]), decoder_input_ids=torch.tensor([x])).logits[0].numpy().T
    found = {"8a.23:logits": logits, "8a.23": oracle.softmax(logits), "8a.20[l=3]": seen["decoder.block.2:out"][0].T}

    lower = {f"8a.{line}": "float32" for line in NORMS}
    report = conform({path: found[path]}, folder, tokens=x, context_tokens=z, table={"lower": lower})

    assert report.status == 0, report
    assert max(row.allowed for row in report.rows) < 1e-4


def test_a_line_of_lower_precision_that_there_is_not(checkpoints):
    """It is said by its name."""
    with pytest.raises(CandidateError, match=r"lower says 8a.9, and that is no line of this model. Nearest: 8a"):
        conform(
            {"8a.3": np.zeros((32, 1))},
            checkpoints("t5"),
            tokens=[1],
            context_tokens=[1],
            table={"lower": {"8a.9": "float32"}},
        )
