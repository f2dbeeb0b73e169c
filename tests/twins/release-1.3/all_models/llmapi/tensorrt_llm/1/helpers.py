# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's wrapper has a second file, which has to be found beside the first."""

VERSION = "1.3.0rc5+twin"
