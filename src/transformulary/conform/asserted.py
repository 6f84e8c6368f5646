"""`conform` as an assertion."""

from __future__ import annotations

from typing import Any

from transformulary.conform.report import Report
from transformulary.conform.run import conform


def assert_conforms(candidate: Any, against: Any, **options: Any) -> Report:
    """Raise AssertionError, unless `conform` finds that everything seen agrees.

    Its first line is the first sentence of the answer, which is all that a summary of tests shows; then the report.
    """
    __tracebackhide__ = True
    report = conform(candidate, against, **options)
    if not report.agrees:
        raise AssertionError(f"{report.answer[0]}\n\n{report}")
    return report
