"""No false alarm on released code: what is right in its own precision is never called wrong."""

import pytest
import torch
import transformers

import huggingface as hf
from formats import test_gguf as gguf
from formats.test_mathformer import FILES, folder
from transformulary.conform import conform
from transformulary.errors import CheckpointError

SMALL = {"vocab_size": 61, "bos_token_id": None, "eos_token_id": None}
LLAMA = SMALL | {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 24,
}  # fmt: skip
CONFIGS = {
    "gpt2": transformers.GPT2Config(**SMALL, n_positions=24, n_embd=32, n_layer=2, n_head=4),
    "gpt_neo": transformers.GPTNeoConfig(
        **SMALL, max_position_embeddings=24, hidden_size=32, num_layers=2, num_heads=4, window_size=4,
        attention_types=[[["global", "local"], 1]],
    ),
    "llama": transformers.LlamaConfig(**LLAMA),
    "mistral": transformers.MistralConfig(**LLAMA, sliding_window=5),
    "qwen2": transformers.Qwen2Config(**LLAMA),
}  # fmt: skip
#: Their own lines differ; Mistral and Qwen2 have Llama's, and one seed is enough.
FAMILIES = ("gpt2", "gpt_neo", "llama")
ATTENTION = dict.fromkeys(CONFIGS, ("eager", "sdpa")) | {"gpt_neo": ("eager",)}  # it has no other
LINES = {"10.3", "10.5", "10.6", "10.7", "10.8", "10.10", "10.11"}
DECODING = ["with a cache", "in a batch", "with a cache in a batch", "padded on the right", "padded on the left"]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """(name, seed) -> the folder of a random model in float32, written once."""
    written = {}

    def checkpoint(name, seed):
        if (name, seed) not in written:
            written[name, seed] = tmp_path_factory.mktemp(name)
            model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name])
            hf.randomise(model, seed).float().save_pretrained(written[name, seed])
        return written[name, seed]

    return checkpoint


def tokens(seed):
    return torch.randint(SMALL["vocab_size"], (12,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "attention", "seed"),
    [(n, kind, seed) for n, kinds in ATTENTION.items() for kind in kinds for seed in range(1 + (n in FAMILIES))],
)
def test_transformers(checkpoints, name, attention, precision, seed):
    """Weights, lines, and decoding with a cache, in a batch and padded agree in every precision."""
    path = checkpoints(name, seed)
    kind = getattr(torch, precision)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(path, attn_implementation=attention, dtype=kind)

    report = conform(theirs, path, tokens=tokens(seed))

    assert report.status == 0, report
    assert report.precision == precision
    assert {row.line for row in report.rows if row.status == "agrees"} == LINES
    weights, *decoding = report.notes
    assert weights.says.split()[0] == weights.says.split()[2]
    assert [note.says.partition(":")[0].partition(" in float32")[0] for note in decoding] == DECODING
    assert {note.status for note in decoding} == {"agrees"}


@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("name", FAMILIES)
def test_ours(checkpoints, name, precision):
    """Our fast model agrees with the same checkpoints."""
    from transformulary.models import load

    path = checkpoints(name, 0)

    report = conform(load(path).model.to(getattr(torch, precision)), path, tokens=tokens(0))

    assert report.status == 0, report
    assert {row.line for row in report.rows if row.status == "agrees"} == LINES | {"10.2"}


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("name", FILES)
def test_published_checkpoints(name, precision):
    """Published checkpoints in Llama's format, as `transformers` computes them."""
    path = folder(name)
    theirs = transformers.LlamaForCausalLM.from_pretrained(path, dtype=getattr(torch, precision))

    report = conform(theirs, path)

    assert report.status == 0, report
    assert {row.line for row in report.rows if row.status == "agrees"} == LINES


@pytest.mark.parametrize("candidate", ["transformers", "ours"])
def test_by_name(checkpoints, candidate):
    """A library's own model of a folder, which is loaded by the name of the library."""
    assert conform(candidate, checkpoints("llama", 0)).status == 0


