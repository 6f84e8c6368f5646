"""The public names."""

import importlib
import pkgutil
from types import ModuleType

import pytest

import transformulary

PACKAGES = [m.name for m in pkgutil.iter_modules(transformulary.__path__) if m.ispkg and m.name != "cli"]


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_exactly_what_is_exported(name):
    """`__all__` of a package lists every public name that can be imported from it, and nothing else."""
    package = importlib.import_module(f"transformulary.{name}")

    names = {key for key, value in vars(package).items() if not key.startswith("_")}
    exported = {key for key in names if not isinstance(vars(package)[key], ModuleType)}

    assert exported == set(getattr(package, "__all__", ()))


def test_the_lazy_names_are_the_listed_ones():
    """Every name of `transformulary.__all__` can be had from the package, and `dir` shows it."""
    for name in transformulary.__all__:
        assert getattr(transformulary, name) is not None
        assert name in dir(transformulary)


def test_an_unknown_name_says_so():
    """A name that does not exist is an AttributeError, as for every module."""
    with pytest.raises(AttributeError, match="module 'transformulary' has no attribute 'laod'"):
        transformulary.laod  # noqa: B018
