"""Time and memory of `trace` and `conform` on checkpoints of a real size, with random weights.

    python bench/size.py [gpt2 llama-1.1b llama-8b] [--tokens 64] [--folder DIR]

Prints a row for each: seconds on the clock, seconds of processor time, the most memory of its own (sampled), and the
most that was resident, which counts the pages of mapped files that the system may drop, beside the size of the
checkpoint and of one layer in float64.  The checkpoints are written to DIR and stay there: 0.5, 2.2 and 16 GB.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

GPT2 = {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12,
        "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "tie_word_embeddings": True}  # fmt: skip
LLAMA = {"model_type": "llama", "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "silu",
         "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False}  # fmt: skip
SHAPES = {
    "gpt2": GPT2,
    "llama-1.1b": LLAMA | {"vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 5632,
                           "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4},
    "llama-8b": LLAMA | {"vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
                         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8},
}  # fmt: skip
#: What is run: GPT-2 is compared with transformers' own, every line and decoding; the others are traced.
VERBS = {"gpt2": ["conform", "transformers", "--against"]}


def shapes_of(c):
    """{tensor name: shape} of the top of the model and, by layer, of each layer, as published."""
    if c["model_type"] == "gpt2":
        d = c["n_embd"]
        norms = {f"{n}.{k}": (d,) for n in ("ln_1", "ln_2") for k in ("weight", "bias")}
        layer = norms | {"attn.c_attn.weight": (d, 3 * d), "attn.c_attn.bias": (3 * d,), "attn.c_proj.weight": (d, d),
                         "attn.c_proj.bias": (d,), "mlp.c_fc.weight": (d, 4 * d), "mlp.c_fc.bias": (4 * d,),
                         "mlp.c_proj.weight": (4 * d, d), "mlp.c_proj.bias": (d,)}  # fmt: skip
        top = {"transformer.wte.weight": (c["vocab_size"], d), "transformer.wpe.weight": (c["n_positions"], d),
               "transformer.ln_f.weight": (d,), "transformer.ln_f.bias": (d,)}  # fmt: skip
        return top, [{f"transformer.h.{l}.{n}": s for n, s in layer.items()} for l in range(c["n_layer"])]
    d, m, V = c["hidden_size"], c["intermediate_size"], c["vocab_size"]
    kv = d // c["num_attention_heads"] * c["num_key_value_heads"]
    layer = {"input_layernorm.weight": (d,), "post_attention_layernorm.weight": (d,),
             "self_attn.q_proj.weight": (d, d), "self_attn.k_proj.weight": (kv, d), "self_attn.v_proj.weight": (kv, d),
             "self_attn.o_proj.weight": (d, d), "mlp.gate_proj.weight": (m, d), "mlp.up_proj.weight": (m, d),
             "mlp.down_proj.weight": (d, m)}  # fmt: skip
    top = {"model.embed_tokens.weight": (V, d), "model.norm.weight": (d,), "lm_head.weight": (V, d)}
    return top, [{f"model.layers.{l}.{n}": s for n, s in layer.items()} for l in range(c["num_hidden_layers"])]


def write(folder, config):
    """The checkpoint, in shards of one layer; random with deviation 0.02, in float32 (GPT-2) or bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    dtype = torch.float32 if config["model_type"] == "gpt2" else torch.bfloat16
    top, layers = shapes_of(config)
    index = {}
    for k, shard in enumerate((top, *layers)):
        tensors = {}
        for name, shape in shard.items():
            values = torch.empty(shape, dtype=dtype).normal_(0, 0.02, generator=generator)
            tensors[name] = values + ("ln_" in name or "norm" in name) * (not name.endswith("bias"))
        file = f"model-{k + 1:05}-of-{len(layers) + 1:05}.safetensors"
        save_file(tensors, folder / file, {"format": "pt"})
        index |= dict.fromkeys(tensors, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    (folder / "config.json").write_text(json.dumps(config))  # last: with it the folder counts as complete


def measured(command):
    """(seconds, processor seconds, most memory of its own and most resident memory in GB) of one process."""
    start, own, ended = time.perf_counter(), 0, 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not ended:
        own = max(own, anonymous(process.pid))
        time.sleep(0.05)
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
    if status:
        raise SystemExit(f"{' '.join(command)} failed with {status}")
    gigabytes = (own * 1024 / 1e9, used.ru_maxrss * 1024 / 1e9)
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, *gigabytes


def anonymous(process):
    """The resident memory of a process that is in no file, in KiB; 0 where it has ended."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)


def main():
    """Write what is lacking, run, and print a row of Markdown for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=["gpt2", "llama-1.1b"])
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "transformulary-size")
    args = parser.parse_args()
    if unknown := set(args.names) - set(SHAPES):
        parser.error(f"no shape {', '.join(unknown)}: choose from {', '.join(SHAPES)}")
    columns = ("command", "tokens", "checkpoint", "one layer in float64", "clock", "processor", "memory", "resident")
    print("|", " | ".join(columns), "|")
    print("|---" * len(columns) + "|")
    for name in args.names:
        folder, config = args.folder / name, SHAPES[name]
        if not (folder / "config.json").exists():
            write(folder, config)
        ids = ",".join(str((7 * t * t + 3 * t + 1) % config["vocab_size"]) for t in range(args.tokens))
        with tempfile.TemporaryDirectory() as out:
            verb = VERBS.get(name, ["trace"])
            extra = ["--out", f"{out}/values"] if verb == ["trace"] else []
            command = [sys.executable, "-m", "transformulary", *verb, str(folder), "--tokens", ids, *extra]
            clock, processor, own, resident = measured(command)
        stored = sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e9
        layer = 8 * sum(int(np.prod(shape)) for shape in shapes_of(config)[1][0].values()) / 1e9
        sizes = f"{stored:.1f} GB | {layer:.2f} GB | {clock:.0f} s | {processor:.0f} s"
        print(f"| `{verb[0]}` {name} | {args.tokens} | {sizes} | {own:.1f} GB | {resident:.1f} GB |", flush=True)


if __name__ == "__main__":
    main()
