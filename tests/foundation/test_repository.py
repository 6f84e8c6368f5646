"""What the repository holds and does not hold."""

import hashlib
import re
import tomllib

import yaml

import transformulary
from foundation.repository import ROOT, name, tracked

#: Written in pieces, so that this file does not match itself.
A_PATH = re.compile("/" + "(?:work|root|home|Users)/|[A-Z]:" + r"\\Users")
A_PROMISE = re.compile(r"\b(?:TO" + "DO|FIX" + r"ME|XX" + "X|HA" + r"CK)\b")

#: sha256 of its words, one blank between them.
LICENCE = "0ffddef9e48f8a09aed5caf2d44f7ba1c1be2d9b8e0a6f693b1635b2d5566645"


def lines_matching(pattern: re.Pattern[str]) -> list[str]:
    """`file:line` for every line of every text file that matches."""
    texts = ((path, path.read_text(encoding="utf-8", errors="replace").splitlines()) for path in tracked())
    return [f"{name(path)}:{n}" for path, lines in texts for n, line in enumerate(lines, 1) if pattern.search(line)]


def test_no_path_of_a_machine():
    """Nothing in the repository depends on where somebody keeps files."""
    assert lines_matching(A_PATH) == []


def test_no_promises():
    """What is not done is an issue, not a comment."""
    assert lines_matching(A_PROMISE) == []


def test_nothing_large():
    """Weights, data and texts of others are fetched, never committed."""
    assert [name(path) for path in tracked() if path.stat().st_size > 300_000] == []


def test_the_licence_is_apache_2():
    """LICENSE is the text of the Apache License 2.0, unchanged."""
    text = " ".join((ROOT / "LICENSE").read_text(encoding="utf-8").split())

    assert hashlib.sha256(text.encode()).hexdigest() == LICENCE


def test_citation():
    """CITATION.cff is valid YAML and names this version and the paper."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

    assert {"cff-version", "message", "title", "authors", "version", "license"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (transformulary.__version__, "Apache-2.0")
    assert "2207.09238" in str(citation["references"])


def test_the_changelog_begins_with_this_version():
    """The newest entry of CHANGELOG.md is the version of the package."""
    versions = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert versions[0] == transformulary.__version__


def test_the_floor_is_what_is_promised():
    """constraints-floor.txt, which `make floor` tests, pins the lowest versions that pyproject.toml admits."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = project["dependencies"] + [line for lines in project["optional-dependencies"].values() for line in lines]
    pins = re.findall(r"^(\w+)==(\S+)$", (ROOT / "constraints-floor.txt").read_text(encoding="utf-8"), re.MULTILINE)

    promised = {package: f"{lowest}.0".split(".")[:3] for package, lowest in (line.split(">=") for line in asked)}

    assert "torch" in dict(pins)
    assert {package: promised[package] for package, _ in pins} == {package: v.split(".") for package, v in pins}


def test_every_dependency_is_pinned():
    """constraints.txt pins every package that pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = project["dependencies"] + [line for lines in project["optional-dependencies"].values() for line in lines]
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()

    pinned = {line.partition("==")[0].lower() for line in constraints}

    assert {line.partition(">=")[0].lower() for line in asked} - pinned == set()
