"""generation_config.json: how a model is to generate where its user does not say.

The names are those of the `transformers` library; `null` says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from typing import Any

from transformulary.errors import CheckpointError, ConfigError
from transformulary.paper.practice import Filters

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
        said = {key: value for key, value in theirs.items() if value is not None}
        for key, value in said.items():
            _check(key, value, where)
        tau = 0 if said.get("do_sample") is False else said.get("temperature", 1.0)
        ell_gen = said.get("max_new_tokens")
        if ell_gen is not None and ell_gen < 0:
            raise CheckpointError(f"{where}: max_new_tokens = {ell_gen} is negative.")
        try:
            filters = Filters(tau=tau, top_k=said.get("top_k", 0), top_p=said.get("top_p", 1.0))
        except ConfigError as error:
            raise CheckpointError(f"{where}: {error}") from None
        return cls(filters, ell_gen, _ends(said.get("eos_token_id"), N_V, where))


def _check(key: str, value: Any, where: object) -> None:
    if key in REQUIRED:
        if value != REQUIRED[key]:
            raise CheckpointError(
                f"{where}: {key} = {value!r} changes what is generated in a way that is not computed here; "
                f"only {key} = {REQUIRED[key]!r} is. Take the key out to generate without it."
            )
    elif key in OBEYED:
        kinds = OBEYED[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise CheckpointError(f"{where}: {key} = {value!r} is no {' or '.join(kind.__name__ for kind in kinds)}.")
        if isinstance(value, float) and not isfinite(value):
            raise CheckpointError(f"{where}: {key} = {value!r} is no finite number.")
    elif key not in HARMLESS:
        near = get_close_matches(key, [*OBEYED, *REQUIRED, *HARMLESS], 1)
        hint = f"Did you mean {near[0]}?" if near else "Take it out if it changes nothing that matters."
        raise CheckpointError(f"{where} has {key!r}, for which there is no rule: it may change the text. {hint}")


def _ends(eos: Any, N_V: int, where: object) -> list[int] | None:
    if eos is None:
        return None
    ids: list[Any] = eos if isinstance(eos, list) else [eos]
    for i in ids:
        if type(i) is not int or not 0 <= i < N_V:
            raise CheckpointError(
                f"{where}: eos_token_id {i!r} is no token of the model: ids are whole numbers in [0, N_V) = [0, {N_V})."
            )
    return ids
