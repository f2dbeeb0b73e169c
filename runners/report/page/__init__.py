# SPDX-License-Identifier: Apache-2.0
"""The decision report: one HTML file that needs nothing else, made from the records alone."""
