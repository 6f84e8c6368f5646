"""generation_config.json: obeyed, refused, or known to change nothing."""

import pytest

from transformulary.errors import CheckpointError
from transformulary.formats import AnswerDefaults, Defaults
from transformulary.formats.generation import HARMLESS, OBEYED, OBEYED_15, REQUIRED
from transformulary.paper.practice import Beam, Filters, Frame


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


START = {"decoder_start_token_id": 7}


def said(beam=Beam(N_beam=1), ell_gen=None, filters=Filters(), draws=False, **frame):  # noqa: B008 - frozen
    """The defaults of a model whose answers begin with token 7, and end with 6, unless said."""
    return AnswerDefaults(filters, draws, beam, ell_gen, Frame(**{"bos_token": 7, "eos": (6,)} | frame))


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [
        (START, {}, said()),
        ({}, START, said()),
        ({"eos_token_id": 4}, START, said(eos=(4,))),
        ({"eos_token_id": 4}, {}, said(bos_token=5, eos=(4,))),
        ({"bos_token_id": 3}, {}, said(bos_token=3)),
        (
            {"num_beams": 6, "length_penalty": 0.5, "early_stopping": "never", "max_length": 9},
            START | {"num_beams": 2, "forced_eos_token_id": 1},
            said(Beam(N_beam=6, alpha=0.5, until="certain"), 8),
        ),
        (
            {},
            START | {"num_beams": 2, "max_length": 5, "max_new_tokens": 3, "early_stopping": True, "d_model": "other"},
            said(Beam(N_beam=2, until="full"), 3),
        ),
        (
            START | {"do_sample": True, "temperature": 2.0, "top_k": 3, "top_p": 0.5, "max_length": None},
            {},
            said(filters=Filters(tau=2.0, top_k=3, top_p=0.5), draws=True),
        ),
        (
            START | {"bad_words_ids": [[7], [6], [2]], "suppress_tokens": [1], "renormalize_logits": True},
            {},
            said(banned=(7, 2, 1), renormalised=True),
        ),
        (
            START | {"forced_bos_token_id": 0, "forced_eos_token_id": [6], "min_length": 4, "no_repeat_ngram_size": 2},
            {},
            said(first=0, last=6, least=3, no_repeat=2),
        ),
        ({}, START | {"force_bos_token_to_be_generated": True, "bos_token_id": 2}, said(first=2)),
    ],
)
def test_how_an_answer_is_made(generation, config, expected):
    """What begins, ends and restricts an answer is read from one of the two files, and from the vocabulary at last."""
    assert expected == AnswerDefaults.read(generation, config, (5, 6), 8)


@pytest.mark.parametrize(
    ("generation", "config", "message"),
    [
        ({}, {}, "m/config.json has no decoder_start_token_id"),
        ({"decoder_start_token_id": 8}, {}, "m/generation_config.json: decoder_start_token_id 8 is no token"),
        ({}, {"decoder_start_token_id": [1, 2]}, "m/config.json: decoder_start_token_id"),
        (START | {"forced_eos_token_id": [1, 2]}, {}, "m/generation_config.json: forced_eos_token_id = .* only one"),
        (START | {"bad_words_ids": [[1, 2]]}, {}, r"m/generation_config.json: bad_words_ids has \[1, 2\]"),
        (START | {"bad_words_ids": [1]}, {}, "m/generation_config.json: bad_words_ids has 1"),
        (START | {"suppress_tokens": [9]}, {}, "m/generation_config.json: suppress_tokens 9 is no token"),
        (START | {"suppress_tokens": ["a"]}, {}, "m/generation_config.json: suppress_tokens 'a' is no token"),
        (
            START | {"suppress_tokens": [*range(8)]},
            {},
            "m/generation_config.json: .* suppress_tokens leave none of .* 8",
        ),
        (START | {"no_repeat_ngram_size": -1}, {}, "m/generation_config.json: no_repeat_ngram_size = -1 is negative"),
        (START | {"num_beams": 10**9}, {}, "m/generation_config.json: N_beam = 1000000000 is outside"),
        (START | {"early_stopping": "soon"}, {}, "m/generation_config.json: early_stopping = 'soon' is none of"),
        (START | {"num_beams": 0}, {}, "m/generation_config.json: N_beam = 0"),
        (START | {"num_beams": 2, "do_sample": True}, {}, "m/generation_config.json: do_sample with num_beams = 2"),
        (START | {"max_length": 1}, {}, "m/generation_config.json: with that max_new_tokens or max_length"),
        (START | {"repetition_penalty": 2.0}, {}, "m/generation_config.json: repetition_penalty = 2.0 changes"),
        ({}, START | {"num_beam_groups": 2}, "m/config.json: num_beam_groups = 2 changes"),
        (START | {"lenth_penalty": 2.0}, {}, ".* has 'lenth_penalty'.*Did you mean length_penalty"),
    ],
)
def test_what_is_refused_of_an_answer(generation, config, message):
    """What is not computed is named, with the file that says it."""
    with pytest.raises(CheckpointError, match=f"^{message}"):
        AnswerDefaults.read(generation, config, (None, None), 8, "m")


def test_a_config_that_does_not_count():
    """As in `transformers`, a generation_config.json speaks for config.json too, which is not looked at."""
    ends = (None, None)

    assert AnswerDefaults.read(START, {"num_beam_groups": 2}, ends, 8) == AnswerDefaults.read(START, {}, ends, 8)


def test_what_is_obeyed_of_an_answer_is_known():
    """Nothing is obeyed by Algorithm 15 that the tables of Algorithm 14 do not know."""
    assert {*OBEYED_15} <= {*OBEYED, *REQUIRED, *HARMLESS}
