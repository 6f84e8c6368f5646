"""The site, made once."""

import pytest
from website.build import build

from pages.made import ALL, SOME


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the site; nobody changes it."""
    folder = tmp_path_factory.mktemp("site")
    build(folder, lambda page: ALL or page.address in SOME)
    return folder
