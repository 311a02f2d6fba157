"""A report as JUnit XML, which CI systems show: a test case for each requirement."""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from statestores_conformance.report.model import Report, Status

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(report: Report) -> str:
    """Return *report* as an XML document."""
    problems = len(report.problems) + report.count(Status.TIMED_OUT)
    suite = Element(
        "testsuite",
        name=f"statestores conformance: {report.backend}",
        tests=str(len(report.requirements) + len(report.problems)),
        failures=str(report.count(Status.FAILED)),
        errors=str(problems),
        skipped=str(report.count(Status.NOT_PROMISED) + report.count(Status.NOT_RUN)),
        time=f"{report.seconds:.1f}",
    )
    properties = SubElement(suite, "properties")
    for name, value in (
        ("level", report.level or "none"),
        ("seed", str(report.seed)),
        ("profile", report.profile),
        ("spec_version", str(report.spec_version)),
    ):
        SubElement(properties, "property", name=name, value=value)
    details = {failure.test: failure for failure in report.failures}
    for row in report.requirements:
        case = SubElement(
            suite,
            "testcase",
            classname=f"{report.backend}.{row.level}",
            name=f"{row.id} {row.text}",
        )
        if row.status is Status.FAILED:
            failure = SubElement(case, "failure", message=_clean(row.reason))
            failure.text = _clean(
                "\n\n".join(
                    f"{test}\n{details[test].step}\n{details[test].reason}\n{details[test].detail}"
                    for test in row.failures
                )
            )
        elif row.status is Status.TIMED_OUT:
            SubElement(case, "error", message=f"{row.status}: {_clean(row.reason)}")
        elif row.status is not Status.PROVED:
            SubElement(case, "skipped", message=f"{row.status}: {_clean(row.reason)}")
    for problem in report.problems:
        case = SubElement(suite, "testcase", classname=report.backend, name="the run itself")
        SubElement(case, "error", message=_clean(problem))
    indent(suite)
    return tostring(suite, encoding="unicode", xml_declaration=False) + "\n"


def _clean(text: str) -> str:
    """Return *text* without the characters that XML does not allow."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
