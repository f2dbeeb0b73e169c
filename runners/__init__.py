# SPDX-License-Identifier: Apache-2.0
"""What is done to engines: bring up, verify, drive, measure, record, tabulate."""
