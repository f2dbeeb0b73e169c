# SPDX-License-Identifier: Apache-2.0
"""What each engine is: pure functions that plan, read, encode and fold, and do nothing."""
