"""One thread per worker, shapes checked, and no silent skip on the project's own machines."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # one process per core already: before any numerical library is loaded
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")

import hypothesis
import jaxtyping
import pytest

import needs

#: The same examples in every run, so that a failure is a failure everywhere, however busy the machine is.
hypothesis.settings.register_profile("usual", deadline=None, max_examples=25, derandomize=True)
hypothesis.settings.load_profile("usual")

#: Packages whose signatures state shapes; every call in every test is checked against them.
CHECKED = [
    "transformulary.nn",
    "transformulary.data",
    "transformulary.train",
    "transformulary.generate",
    "transformulary.encode",
]

jaxtyping.install_import_hook(CHECKED, "beartype.beartype")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Where everything is installed, a skipped test is a failed one."""
    return _no_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """The same for a file that is skipped as a whole."""
    return _no_skip((yield))


def _no_skip(report):
    if report.skipped and os.environ.get("TRANSFORMULARY_CI") and needs.NO_HARDWARE not in str(report.longrepr):
        report.outcome, report.longrepr = "failed", f"skipped where nothing may be missing: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def vectors(tmp_path_factory):
    """The folder of golden vectors, written once; nobody changes it."""
    from transformulary.conform.vectors import write_vectors

    folder = tmp_path_factory.mktemp("golden") / "vectors"
    write_vectors(folder)
    return folder
