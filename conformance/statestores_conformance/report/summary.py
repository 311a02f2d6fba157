"""The facts of a report that every form for people begins with."""

from statestores_conformance.report.model import Report, Status


def facts(report: Report) -> list[tuple[str, str]]:
    """Return name and value of what a reader wants to know first."""
    promises = [name for name, promised in report.capabilities.items() if promised]
    found = [
        ("level reached", report.level or "none"),
        ("stopped by", report.stopped_by),
        ("requirements", counts(report)),
        ("promises", ", ".join(promises) or "none"),
        ("tests", f"{report.tests}, {report.selection or f'of levels up to {report.asked_level}'}"),
        ("profile and seed", f"{report.profile}, seed {report.seed}"),
        ("time", f"{report.seconds:g} s"),
        ("options", ", ".join(f"{key}={value}" for key, value in report.options.items())),
        ("specification", f"version {report.spec_version}"),
        ("statestores", report.statestores_version),
        ("python", f"{report.python} on {report.platform}"),
    ]
    return [(name, value) for name, value in found if value]


def counts(report: Report) -> str:
    """Return how many requirements have each status, in words."""
    return ", ".join(
        f"{report.count(status)} {status}" for status in Status if report.count(status)
    )


def verdict(report: Report) -> str:
    """Return what the run says of the backend, in a few words."""
    if report.selection:
        return f"{report.selection}: {'all hold' if report.holds else 'not all hold'}"
    if report.timeouts and not report.failures:
        return "not proved to conform: tests timed out"
    return "conforms" if report.conforms else "does not conform"


def to_text(report: Report) -> str:
    """Return what the command line prints at the end of a run."""
    lines = [f"{report.backend}: {verdict(report)}"]
    lines += [f"  {name + ':':18}{value}" for name, value in facts(report)]
    for row in report.with_status(Status.FAILED):
        lines.append(f"  failed {row.id} ({row.obligation}, {row.level}): {row.text}")
    for failure in report.failures:
        lines += [
            f"    {failure.test}",
            f"      {', '.join(failure.requirements)} | {failure.step} | {failure.reason[:300]}",
        ]
    for timeout in report.timeouts:
        lines += [
            f"  timed out {', '.join(timeout.requirements)}: {timeout.test}",
            f"    {timeout.step} | {timeout.reason[:300]}",
        ]
    if report.timeouts:
        lines.append("  what timed out is not disproved: --test-time-limit gives it more time")
    grouped: dict[str, list[str]] = {}
    for row in report.with_status(Status.NOT_PROMISED):
        grouped.setdefault(row.reason, []).append(row.id)
    lines += [f"  {reason}: {', '.join(ids)}" for reason, ids in grouped.items()]
    lines += [
        f"  not run {row.id}: {row.reason}" for row in report.with_status(Status.NOT_RUN)[:20]
    ]
    lines += [f"  {problem}" for problem in report.problems]
    return "\n".join(lines) + "\n"
