"""Folders: what is saved is loaded, bitwise; what is damaged is one error that names file and tensor."""

import json
import struct

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from nn.models import VARIANTS, config, model
from transformulary.errors import CheckpointError
from transformulary.formats import READABLE, Key, format_for, read_header
from transformulary.models import load, save
from transformulary.paper import Causal
from transformulary.tokens import Tokenizer

EVERY = [change for changes in VARIANTS.values() for change in changes]


def numbers(fast):
    return {name: tensor.tolist() for name, tensor in fast.state_dict().items()}


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_what_is_saved_is_loaded(tmp_path, change):
    """Config and every number of a model come back, for every choice; saving again writes the same bytes."""
    fast = model(config(**change))
    save(tmp_path / "1", fast)
    again = load(tmp_path / "1").model
    save(tmp_path / "2", again)

    assert fast.config == again.config
    assert numbers(fast) == numbers(again)
    assert (fast.W_u.weight is fast.W_e.weight) == (again.W_u.weight is again.W_e.weight)
    for name in ("config.json", "model.safetensors", "generation_config.json"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_gpt2s_format_wherever_it_can_say_it(change):
    """A config is written in GPT-2's format if that has the words for it, else in ours."""
    c = config(**change)
    gpt2 = {
        "norm": "layer_norm",
        "mlp": "plain",
        "positions": "learned",
        "embedding_scale": "none",
        "embedding_norm": False,
        "qk_norm": False,
    }
    says = all(getattr(c, slot) == value for slot, value in gpt2.items()) and (
        (c.H_kv, c.H * c.d_attn, c.d_mid, c.absent, c.mask) == (c.H, c.d_e, c.d_attn, {"b_u"}, (Causal(),))
    )

    assert says == (format_for(c).model_type == "gpt2")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_precision_is_kept(tmp_path, dtype):
    """A model is loaded in the precision in which it was saved, and is not training."""
    save(tmp_path, model(config()).to(dtype).train())

    loaded = load(tmp_path).model

    assert {dtype} == {theta.dtype for theta in loaded.parameters()}
    assert not loaded.training
    assert all(theta.requires_grad for theta in loaded.parameters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.compile
@pytest.mark.parametrize(
    "wrap", [torch.compile, torch.nn.DataParallel, lambda m: torch.nn.DataParallel(torch.compile(m))]
)
def test_wrappers_leave_no_trace(tmp_path, wrap):
    """A compiled or parallel model is saved as what it wraps."""
    fast = model(config())
    save(tmp_path / "bare", fast)
    save(tmp_path / "wrapped", wrap(fast))

    assert (tmp_path / "bare/model.safetensors").read_bytes() == (tmp_path / "wrapped/model.safetensors").read_bytes()


@pytest.fixture
def folder(tmp_path):
    save(tmp_path, model(config()))
    return tmp_path


def change_tensors(folder, change):
    """Rewrite model.safetensors after change({name: array})."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def renamed(old, new):
    return lambda tensors: tensors.update(
        {new(n) if callable(new) else new: tensors.pop(n) for n in [n for n in tensors if n == old or old is None]}
    )


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "module._orig_mod."])
def test_names_from_inside_a_wrapper(folder, wrapper):
    """What a compiled or parallel model stored elsewhere loads: the wrapper's part of the name means nothing."""
    fast = load(folder).model
    change_tensors(folder, renamed(None, lambda name: wrapper + name))

    assert numbers(fast) == numbers(load(folder).model)


def test_buffers_of_older_files_are_harmless(folder):
    """The causal mask that older GPT-2 files store is no parameter."""
    fast = load(folder).model
    change_tensors(
        folder,
        lambda t: t.update(
            {"transformer.h.0.attn.bias": np.ones((1, 1, 9, 9), bool), "h.1.attn.masked_bias": np.array(-1e4)}
        ),
    )

    assert numbers(fast) == numbers(load(folder).model)


N, C = "transformer.h.1.ln_1.weight", "transformer.h.0.attn.c_attn.weight"
DAMAGE = {
    "missing": (renamed(N, "z" * 9), f"lacks {N}"),
    "misspelt": (renamed(N, "transformer.h.1.ln_1.wieght"), f"lacks {N}.*has transformer.h.1.ln_1.wieght, .*misspelt"),
    "extra": (lambda t: t.update(score=t[N]), "has score, for which there is no rule"),
    "two extra": (lambda t: t.update({"score": t[N], "value": t[N]}), "has score and 1 more tensors"),
    "layer too many": (lambda t: t.update({N.replace("1.ln", "2.ln"): t[N]}), "has transformer.h.2.ln_1.weight"),
    "mis-shaped": (lambda t: t.update({N: t[N][:-1]}), rf"{N} has shape \(7,\); layers.1.norm_1.weight needs \(8,\)"),
    "transposed": (lambda t: t.update({C: t[C].T.copy()}), r"has shape \(24, 8\).*needs \(8, 24\)"),
    "whole numbers": (lambda t: t.update({N: t[N].astype(np.int64)}), f"{N} holds I64"),
    "mixed precisions": (lambda t: t.update({N: t[N].astype(np.float32)}), f"mixes precisions .*{N} in F32"),
    "twice by prefix": (lambda t: t.update({N.removeprefix("transformer."): t[N]}), f"are both {N}"),
    "twice by wrapper": (lambda t: t.update({"module." + N: t[N]}), f"are both {N}"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_wrong_tensors(folder, kind):
    """One line names the file and the tensor."""
    change, message = DAMAGE[kind]
    change_tensors(folder, change)

    with pytest.raises(CheckpointError, match=message) as caught:
        load(folder)
    assert "model.safetensors" in str(caught.value)


def test_a_tied_matrix_stored_twice_must_be_the_same(tmp_path):
    """A tied model whose file has lm_head as well loads if both are equal and is refused if they differ."""
    save(tmp_path, model(config(tied=True)))
    change_tensors(tmp_path, lambda t: t.update({"lm_head.weight": t["transformer.wte.weight"]}))
    same = load(tmp_path).model
    change_tensors(tmp_path, lambda t: t.update({"lm_head.weight": t["transformer.wte.weight"] + 1e-9}))

    assert same.W_u.weight is same.W_e.weight
    with pytest.raises(CheckpointError, match=r"lm_head.weight and transformer.wte.weight differ"):
        load(tmp_path)


def raw(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(begin, end, shape=(1,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


HEADERS = {
    "empty": (b"", "truncated"),
    "7 bytes": (b"1234567", "truncated"),
    "2^63 bytes of header": (raw({}, length=2**63), "header would be 9223372036854775808 bytes"),
    "header longer than the file": (raw({}, length=3), "header would be 3 bytes, the file has 10"),
    "no header": (raw(b""), "not JSON"),
    "no JSON": (raw(b"{]"), "not JSON"),
    "no text": (raw(b"\xff\xfe\xff"), "not JSON"),
    "very deep": (raw(b"[" * 100_000), "not JSON"),
    "no object": (raw([1]), "no JSON object"),
    "twice": (raw(b'{"a": 1, "a": 1}'), "a occurs twice"),
    "key of an entry twice": (raw(b'{"a": {"dtype": "F32", "dtype": "F64"}}'), "dtype occurs twice"),
    "no entry": (raw({"a": 1}), "entry of a is not"),
    "unknown type": (raw({"a": entry(0, 4, dtype="F3")}, b"1234"), "entry of a is not"),
    "infinite size": (raw(b'{"a": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]}}', b"1234"), "entry of a"),
    "NaN size": (raw(b'{"a": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 4]}}', b"1234"), "entry of a is not"),
    "negative size": (raw({"a": entry(0, 4, shape=(-1, -1))}, b"1234"), "entry of a is not"),
    "a truth as size": (raw({"a": entry(0, 4, shape=(True,))}, b"1234"), "entry of a is not"),
    "huge size": (raw({"a": entry(0, 4, shape=(10**30,))}, b"1234"), "a has 1 sizes, and no tensor has such"),
    "huge and empty": (raw({"a": entry(0, 0, shape=(0, 10**30))}), "a has 2 sizes, and no tensor has such"),
    "without end": (raw({"a": entry(0, 0, shape=(0,) * 100)}), "a has 100 sizes, and no tensor"),
    "many": (raw({str(i): entry(0, 0, shape=(0,)) for i in range(100_001)}), "more than 100,000 tensors"),
    "shape and bytes differ": (raw({"a": entry(0, 8)}, b"12345678"), "a has 8 bytes, and its shape .* needs 4"),
    "backwards": (raw({"a": entry(4, 0)}, b"1234"), "a has -4 bytes"),
    "overlap": (raw({"a": entry(0, 4), "b": entry(2, 6)}, b"123456"), "b begins at byte 2, where byte 4 was due"),
    "hole": (raw({"a": entry(0, 4), "b": entry(6, 10)}, b"1" * 10), "b begins at byte 6"),
    "truncated": (raw({"a": entry(0, 4), "b": entry(4, 8)}, b"1" * 7), "need 8 bytes, the file has 7: truncated"),
    "trailing": (raw({"a": entry(0, 4)}, b"12345"), "has 5: .* belong to no tensor"),
}  # fmt: skip


@pytest.mark.parametrize("kind", HEADERS)
def test_a_wrong_header(tmp_path, kind):
    """A damaged header is refused by name before anything is read."""
    content, message = HEADERS[kind]
    (tmp_path / "model.safetensors").write_bytes(content)

    with pytest.raises(CheckpointError, match=message) as caught:
        read_header(tmp_path / "model.safetensors")
    assert "model.safetensors" in str(caught.value)


def test_a_file_cut_anywhere(folder):
    """Cut at any byte, the file is refused with its name."""
    path = folder / "model.safetensors"
    content = path.read_bytes()
    for cut in (0, 1, 7, 8, 9, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])

        with pytest.raises(CheckpointError, match=r"model.safetensors"):
            load(folder)


def test_metadata_are_texts(folder):
    """What a header says besides must be texts by names, as the format has it: safetensors itself refuses the rest."""
    path = folder / "model.safetensors"
    content = path.read_bytes()
    n = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + n]) | {"__metadata__": {"format": 1}}
    path.write_bytes(raw(header, content[8 + n :]))

    with pytest.raises(CheckpointError, match=r"model.safetensors: __metadata__ "):
        load(folder)


def edit(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


CONFIGS = {
    "unknown key": ({"rotary_dim": 8}, "rotary_dim = 8 has no rule"),
    "misspelt key": ({"n_heads": 4}, "n_heads = 4 has no rule.*Did you mean n_head?"),
    "another mathematics": ({"scale_attn_by_inverse_layer_idx": True}, "only scale_attn_by_inverse_layer_idx = False"),
    "cross-attention": ({"add_cross_attention": True}, "only add_cross_attention = False"),
    "unknown activation": ({"activation_function": "mish"}, "activation_function = 'mish' is none of 'gelu_new'"),
    "a list as activation": ({"activation_function": ["gelu"]}, "is none of 'gelu_new'"),
    "heads that do not divide": ({"n_head": 3}, "H = 3 does not divide d_e = 8"),
    "text for a number": ({"n_layer": "2"}, "L = '2' must be a whole number"),
    "another 1 for true": ({"scale_attn_weights": 1}, "scale_attn_weights = 1 is none of True, False"),
    "1 for true": ({"tie_word_embeddings": 1}, "tied = 1 must be true or false"),
    "other family": ({"model_type": "bloom"}, "model_type = 'bloom' is none .*read: gpt2, gpt_neo, llama"),
    "a list as family": ({"model_type": ["gpt2"]}, "model_type"),
    "absurdly deep": ({"n_layer": 10**12}, "its config describes 1000000000000 layers"),
    "absurdly wide": ({"vocab_size": 10**12}, r"W_e.weight needs \(1000000000000, 8\)"),
}  # fmt: skip


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_wrong_config(folder, kind):
    """A key that nobody has thought about, a value that we do not compute, impossible sizes: one line, no guess."""
    changes, message = CONFIGS[kind]
    edit(folder, **changes)

    with pytest.raises(CheckpointError, match=message):
        load(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no config.json"),
        ("", "not JSON"),
        ("[]", "no JSON object"),
        ("{}", "model_type = None"),
        ('{"a": 1, "a": 2}', "a occurs twice"),
    ],
)
def test_no_model(folder, content, message):
    """A folder without a config.json that says what it is holds no model."""
    (folder / "config.json").unlink()
    if content is not None:
        (folder / "config.json").write_text(content)

    with pytest.raises(CheckpointError, match=message):
        load(folder)


def test_no_folder(tmp_path):
    """A path that is no folder, and a folder without parameters, say so."""
    with pytest.raises(CheckpointError, match="nowhere does not exist"):
        load(tmp_path / "nowhere")
    save(tmp_path, model(config()))
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has no model.safetensors"):
        load(tmp_path)


@pytest.mark.parametrize("positions", ["sinusoid", "rotary", "none"])
def test_an_absurd_size_takes_no_memory(tmp_path, positions):
    """A config.json that asks for 10^12 numbers per token is refused by comparing it with the file, not by trying."""
    save(tmp_path, model(config(positions=positions)))
    edit(tmp_path, d_e=10**12, d_attn=10**12, ell_max=10**12)

    with pytest.raises(
        CheckpointError, match=r"W_e.weight has shape \(11, 8\); W_e.weight needs \(11, 1000000000000\)"
    ):
        load(tmp_path)


def test_our_own_format_knows_its_keys(tmp_path):
    """In our own format a foreign key is an error that says what the paper calls it."""
    save(tmp_path, model(config(mlp="gated")))
    edit(tmp_path, hidden_size=8)

    with pytest.raises(CheckpointError, match="hidden_size = 8 has no rule"):
        load(tmp_path)


ONLY = [("mlp", "plain"), ("mlp", "gated"), ("tied", True), ("tied", False)]


@pytest.mark.parametrize("form", READABLE, ids=lambda form: form.model_type)
def test_tables_name_nothing_twice(form):
    """No key, no tensor of theirs and none of ours has two rules."""
    for names in (
        [name for k in form.keys for name in ([k.theirs] if isinstance(k, Key) else k.theirs)],
        [k.ours for k in form.keys if isinstance(k, Key)],
        [r.theirs for r in form.weights],
        *([name for r in form.weights if r.only in (None, only) for name in r.at(0)[1]] for only in ONLY),
    ):
        assert sorted(set(names)) == sorted(names)
    assert not {str(k.theirs) for k in form.keys} & (set(form.required) | form.harmless)


@pytest.mark.parametrize("form", READABLE, ids=lambda form: form.model_type)
def test_operations_are_reversible(form):
    """Loading what was saved gives the same tensor, and the shape that is stored is the one that is foretold."""
    c = config(H=2)
    for operation in {operation for rule in form.weights for operation in rule.operations}:
        vector = type(operation).__name__ in ("Row", "Buckets")
        tensor = torch.randn(64) if vector else torch.randn(c.H * c.d_attn, 3)
        stored = operation.save(tensor, c)

        assert tensor.tolist() == operation.load(stored, c).tolist()
        assert operation.shape(tuple(tensor.shape)) == tuple(stored.shape)


def test_a_failed_save_leaves_the_old_folder(folder, monkeypatch):
    """When the disk is full the old checkpoint is whole, and no temporary file stays."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformulary.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(folder, model(config(), seed=1))

    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}


def with_tokenizer(folder, text, N_V=11):
    tokenizer = Tokenizer.train("characters", [text])
    save(folder, model(config(N_V=N_V)), tokenizer)
    return tokenizer


def test_the_tokenizer_of_another_model_is_refused(tmp_path):
    """Two vocabularies of the same size: with the wrong one every id would mean something else."""
    tokenizer, other = with_tokenizer(tmp_path, "abcd"), Tokenizer.train("characters", ["efgh"])
    assert tokenizer.hash == load(tmp_path).tokenizer.hash
    other.save(tmp_path)

    with pytest.raises(CheckpointError, match=r"tokenizer.json is that of another vocabulary"):
        load(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer.json is missing"):
        load(tmp_path)


def test_a_tokenizer_where_there_was_none_is_refused(folder):
    """A model that was saved without a tokenizer does not take the one that somebody put beside it."""
    Tokenizer.train("characters", ["abcd"]).save(folder)

    with pytest.raises(CheckpointError, match=r"tokenizer.json is that of another vocabulary"):
        load(folder)


def test_a_tokenizer_that_is_too_large_is_refused(tmp_path):
    """Ids beyond the model's vocabulary would have no vector; a vocabulary padded on the model's side is fine."""
    with_tokenizer(tmp_path / "padded", "abc", N_V=11)
    with_tokenizer(tmp_path / "small", "abcdefghijklm", N_V=11)

    assert load(tmp_path / "padded").tokenizer.N_V == 6
    with pytest.raises(CheckpointError, match=r"N_V = 16 tokens, the model only N_V = 11"):
        load(tmp_path / "small")
