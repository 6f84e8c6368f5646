"""transformulary embed MODEL [TEXT...]: one vector for each text, and the cosines between them.

The vectors of a text's tokens become one as the files of sentence-transformers beside the model say; without such it is
their mean, of length 1.  Without --out it is printed, the numbers of a text on one line.

  transformulary embed MODEL --cosines "A man is eating food." "Someone eats a meal."
  transformulary embed MODEL --file texts.txt --out vectors.npy
"""

import argparse
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformulary.cli._texts import inputs_arguments, loaded_model, noted, read_inputs, shown, texts_arguments
from transformulary.errors import DataError, require
from transformulary.files import check_file, write_atomically

if TYPE_CHECKING:
    from torch import Tensor

    from transformulary.encode import Text


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    texts_arguments(parser, "a text that gets a vector")
    inputs_arguments(parser)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write FILE.npy, or FILE.safetensors (its tensor `vectors`), one row for each text (default: print them)",
    )
    shape.add_argument(
        "--cosines", action="store_true", help="the cosine of every two texts instead of the vectors (default: no)"
    )


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 done."""
    require("torch", "torch", "vectors of texts")
    from transformulary.encode import cosines, embed, embedded

    texts = read_inputs(args)
    if args.cosines:
        if len(texts) < 2:
            raise DataError("--cosines are of two texts or more, and this is one.")
        _tell_cosines(texts, cosines(embed(noted(loaded_model(args), texts), texts, args.batch)), args.json)
    elif args.out:
        write = _writer(args.out)
        vectors = embed(noted(loaded_model(args), texts), texts, args.batch)
        write_atomically(args.out, write(vectors))
        told = {"file": str(args.out), "shape": [*vectors.shape], "dtype": str(vectors.dtype).removeprefix("torch.")}
        print(json.dumps(told) if args.json else f"{args.out}: {' x '.join(map(str, told['shape']))}, {told['dtype']}")
    else:
        loaded = noted(loaded_model(args), texts)
        for text, vector in zip(texts, embedded(loaded, texts, args.batch), strict=True):
            _tell(text, vector, args.json)
    return 0


def _tell(text: "Text", vector: "Tensor", machine: bool) -> None:
    numbers = [*map(str, vector.float().numpy() if vector.itemsize < 4 else vector.numpy())]  # no digit too many
    if machine:
        print(json.dumps({"text": text, "vector": [*map(float, numbers)]}, ensure_ascii=False))
    else:
        print(*numbers)


def _tell_cosines(texts: list["Text"], cosines: "Tensor", machine: bool) -> None:
    for i, one in enumerate(texts):
        for j, other in enumerate(texts[:i]):
            cosine = float(cosines[i, j])
            if machine:
                print(json.dumps({"texts": [other, one], "cosine": cosine}, ensure_ascii=False))
            else:
                print(f"{cosine:6.3f}  {shown(other)}  {shown(one)}")


def _npy(vectors: "Tensor") -> bytes:
    import numpy as np

    file = BytesIO()
    np.save(file, vectors.float().numpy() if vectors.itemsize < 4 else vectors.numpy())
    return file.getvalue()


def _safetensors(vectors: "Tensor") -> bytes:
    from safetensors.torch import save

    return save({"vectors": vectors})


#: What a file's name can end in -> its content.
WRITERS: dict[str, Callable[[Any], bytes]] = {".npy": _npy, ".safetensors": _safetensors}


def _writer(file: Path) -> Callable[[Any], bytes]:
    """What makes the content of a file of that name.  Raises DataError: nothing does, or no file can be there."""
    if file.suffix not in WRITERS:
        raise DataError(
            f"{file} ends in {file.suffix or 'nothing'!r}, and vectors are written as {' or '.join(WRITERS)}."
        )
    check_file(file)
    return WRITERS[file.suffix]
