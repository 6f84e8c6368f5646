"""Shapes in signatures are checked in every test: the fast models are imported through jaxtyping and beartype."""

from jaxtyping import install_import_hook

install_import_hook("transformulary.nn", "beartype.beartype")
