# SPDX-License-Identifier: Apache-2.0
"""From traces to tables: metrics, records, statistics."""
