# SPDX-License-Identifier: Apache-2.0
"""Programs and models that run inside an engine's own environment; the tool itself never imports them."""
