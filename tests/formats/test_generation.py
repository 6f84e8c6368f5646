"""generation_config.json: obeyed, refused, or known to change nothing."""

import pytest

from transformulary.errors import CheckpointError
from transformulary.formats import Defaults
from transformulary.formats.generation import HARMLESS, OBEYED, REQUIRED
from transformulary.paper.practice import Filters


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ({}, Defaults(Filters(), None, None)),
        (
            {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "do_sample": True, "max_new_tokens": 3, "eos_token_id": 4},
            Defaults(Filters(tau=0.7, top_k=5, top_p=0.9), 3, [4]),
        ),
        ({"do_sample": False, "temperature": 0.7}, Defaults(Filters(tau=0), None, None)),
        ({"eos_token_id": [1, 2], "top_p": 1}, Defaults(Filters(), None, [1, 2])),
        ({"eos_token_id": [], "temperature": None, "num_beams": None}, Defaults(Filters(), None, [])),
        (
            {"num_beams": 1, "typical_p": 1.0, "use_cache": True},
            Defaults(Filters(), None, None),
        ),
    ],
)
def test_what_it_says(theirs, expected):
    """What it says of line 5, of the length and of the end is obeyed; what changes nothing is read over."""
    assert expected == Defaults.read(theirs, 5)


@pytest.mark.parametrize("eos", [1.5, "x", [[1]], True, -1, 5, 99999, {}, [1, None]])
def test_what_ends_a_text_is_ids(eos):
    """An eos_token_id that is no token of the model is refused, whatever else it is."""
    with pytest.raises(CheckpointError, match=r"^g\.json: eos_token_id"):
        Defaults.read({"eos_token_id": eos}, 5, "g.json")


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        ({"temperature": "hot"}, "temperature = 'hot' is no int or float"),
        ({"temperature": True}, "temperature = True is no int or float"),
        ({"temperature": float("nan")}, "temperature = nan is no finite number"),
        ({"temperature": -1}, "temperature = -1: it must be 0"),
        ({"top_k": 1.5}, "top_k = 1.5 is no int"),
        ({"top_p": 2}, r"top_p = 2 is outside \[0, 1\]"),
        ({"do_sample": 0}, "do_sample = 0 is no bool"),
        ({"max_new_tokens": -3}, "max_new_tokens = -3 is negative"),
        ({"num_beams": 4}, "num_beams = 4 changes what is generated.*only num_beams = 1 is"),
        ({"repetition_penalty": 1.1}, "repetition_penalty = 1.1 changes"),
        ({"bad_words_ids": [[1]]}, "bad_words_ids"),
        ({"tempratur": 1}, "has 'tempratur', for which there is no rule.*Did you mean temperature?"),
        ({"zzz": 1}, "has 'zzz', for which there is no rule"),
    ],
)
def test_what_is_refused(theirs, message):
    """A wrong type, a number out of range, a decoding that we do not have, an unknown key: named, with the file."""
    with pytest.raises(CheckpointError, match=rf"^generation_config\.json.*{message}"):
        Defaults.read(theirs, 5)


def test_the_tables_know_what_the_library_writes():
    """Every field of the installed library's GenerationConfig is in exactly one of the three tables."""
    transformers = pytest.importorskip("transformers")
    known = [*OBEYED, *REQUIRED, *HARMLESS]

    assert set() == set(vars(transformers.GenerationConfig())) - set(known)
    assert len(known) == len(set(known))
