"""generation_config.json: how a model is to generate where its user does not say.

The names are those of the `transformers` library; `null` says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any

from transformulary.errors import CheckpointError, ConfigError
from transformulary.paper.practice import Beam, Filters, Frame

#: What is obeyed, and of which types it may be.
OBEYED: dict[str, tuple[type, ...]] = {
    "temperature": (int, float),
    "top_k": (int,),
    "top_p": (int, float),
    "do_sample": (bool,),  # false: temperature 0
    "max_new_tokens": (int,),
    "eos_token_id": (int, list),
}
#: What changes the text in ways that Algorithm 14 does not have, and the only value that we compute.
REQUIRED: dict[str, Any] = {
    "bad_words_ids": None, "begin_suppress_tokens": None, "constraints": None, "diversity_penalty": 0,
    "dola_layers": None,
    "encoder_no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1, "epsilon_cutoff": 0, "eta_cutoff": 0,
    "exponential_decay_length_penalty": None, "force_words_ids": None, "forced_bos_token_id": None,
    "forced_eos_token_id": None, "guidance_scale": 1, "max_time": None, "min_length": 0, "min_new_tokens": 0,
    "min_p": 0,
    "no_repeat_ngram_size": 0, "num_beam_groups": 1, "num_beams": 1, "num_return_sequences": 1, "penalty_alpha": 0,
    "remove_invalid_values": False, "repetition_penalty": 1, "sequence_bias": None, "stop_strings": None,
    "suppress_tokens": None, "token_healing": False, "top_h": None, "typical_p": 1, "watermarking_config": None,
}  # fmt: skip
#: What changes no probability: speed, memory, beams alone, tokens that others than us add, what is handed back.
#: (max_length counts the prompt too, and is not how long a text may be here.)
HARMLESS = frozenset({
    "_from_model_config", "assistant_confidence_threshold", "assistant_early_exit", "assistant_ensemble_weight",
    "assistant_lookbehind", "bos_token_id", "cache_config", "cache_implementation", "compile_config",
    "continuous_batching_config", "decoder_start_token_id", "disable_compile", "early_stopping", "is_assistant",
    "length_penalty", "low_memory", "max_cache_len", "max_length", "max_matching_ngram_size", "num_assistant_tokens",
    "num_assistant_tokens_schedule", "output_attentions", "output_hidden_states", "output_logits", "output_scores",
    "pad_token_id", "prefill_chunk_size", "prompt_lookup_num_tokens", "renormalize_logits", "return_dict_in_generate",
    "speculation_type", "target_lookbehind", "transformers_version", "use_cache", "use_mtp",
})  # fmt: skip
#: What Algorithm 15 obeys besides.
OBEYED_15: dict[str, tuple[type, ...]] = OBEYED | {
    "num_beams": (int,),
    "length_penalty": (int, float),
    "early_stopping": (bool, str),
    "renormalize_logits": (bool,),
    "max_length": (int,),  # of what is generated, with the token that begins it
    "decoder_start_token_id": (int,),
    "bos_token_id": (int,),  # begins it where nothing else is said to
    "forced_bos_token_id": (int,),
    "forced_eos_token_id": (int, list),
    "bad_words_ids": (list,),
    "suppress_tokens": (list,),
    "min_length": (int,),  # with the token that begins it
    "min_new_tokens": (int,),
    "no_repeat_ngram_size": (int,),
}
#: early_stopping -> when beam search ends.
UNTIL = {False: "likely", True: "full", "never": "certain"}


@dataclass(frozen=True)
class Defaults:
    """What a generation_config.json says.

    filters   its temperature, top_k and top_p
    ell_gen   how many tokens to generate at most; None if it does not say
    eos       the ids that end a text; None if it does not say
    """

    filters: Filters
    ell_gen: int | None
    eos: list[int] | None

    @classmethod
    def read(cls, theirs: Mapping[str, Any], N_V: int, where: object = "generation_config.json") -> Defaults:
        """The defaults in the content of a generation_config.json, of a model with N_V tokens.

        Raises CheckpointError, naming `where` and the key: nobody knows it, its value is of the wrong type or out of
        range, or changes the text in a way that we do not compute.
        """
        said = _said(theirs, where, OBEYED)
        tau = 0 if said.get("do_sample") is False else said.get("temperature", 1.0)
        ell_gen = said.get("max_new_tokens")
        if ell_gen is not None and ell_gen < 0:
            raise CheckpointError(f"{where}: max_new_tokens = {ell_gen} is negative.")
        with _blamed_on(where):
            filters = Filters(tau=tau, top_k=said.get("top_k", 0), top_p=said.get("top_p", 1.0))
        return cls(filters, ell_gen, _ends(said.get("eos_token_id"), N_V, where))


@dataclass(frozen=True)
class AnswerDefaults:
    """How an encoder-decoder is to answer where its user does not say.

    filters  temperature, top_k and top_p, where it draws
    draws    whether it does (do_sample)
    beam     how it searches otherwise; a beam of one is greedy
    ell_gen  how many tokens to generate at most, after the one that begins; None if nothing says it
    frame    what begins and ends an answer, and which tokens it may have
    """

    filters: Filters
    draws: bool
    beam: Beam
    ell_gen: int | None
    frame: Frame

    @classmethod
    def read(
        cls,
        generation: Mapping[str, Any],
        config: Mapping[str, Any],
        ends: tuple[int | None, int | None],
        N_V: int,
        folder: object = "",
    ) -> AnswerDefaults:
        """The defaults that the content of generation_config.json says; where there is none, that of config.json.

        As in `transformers`, of a config.json beside a generation_config.json only decoder_start_token_id counts.

        Args:
            generation, config: the content of the two files.
            ends: bos_token and eos_token of the vocabulary, where the files say none.
            N_V: the tokens of the model.
            folder: named in errors.

        Raises CheckpointError as `Defaults.read` does; where nothing says which token begins an answer; for several
        tokens where only one can be; for a word to be suppressed that has several tokens.
        """
        where = f"{folder}/{'generation_config.json' if generation else 'config.json'}".removeprefix("/")
        theirs = generation or {key: config[key] for key in config.keys() & (OBEYED_15.keys() | REQUIRED.keys())}
        said = _said(theirs, where, OBEYED_15)
        if not generation and config.get("force_bos_token_to_be_generated"):  # older BARTs' word for it
            said.setdefault("forced_bos_token_id", said.get("bos_token_id"))
        longest = said["max_length"] - 1 if "max_length" in said else None
        ell_gen = said.get("max_new_tokens", longest)
        if ell_gen is not None and ell_gen < 1:
            raise CheckpointError(f"{where}: with that max_new_tokens or max_length no token is generated.")
        if said.get("early_stopping", False) not in UNTIL:
            raise CheckpointError(f"{where}: early_stopping = {said['early_stopping']!r} is none of {[*UNTIL]}.")
        with _blamed_on(where):
            beam = Beam(
                N_beam=said.get("num_beams", 1),
                alpha=said.get("length_penalty", 1.0),
                until=UNTIL[said.get("early_stopping", False)],
            )
            filters = Filters(
                tau=said.get("temperature", 1.0), top_k=said.get("top_k", 0), top_p=said.get("top_p", 1.0)
            )
        draws = said.get("do_sample", False)
        if draws and beam.N_beam > 1:
            raise CheckpointError(f"{where}: do_sample with num_beams = {beam.N_beam}: either is computed, not both.")
        begins = config.get("decoder_start_token_id"), said.get("bos_token_id"), ends[0]
        said.setdefault("decoder_start_token_id", next((i for i in begins if i is not None), None))
        return cls(filters, draws, beam, ell_gen, _frame(said, ends[1], N_V, where))


def _frame(said: dict[str, Any], eos_token: int | None, N_V: int, where: object) -> Frame:
    one = {
        key: _one(key, said[key], N_V, where)
        for key in ("decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id")
        if said.get(key) is not None
    }
    if "decoder_start_token_id" not in one:
        raise CheckpointError(f"{where} has no decoder_start_token_id, and nothing else says what begins an answer.")
    eos = _ends(said.get("eos_token_id", eos_token), N_V, where) or []
    words = [word for word in said.get("bad_words_ids", []) if word not in [[i] for i in eos]]  # which never bans eos
    if several := [word for word in words if not isinstance(word, list) or len(word) != 1]:
        raise CheckpointError(f"{where}: bad_words_ids has {several[0]!r}, and only words of one token are suppressed.")
    banned = _ids("bad_words_ids", [word[0] for word in words], N_V, where)
    banned += _ids("suppress_tokens", said.get("suppress_tokens", []), N_V, where)
    if {*range(N_V)} <= {*banned}:
        raise CheckpointError(f"{where}: bad_words_ids and suppress_tokens leave none of the {N_V} tokens.")
    for key in ("min_length", "min_new_tokens", "no_repeat_ngram_size"):
        if said.get(key, 0) < 0:
            raise CheckpointError(f"{where}: {key} = {said[key]} is negative; 0 is off.")
    return Frame(
        bos_token=one["decoder_start_token_id"],
        eos=tuple(eos),
        first=one.get("forced_bos_token_id"),
        last=one.get("forced_eos_token_id"),
        banned=tuple(banned),
        least=max(0, said.get("min_length", 0) - 1, said.get("min_new_tokens", 0)),
        no_repeat=said.get("no_repeat_ngram_size", 0),
        renormalised=said.get("renormalize_logits", False),
    )


def _one(key: str, given: Any, N_V: int, where: object) -> int:
    ids = _ids(key, given if isinstance(given, list) else [given], N_V, where)
    if len(ids) != 1:
        raise CheckpointError(f"{where}: {key} = {given!r}, and only one token can be it.")
    return ids[0]


@contextmanager
def _blamed_on(where: object) -> Iterator[None]:
    """What is wrong inside is said of the file."""
    try:
        yield
    except ConfigError as error:
        raise CheckpointError(f"{where}: {error}") from None


def _said(theirs: Mapping[str, Any], where: object, obeyed: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
    """The keys that say something, each checked."""
    said = {key: value for key, value in theirs.items() if value is not None}
    for key, value in said.items():
        _check(key, value, where, obeyed)
    return said


def _check(key: str, value: Any, where: object, obeyed: Mapping[str, tuple[type, ...]]) -> None:
    if key in REQUIRED and key not in obeyed:
        if value != REQUIRED[key]:
            raise CheckpointError(
                f"{where}: {key} = {value!r} changes what is generated in a way that is not computed here; "
                f"only {key} = {REQUIRED[key]!r} is. Take the key out to generate without it."
            )
    elif key in obeyed:
        kinds = obeyed[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise CheckpointError(f"{where}: {key} = {value!r} is no {' or '.join(kind.__name__ for kind in kinds)}.")
        if isinstance(value, float) and not isfinite(value):
            raise CheckpointError(f"{where}: {key} = {value!r} is no finite number.")
    elif key not in HARMLESS:
        near = get_close_matches(key, [*obeyed, *REQUIRED, *HARMLESS], 1)
        hint = f"Did you mean {near[0]}?" if near else "Take it out if it changes nothing that matters."
        raise CheckpointError(f"{where} has {key!r}, for which there is no rule: it may change the text. {hint}")


def _ends(eos: Any, N_V: int, where: object) -> list[int] | None:
    if eos is None:
        return None
    return _ids("eos_token_id", eos if isinstance(eos, list) else [eos], N_V, where)


def _ids(key: str, ids: list[Any], N_V: int, where: object) -> list[int]:
    for i in ids:
        if type(i) is not int or not 0 <= i < N_V:
            raise CheckpointError(
                f"{where}: {key} {i!r} is no token of the model: ids are whole numbers in [0, N_V) = [0, {N_V})."
            )
    return ids
