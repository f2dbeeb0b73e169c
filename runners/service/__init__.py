# SPDX-License-Identifier: Apache-2.0
"""The comparison service: a queue, an API and pages over the same comparisons that the command line runs."""
