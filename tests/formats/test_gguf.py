"""GGUF files, written here with the gguf package: what llama.cpp stores means the same to us."""

import warnings

import gguf
import numpy as np
import pytest
import torch

from nn.models import config, model, tokens
from transformulary import oracle
from transformulary.errors import CheckpointError
from transformulary.formats import config_of, open_source, theta_source
from transformulary.formats.gguf_models import LLAMA3, divisors
from transformulary.models import load

KINDS = {kind: getattr(gguf.GGMLQuantizationType, kind) for kind in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_1")}
SIZES = {"d_e": 32, "H": 4, "H_kv": 2, "d_mlp": 64, "eps": 1e-5}
NO_BIAS = {"absent": ("b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u")}
LLAMA = {**SIZES, **NO_BIAS, "norm": "rms_norm", "mlp": "gated", "activation": "silu", "positions": "rotary"}
GPT2 = {**SIZES, "H_kv": 4, "activation": "gelu_tanh"}
LLAMA_NAMES = {
    "W_e": "token_embd", "norm_1": "attn_norm", "attention.W_o": "attn_output", "norm_2": "ffn_norm",
    "mlp.W_mlp1": "ffn_gate", "mlp.W_mlp2": "ffn_down", "mlp.W_mlp3": "ffn_up", "norm": "output_norm", "W_u": "output",
    "attention.W_qkv.W_q": "attn_q", "attention.W_qkv.W_k": "attn_k", "attention.W_qkv.W_v": "attn_v",
}  # fmt: skip
GPT2_NAMES = LLAMA_NAMES | {"W_p": "position_embd", "attention.W_qkv": "attn_qkv", "mlp.W_mlp1": "ffn_up"}


def converted(fast):
    """{their name: float32 array} of a model, as llama.cpp's converter stores it."""
    c, names = fast.config, GPT2_NAMES if fast.config.positions == "learned" else LLAMA_NAMES
    found = {}
    for name, tensor in fast.float().state_dict().items():
        array = tensor.detach().numpy()
        module, _, kind = name.rpartition(".")
        layer, module = module.split(".", 2)[1:] if module.startswith("layers.") else ("", module)
        prefix = f"blk.{layer}." if layer else ""
        if c.tied and name == "W_u.weight":
            continue
        if module == "attention.W_qkv" and names is LLAMA_NAMES:
            Q, K, V = np.split(array, np.cumsum([c.H * c.d_attn, c.H_kv * c.d_attn]))
            for letter, part, heads in (("q", Q, c.H), ("k", K, c.H_kv), ("v", V, 0)):
                found[f"{prefix}attn_{letter}.{kind}"] = neighbours(part, heads) if heads else part
        else:
            found[f"{prefix}{names[module]}.{kind}"] = array
    return found


def neighbours(array, heads):
    """Rows i and i + d/2 of every head beside each other."""
    rows = [r for h in np.split(np.arange(len(array)), heads) for r in np.ravel(np.stack(np.split(h, 2), 1))]
    return array[rows]


def write(path, fast, kind="F32", more=(), tensors=None, **options):
    """A GGUF file of a model; matrices quantised, vectors float32, as usual."""
    c, arch = fast.config, "gpt2" if fast.config.positions == "learned" else "llama"
    writer = gguf.GGUFWriter(path, arch, **options)
    writer.add_context_length(c.ell_max)
    writer.add_embedding_length(c.d_e)
    writer.add_block_count(c.L)
    writer.add_feed_forward_length(c.d_mlp)
    writer.add_head_count(c.H)
    if arch == "llama":
        writer.add_head_count_kv(c.H_kv)
        writer.add_layer_norm_rms_eps(c.eps)
        writer.add_rope_freq_base(c.base)
        writer.add_rope_dimension_count(c.d_attn)
    else:
        writer.add_layer_norm_eps(c.eps)
    writer.add_file_type(0)
    if not any(name.startswith("tokenizer.") for name, _ in more):
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list([f"t{v}" for v in range(c.N_V)])
        writer.add_token_merges(["t 0"])
    for name, value in more:
        kinds = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}
        kinds[type(value)](name, value)
    for name, array in (converted(fast) if tensors is None else tensors).items():
        if array.ndim == 2 and kind != "F32":
            writer.add_tensor(name, gguf.quantize(array, KINDS[kind]), raw_dtype=KINDS[kind])
        else:
            writer.add_tensor(name, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def rounded(fast, kind):
    """The model with every matrix as it is after quantising."""
    changed = {}
    for name, tensor in fast.float().state_dict().items():
        array = tensor.numpy()
        if array.ndim == 2 and kind != "F32":
            array = gguf.dequantize(gguf.quantize(array, KINDS[kind]), KINDS[kind]).reshape(array.shape)
        changed[name] = torch.tensor(array)
    fast.load_state_dict(changed)
    return fast


def made(**changes):
    fast = model(config(**changes)).float()
    c = fast.config.__class__.from_dict(fast.config.to_dict() | {"eps": float(np.float32(fast.config.eps))})
    again = type(fast)(c)
    again.load_state_dict(fast.state_dict())
    return again.eval()


CASES = {
    "llama": LLAMA,
    "llama, tied": {**LLAMA, "tied": True},
    "llama, biases": {**LLAMA, "absent": ("b_u",)},
    "llama, base": {**LLAMA, "base": 500000.0},
    "gpt2": GPT2,
    "gpt2, tied": {**GPT2, "tied": True},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_the_same_model(tmp_path, case, kind):
    """Config and numbers are those of the model that was quantised, for the fast model and for the oracle."""
    fast = made(**CASES[case])
    path = write(tmp_path / "model.gguf", fast, kind)
    wanted = rounded(fast, kind)
    x = tokens(fast.config, 1, 7)

    loaded, (c, array) = load(path), theta_source(open_source(path))
    P = oracle.DTransformer(x[0].tolist(), oracle.theta_from(c, array), c)

    assert wanted.config == loaded.model.config == c
    assert loaded.tokenizer is None
    for (name, one), two in zip(wanted.state_dict().items(), loaded.model.state_dict().values(), strict=True):
        assert torch.equal(one, two), name
    with torch.no_grad():
        np.testing.assert_allclose(P, wanted.double()(x)[0].softmax(-1).T, rtol=0, atol=1e-13)


def test_a_folder_with_one(tmp_path):
    """A folder that holds one GGUF file is that model; with two, one must be named."""
    write(tmp_path / "model.gguf", made(**LLAMA))
    assert load(tmp_path).model.config == load(tmp_path / "model.gguf").model.config
    assert load(tmp_path).model.config == config_of(tmp_path) == config_of(tmp_path / "model.gguf")
    write(tmp_path / "other.gguf", made(**LLAMA))
    (tmp_path / "config.json").write_text("{}")

    with pytest.raises(CheckpointError, match=r"has 2 \.gguf files: name one of them"):
        load(tmp_path)


def split(tmp_path):
    """A model in three files."""
    fast = made(**LLAMA)
    write(tmp_path / "m.gguf", fast, split_max_tensors=1 + len(converted(fast)) // 3)
    return fast, sorted(tmp_path.iterdir())


@pytest.mark.parametrize("which", [None, 0, 1, 2])
def test_a_split_model(tmp_path, which):
    """Its folder or any of its files is the whole model."""
    fast, files = split(tmp_path)

    again = load(tmp_path if which is None else files[which]).model

    assert [f"m-0000{k}-of-00003.gguf" for k in (1, 2, 3)] == [file.name for file in files]
    assert again.config == fast.config
    for (name, one), two in zip(fast.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(one, two), name


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda files: files[1].unlink(), "is one of 3 files, and m-00002-of-00003.gguf is not there"),
        (
            lambda files: files[0].rename(files[0].with_name("a.gguf")),
            "is one of 3 files of a model, and the others are found by their names",
        ),
        (lambda files: files[1].write_bytes(files[2].read_bytes()), "tensors, and the first says"),
    ],
)
def test_a_split_model_that_is_not_whole(tmp_path, damage, message):
    """A part that is missing, has another name or is of something else is an error that says so."""
    _, files = split(tmp_path)

    damage(files)

    with pytest.raises(CheckpointError, match=message):
        load(min(tmp_path.iterdir()))


SCALINGS = {
    "linear": ({"frequencies": "linear", "factor": 4.0}, {"scaling.type": "linear", "scaling.factor": 4.0}),
    "yarn": (
        {"frequencies": "yarn", "factor": 4.0, "ell_train": 4, "attention_factor": 0.1 * float(np.log(4.0)) + 1},
        {"scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 4},
    ),
    "none": ({}, {"scaling.type": "none", "scaling.finetuned": 1}),
}


@pytest.mark.parametrize("name", SCALINGS)
def test_scalings(tmp_path, name):
    """What llama.cpp calls the frequencies is what we call them."""
    ours, theirs = SCALINGS[name]
    path = write(
        tmp_path / "m.gguf", made(**LLAMA), more=[(f"llama.rope.{key}", value) for key, value in theirs.items()]
    )

    c = load(path).model.config

    assert c == c.from_dict(c.to_dict() | ours)
    assert c.frequencies == ours.get("frequencies", "geometric")


@pytest.mark.parametrize("numbers", LLAMA3, ids=str)
def test_llama3_frequencies_are_recognised(tmp_path, numbers):
    """Llama 3's frequencies are stored as what divides each one: those that were published are recognised."""
    fast = made(**{**LLAMA, "base": 500000.0, "d_attn": 64})
    freqs = np.array(divisors(numbers, 500000.0, 64), np.float32)
    tensors = converted(fast) | {"rope_freqs.weight": freqs}
    size = [("llama.attention.key_length", 64), ("llama.attention.value_length", 64)]

    c = load(write(tmp_path / "m.gguf", fast, tensors=tensors, more=size)).model.config
    wrong = write(tmp_path / "w.gguf", fast, tensors=tensors | {"rope_freqs.weight": freqs * 1.01}, more=size)

    assert {"frequencies": "llama3", **numbers}.items() <= c.to_dict().items()
    with pytest.raises(CheckpointError, match="none of the frequencies that Llama 3"):
        load(wrong)


def without(name):
    return lambda fast: {n: t for n, t in converted(fast).items() if n != name}


WRONG = {
    "unknown key": ({"more": [("llama.expert_count", 8)]}, "llama.expert_count = 8 has no rule"),
    "part of a head": ({"more": [("llama.rope.scaling.type", "longrope")]}, "'longrope' is none of"),
    "missing": ({"tensors": without("blk.0.attn_q.weight")}, "lacks blk.0.attn_q.weight"),
    "extra": ({"tensors": lambda f: converted(f) | {"blk.0.x.weight": np.ones(3, np.float32)}}, "has blk.0.x.weight"),
    "mis-shaped": (
        {"tensors": lambda f: converted(f) | {"output_norm.weight": np.ones(3, np.float32)}}, "has shape \\(3,\\)"
    ),
    "whole numbers": (
        {"tensors": lambda f: converted(f) | {"output_norm.weight": np.ones(32, np.int32)}}, "norm.weight holds I32"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file(tmp_path, name):
    """What has no rule, is missing or mis-shaped is one line that names it."""
    changes, message = WRONG[name]
    fast = made(**LLAMA)
    if "tensors" in changes:
        changes = {"tensors": changes["tensors"](fast)}
    path = write(tmp_path / "m.gguf", fast, **changes)

    with pytest.raises(CheckpointError, match=message):
        load(path)


def test_another_architecture(tmp_path):
    """An architecture without tables is refused by its name."""
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "mamba")
    writer.add_tensor("token_embd.weight", np.ones((2, 2), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    with pytest.raises(CheckpointError, match="model_type = 'gguf mamba' is none of"):
        load(tmp_path / "m.gguf")


def test_truncated_anywhere(tmp_path):
    """A file cut at any byte is refused with its name."""
    path = write(tmp_path / "m.gguf", made(**LLAMA), "Q8_0")
    whole = path.read_bytes()

    for n in [*range(0, 1500, 37), *range(1500, len(whole) - 40, 1009)]:
        path.write_bytes(whole[:n])
        with warnings.catch_warnings(), pytest.raises(CheckpointError, match=r"m\.gguf"):
            warnings.simplefilter("ignore")  # NumPy's, about arithmetic on damaged sizes
            load(path)


def test_damaged_anywhere(tmp_path):
    """A header with one byte changed loads, or is refused with its name; it never takes more memory than it should."""
    path = write(tmp_path / "m.gguf", made(**LLAMA), "Q8_0")
    whole = path.read_bytes()

    for n in range(0, 1400, 3):
        path.write_bytes(whole[:n] + b"\xff" + whole[n + 1 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                load(path)
            except CheckpointError as error:
                assert "m.gguf" in str(error)


def test_metadata_without_end(tmp_path):
    """More entries than any vocabulary has are counted before an object is made of each."""
    head = b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little")
    name = (1).to_bytes(8, "little") + b"a"
    listed = (9).to_bytes(4, "little") + (0).to_bytes(4, "little") + (10**12).to_bytes(8, "little")
    for content in (head + (1).to_bytes(8, "little") + name + listed, head + (10**12).to_bytes(8, "little")):
        (tmp_path / "m.gguf").write_bytes(content)

        with pytest.raises(CheckpointError, match="more than 3000000 entries"):
            load(tmp_path / "m.gguf")
