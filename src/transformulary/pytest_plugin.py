"""The pytest plugin: a fixture `assert_conforms`, so that a project keeps its equality.

    def test_my_model_is_gpt2(assert_conforms):
        assert_conforms("my_model.py", against="gpt2")

Nothing heavy is imported before the fixture is used.
"""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def assert_conforms() -> Any:
    """`transformulary.assert_conforms(candidate, against, ...)`: fails with the report's answer."""
    from transformulary.conform.asserted import assert_conforms

    return assert_conforms
