"""Run GGUF files by llama.cpp and hold what it computes against the oracle on the very numbers in those files.

    pip install llama-cpp-python==0.3.36 gguf     (compiles for a quarter of an hour; no dependency of the project)
    python bench/gguf_logits.py [--seeds 2] [--out docs/engines.md]

Random models of GPT-2's and Llama's kind, small and wider, are written as GGUF in several types of numbers.
llama.cpp reads each once; `conform` compares its logits, and in a second view every node of its graph that has a name
in `trace/names.py`.  The oracle's parameters are the numbers of the file, dequantised, so a difference is arithmetic.

Nobody has to believe in a tolerance.  Declared is the precision of the coarsest step that llama.cpp takes:

float32   float32 weights, with its cache in float32
float16   float16 weights; its default cache; GPT-2 always, as it looks GELU up in a table of float16
bfloat16  quantised weights: it rounds the other factor of each product to 8 bits, with one scale for 32 numbers

"Of allowed" is the part of the allowed error that was needed; allowed is, as everywhere, 8 times what the oracle itself
loses in that precision on these inputs.  Line by line, GPT-2 is allowed float16 in line 8 alone.  For quantised
weights bfloat16 is a stand-in, as coarse as 8 bits but not the same rounding: agreement there is loose, and a fault
that changes less than bfloat16 does is not seen.
"""

import argparse
import ctypes
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import llama_cpp  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

from formats.test_gguf import GPT2, LLAMA, made, write  # noqa: E402
from transformulary.conform import Candidate, conform  # noqa: E402
from transformulary.conform.reference import reference  # noqa: E402
from transformulary.files import write_atomically  # noqa: E402
from transformulary.oracle import softmax  # noqa: E402
from transformulary.trace import trace  # noqa: E402

FAMILIES = {"gpt2": GPT2, "llama": LLAMA}
SIZES = {
    "32 wide": {"N_V": 61, "ell_max": 32},
    "256 wide": {"N_V": 509, "ell_max": 64, "L": 4, "d_e": 256, "d_mlp": 768},
}
TYPES = ("F32", "F16", "Q8_0", "Q4_0")
X = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]


@dataclass(frozen=True)
class Run:
    """How llama.cpp runs; `usual` as it does by itself, else with everything in float32 that can be."""

    family: str
    size: str
    type: str
    usual: bool
    base: float = 0.0  # of the rotation; 0: what the file says

    @property
    def precision(self):
        if self.type not in ("F32", "F16"):
            return "bfloat16"
        return "float16" if self.usual or self.type == "F16" or self.family == "gpt2" else "float32"


class Tensor(ctypes.Structure):
    """The first fields of ggml's tensor."""

    _fields_ = [("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4),
                ("nb", ctypes.c_size_t * 4)]  # fmt: skip


def engine(path, run, x):
    """(logits (ell, N_V), {name of a node: array}) of one run of llama.cpp on a file."""
    nodes, base = {}, ctypes.CDLL(next(Path(llama_cpp.__file__).parent.glob("lib/libggml-base.so")))
    base.ggml_get_name.restype, base.ggml_nbytes.restype = ctypes.c_char_p, ctypes.c_size_t
    base.ggml_get_name.argtypes = base.ggml_nbytes.argtypes = [ctypes.c_void_p]
    base.ggml_backend_tensor_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]

    @llama_cpp.ggml_backend_sched_eval_callback
    def keep(address, ask, _):
        tensor = Tensor.from_address(address)
        if not ask and tensor.type == 0:  # float32
            data = np.zeros(base.ggml_nbytes(address) // 4, np.float32)
            base.ggml_backend_tensor_get(address, data.ctypes.data, 0, data.nbytes)
            shape, strides = list(tensor.ne)[::-1], list(tensor.nb)[::-1]
            array = np.lib.stride_tricks.as_strided(data, shape, strides).copy()
            while array.ndim > 2 and len(array) == 1:
                array = array[0]
            nodes[base.ggml_get_name(address).decode()] = array
        return True

    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch, params.cb_eval = 64, 1, 1, keep
    params.n_outputs_max = len(x)
    if run.base:
        params.rope_freq_base = run.base
    if not run.usual:
        params.type_k = params.type_v = 0  # float32
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = llama_cpp.llama_init_from_model(model, params)
    batch = llama_cpp.llama_batch_init(len(x), 0, 1)
    batch.n_tokens = len(x)
    for t, v in enumerate(x):
        batch.token[t], batch.pos[t], batch.n_seq_id[t], batch.seq_id[t][0], batch.logits[t] = v, t, 1, 0, True
    assert llama_cpp.llama_decode(context, batch) == 0
    N_V = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (len(x), N_V)).astype(float)
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return logits, nodes


