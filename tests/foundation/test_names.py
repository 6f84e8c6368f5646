"""The public names."""

import importlib
import pkgutil
from types import ModuleType

import pytest

import transformulary

INNER = [module.name for module in pkgutil.iter_modules(transformulary.__path__) if module.ispkg]
#: The command line is a program: nothing imports from it.
PACKAGES = ["transformulary", *(f"transformulary.{name}" for name in INNER if name != "cli")]


def made_in(package: ModuleType) -> set[str]:
    """The public names of a package that are its own: no modules, and nothing borrowed from elsewhere."""
    values = {name: getattr(package, name) for name in dir(package) if not name.startswith("_")}
    own = package.__name__
    return {
        name
        for name, value in values.items()
        if not isinstance(value, ModuleType) and (getattr(value, "__module__", own) or own).startswith(own)
    }


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_exactly_what_is_exported(name):
    """`__all__` of a package lists every public name of its own, and every name in it can be imported."""
    package = importlib.import_module(name)
    listed = set(getattr(package, "__all__", ()))

    assert (made_in(package) - listed, listed - set(dir(package))) == (set(), set())


def test_the_lazy_names_are_the_listed_ones():
    """Every name of `transformulary.__all__` can be had from the package, and `dir` shows it."""
    for name in transformulary.__all__:
        assert getattr(transformulary, name) is not None
        assert name in dir(transformulary)


def test_an_unknown_name_says_so():
    """A name that does not exist is an AttributeError, as for every module."""
    with pytest.raises(AttributeError, match="module 'transformulary' has no attribute 'laod'"):
        transformulary.laod  # noqa: B018
