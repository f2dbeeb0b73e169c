# SPDX-License-Identifier: Apache-2.0
"""Draws, sends, stamps and parses: the load and what came back."""
