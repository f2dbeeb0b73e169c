# SPDX-License-Identifier: Apache-2.0
"""Brings engines up and down: processes of this host, addresses that others serve."""
