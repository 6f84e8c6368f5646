"""A real browser for the pages of attention."""

import pytest

import needs
from view.chromium import Chromium, Page


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all the tests of this folder."""
    browser = Chromium(needs.chromium(), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def page(browser):
    """A tab, which must have complained of nothing in the end."""
    page = Page(browser)
    yield page
    complaints = page.complaints()
    page.close()
    assert [] == complaints