@pytest.mark.parametrize("candidate", ["ours", "the file"])
def test_a_gguf_file(tmp_path, candidate):
    """What ours loads of a GGUF file, quantised and beside another one, agrees with the oracle on its numbers."""
    path = gguf.write(tmp_path / "model.gguf", gguf.made(**gguf.LLAMA), "Q4_0")
    gguf.write(tmp_path / "other.gguf", gguf.made(**gguf.GPT2))

    report = conform(path if candidate == "the file" else candidate, path)

    assert report.status == 0, report


@pytest.mark.parametrize(("longest", "status"), [(8, "not seen"), (24, "agrees")])
def test_frequencies_that_depend_on_the_length(tmp_path, longest, status):
    """Pieces of a sequence longer than that of training have other frequencies than the whole: no cache equals it."""
    rope = {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 3.0}
    config = transformers.LlamaConfig(**LLAMA | {"max_position_embeddings": longest, "rope_parameters": rope})
    hf.randomise(transformers.LlamaForCausalLM(config), 0).save_pretrained(tmp_path)

    report = conform("transformers", tmp_path, tokens=tokens(0))

    assert report.status == 0, report
    (cached,) = (note for note in report.notes if note.says.startswith("with a cache:"))
    assert cached.status == status


def test_padding_that_is_no_number_in_float64(checkpoints):
    """Eager Llama computes scores in float32, which has -inf for float64's lowest number: padding on the left makes
    every logit no number, and tokens are compared in float32 then; what is wrong there is found."""
    path = checkpoints("llama", 0)
    theirs = transformers.LlamaForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=torch.float64)

    class Leaky(transformers.LlamaForCausalLM):
        def forward(self, input_ids, attention_mask=None, **named):
            output = super().forward(input_ids, attention_mask=attention_mask, **named)
            output.logits *= 1 if attention_mask is None or attention_mask.all() else 1.01
            return output

    leaky = Leaky.from_pretrained(path, attn_implementation="eager", dtype=torch.float64)

    notes = [conform(model, path).notes[-1] for model in (theirs, leaky)]

    assert [note.says.partition(": the")[0].partition(", logits")[0] for note in notes] == 2 * [
        "padded on the left in float32 (in float64 not a number)"
    ]
    assert [note.status for note in notes] == ["agrees", "differs"]


def test_sums_of_many_terms(tmp_path):
    """As wide as GPT-2, with matrices as large: float32 rounds each of 768 partial sums, and that is allowed."""
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        **SMALL, n_positions=24, n_embd=768, n_layer=1, n_head=12, initializer_range=3 * 768**-0.5
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)

    report = conform(transformers.GPT2LMHeadModel.from_pretrained(tmp_path), tmp_path, tokens=tokens(0))

    assert report.status == 0, report


def changed(source, folder, change):
    """A checkpoint whose tensors are changed: change(name, tensor)."""
    model = transformers.AutoModelForCausalLM.from_pretrained(source)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.copy_(change(name, tensor))
    model.save_pretrained(folder)
    return folder


def test_an_embedding_that_dwarfs_what_is_added(checkpoints, tmp_path):
    """What a line adds to an X that is ten thousand million times as large loses digits in the sum."""
    path = changed(checkpoints("gpt2", 0), tmp_path, lambda name, t: t * 1e10 if "wte" in name else t)

    report = conform("transformers", path, decoding=False)

    assert report.status == 0, report


def test_a_line_that_rounding_may_change_altogether(checkpoints, tmp_path):
    """Of such a line nothing is known: it is not seen, and its error is no agreement."""
    path = changed(checkpoints("llama", 0), tmp_path, lambda name, t: t * 1e25)

    report = conform("transformers", path, decoding=False)

    assert report.status == 0, report
    assert report.unseen == ("5", "7", "10")
    assert report.agreement < 1e-6


@pytest.mark.parametrize("strange", ["nan", "inf", "-inf"])
def test_a_damaged_checkpoint(checkpoints, tmp_path, strange):
    """A number of the reference that is not finite is the checkpoint's fault, and no candidate's."""
    path = changed(checkpoints("gpt2", 0), tmp_path, lambda name, t: t + float(strange))

    with pytest.raises(CheckpointError, match=f"{path}: theta's W_e has a number that is not finite"):
        conform("transformers", path)
