"""The Hugging Face cache, read without network, and the hub that fills it, asked only where the name says so."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from transformulary.errors import CheckpointError, require

#: What a name begins with that may be downloaded: `hf://org/name`, or a version of it, `hf://org/name@v1.0`.
SCHEME = "hf://"


def cached(name: str) -> Path:
    """The folder of a model in the Hugging Face cache; HF_HUB_CACHE and HF_HOME say where that is.

    Raises CheckpointError: it is no such name, or the cache does not have it.
    """
    cache = _cache()
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name, re.ASCII) or ".." in name:
        raise CheckpointError(f"{name} does not exist, and is no name of a model either (org/name).")
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshots = sorted(repository.glob("snapshots/*"))
    main = repository / "refs" / "main"
    if main.is_file():
        commit = main.read_text(encoding="utf-8", errors="replace").strip()
        snapshots = [path for path in snapshots if path.name == commit]
    if not snapshots:
        raise CheckpointError(
            f"{name} does not exist, and the cache {cache} has no such model. Nothing is downloaded unless you say "
            f"{SCHEME}{name}"
        )
    if len(snapshots) > 1:
        raise CheckpointError(f"{repository} has {len(snapshots)} versions: give the path of one of its snapshots.")
    return snapshots[0]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{home}/huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()


def download(url: str, beside: re.Pattern[str], parameters: Sequence[str]) -> Path:
    """The folder in the cache into which a model of the hub has been downloaded; what is there already stays.

    Args:
        url: hf://org/name, or hf://org/name@version.
        beside: the names of the files that are wanted besides config.json.
        parameters: how its parameters may be called, the preferred first; only those are fetched, and no others.

    Raises:
        CheckpointError: the hub cannot be reached, does not have it, or lets only others have it.
        MissingExtra: huggingface_hub is not installed.
    """
    require("huggingface_hub", "hub", f"downloading {url}")
    import huggingface_hub

    name, _, version = url.removeprefix(SCHEME).partition("@")
    try:
        known = huggingface_hub.HfApi().model_info(name, revision=version or None, timeout=10).siblings or []
        wanted = list(needed((file.rfilename for file in known), beside, parameters))
        folder = huggingface_hub.snapshot_download(
            name, revision=version or None, cache_dir=_cache(), allow_patterns=wanted
        )
    except Exception as error:  # no such name, a refusal, no network: the classes change with the library's versions
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(
            f"{url} cannot be downloaded ({type(error).__name__}: {first}). What was downloaded before is found by "
            f"{name}, without {SCHEME}, and without network."
        ) from None
    return Path(folder)


def needed(files: Iterable[str], beside: re.Pattern[str], parameters: Iterable[str]) -> Iterable[str]:
    """Of all files of a repository: config, vocabulary, and its parameters in one form only, whole or in shards."""
    files = set(files)
    yield from sorted(file for file in files if file == "config.json" or beside.fullmatch(file))
    for name in parameters:
        stem, _, kind = name.rpartition(".")
        form = re.compile(rf"{re.escape(stem)}(-\d+-of-\d+)?\.{kind}(\.index\.json)?")
        if found := sorted(filter(form.fullmatch, files)):
            yield from found
            return
