# SPDX-License-Identifier: Apache-2.0
"""`bakeoff check`: a bundle, a results folder or a published table of anybody, looked through."""

from pathlib import Path

from runners.report.blocks import NoResultsError
from runners.report.check_records import Finding, check_records
from runners.report.check_table import check_table
from runners.report.unpack import opened


def run_check(path: Path) -> bool:
    """Print what is wrong and what is lacking; whether anything is wrong. Raises BundleError or NoResultsError."""
    if not path.exists():
        raise NoResultsError(f"{path} is not there; give a bundle, a results folder or a published table in CSV")
    findings = _findings(path)
    for finding in findings:
        print(f"{finding.state}: {finding.text}")
    wrong = sum(finding.state == "wrong" for finding in findings)
    print(f"{path}: {wrong} wrong, {len(findings) - wrong} lacking")
    return wrong > 0


def _findings(path: Path) -> tuple[Finding, ...]:
    if path.suffix == ".csv":
        return check_table(path)
    with opened(path) as folder:
        return check_records(folder)