def lines(ref, nodes, kind, x):
    """{path: value} of every node that has a name in `trace/names.py`; SystemExit if a name is no node's."""
    with tempfile.TemporaryDirectory() as folder:
        index = trace(ref.theta, ref.config, x, Path(folder) / "trace", at=["**"], about={"model_type": kind})
    named = [(v["path"], n) for v in index["values"] for n in v["names"] if n["program"] == "llama.cpp"]
    if missing := {name["name"] for _, name in named} - set(nodes):
        raise SystemExit(f"llama.cpp's graph has no {', '.join(sorted(missing))}: trace/names.py is wrong or outdated.")
    return {path: eval(f"a{name['ours']}", {"a": nodes[name["name"]]}).astype(float) for path, name in named}


def random(numbers, seed):
    """A model whose matrices keep the size of what they multiply, as trained ones do."""
    fast, generator = made(**numbers), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in fast.named_parameters():
            size = (
                parameter.shape[-1] ** -0.5 if parameter.ndim == 2 and name not in ("W_e.weight", "W_p.weight") else 0.3
            )
            centre = float("norm" in name and name.endswith("weight"))
            parameter.copy_(centre + size * torch.randn(parameter.shape, generator=generator))
    return fast


def compared(run, seed, folder):
    """[(view, report)] of one run: by its logits, and if nothing hides its nodes, by those."""
    path = folder / f"{run.family}.gguf"
    fast = random(FAMILIES[run.family] | SIZES[run.size], seed)
    write(path, fast, run.type)
    ref = reference(path)
    logits, nodes = engine(path, run, X)
    values = {"logits": {"10.11": softmax(logits.T)}}
    if not run.usual and not run.base:
        values["every line"] = lines(ref, nodes, f"gguf {run.family}", X)
    coarse = {"10.8", "10.8:GELU_tanh", "10.8:W_mlp2"} if run.family == "gpt2" else set()
    for view, seen in values.items():
        precision = run.precision
        lower = {}
        if view == "every line" and run.type == "F32":
            precision, lower = "float32", dict.fromkeys(coarse, "float16")
        yield view, conform(Candidate("llama.cpp", seen, precision, lower), ref, tokens=X)


def row(run, seeds, folder):
    """{view: cells of its row}: the worst of all seeds."""
    worst = {}
    for seed in range(seeds):
        for view, report in compared(run, seed, folder):
            line = max((r for r in report.rows if r.compared), key=lambda r: r.error / r.allowed)
            cells = (report.status, line.error / line.allowed, line, report)
            worst[view] = max(worst.get(view, cells), cells, key=lambda cells: cells[:2])
    return worst


def page(rows, seeds):
    """The table as Markdown."""
    _, _, meaning = __doc__.partition("Declared is the")
    what, _, precisions = meaning.partition(":\n\n")
    table, _, rest = precisions.partition("\n\n")
    lines = [
        "# Engines that read GGUF", "",
        f"llama.cpp (llama-cpp-python {version('llama-cpp-python')}, on the CPU) against the oracle on the numbers of",
        f"the same file, dequantised. Random models, {seeds} of each, {len(X)} tokens; a row shows the worst of them.",
        f"Written by `bench/gguf_logits.py` on {date.today()}.", "",
        "| model | type | llama.cpp | compared | precision | verdict | error | of allowed | at line |",
        f"|{'---|' * 9}",
    ]  # fmt: skip
    for run, worst in rows:
        how = f"rotation's base {run.base:.0f}" if run.base else "as it is by default" if run.usual else "float32 cache"
        for view, (status, share, line, report) in worst.items():
            verdict = report.faults[0].says if report.faults else ("agrees", "differs", "nothing can be told")[status]
            lines.append(
                f"| {run.family}, {run.size} | {run.type} | {how} | {view} | {report.precision} | {verdict} | "
                f"{line.error:.1e} | {share:.2f} | {line.line.removeprefix('10.')} |"
            )
    listed = [f"- {line[:10].strip()}: {line[10:]}" for line in table.splitlines()]
    return "\n".join([*lines, "", f"Declared is the{what}:", "", *listed, "", rest.strip(), ""])


RUNS = [
    *(Run(family, size, kind, usual=False) for family in FAMILIES for size in SIZES for kind in TYPES),
    *(Run(family, size, "F32", usual=True) for family in FAMILIES for size in SIZES),
    *(Run("llama", size, kind, usual=False, base=500000.0) for size in SIZES for kind in ("F32", "Q4_0")),
]


def main():
    """Run everything and write the page, again after every row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "engines.md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for run in RUNS:
            rows.append((run, row(run, args.seeds, Path(folder))))
            write_atomically(args.out, page(rows, args.seeds))


if __name__ == "__main__":
    main()
