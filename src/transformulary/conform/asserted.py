"""`conform` as an assertion."""

from __future__ import annotations

from typing import Any

from transformulary.conform.report import Report
from transformulary.conform.run import conform
from transformulary.errors import UserError


def assert_conforms(candidate: Any, against: Any, **options: Any) -> Report:
    """Raise AssertionError, unless `conform` finds that everything seen agrees.

    It says the answer, whose first line is all that a summary of tests shows, then what was compared.  Raises
    UserError, without what led to it, as `conform` does.
    """
    __tracebackhide__ = True
    try:
        report = conform(candidate, against, **options)
    except UserError as error:
        raise error.with_traceback(None) from None
    if not report.agrees:
        raise AssertionError(report.text(answer_first=True))
    return report
