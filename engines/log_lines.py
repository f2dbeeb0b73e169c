# SPDX-License-Identifier: Apache-2.0
"""What engines say in their logs."""

import re


def logged(log: str, pattern: str) -> str | None:
    """The first group of the first match; None where the log says nothing of the kind."""
    found = re.search(pattern, log)
    return found.group(1) if found else None
