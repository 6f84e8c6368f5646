"""What holds in every test.

Shapes in signatures are checked: the fast models are imported through jaxtyping and beartype.  Property
tests draw the same examples in every run, so that a failure is a failure everywhere.
"""

from hypothesis import settings
from jaxtyping import install_import_hook

install_import_hook("transformulary.nn", "beartype.beartype")
settings.register_profile("usual", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("usual")
