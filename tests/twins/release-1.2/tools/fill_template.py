# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's template filler by its rules: pairs key:value, split at commas and then at colons, each pass undoing one
level of backslashes; a key that the template lacks is an error, placeholders that nobody fills stay."""

import argparse
from pathlib import Path
from string import Template

DEFAULTS = {"max_queue_size": "0", "max_queue_delay_microseconds": "0"}

parser = argparse.ArgumentParser()
parser.add_argument("file_path", type=Path)
parser.add_argument("substitutions")
parser.add_argument("--in_place", "-i", action="store_true")
args = parser.parse_args()


def parts(text: str, delimiter: str) -> list[str]:
    """Split where no backslash stands before the delimiter; the backslashes go, in this pass as in the next."""
    pieces, letters = [""], iter(text)
    for letter in letters:
        if letter == delimiter:
            pieces.append("")
        else:
            pieces[-1] += next(letters, "") if letter == "\\" else letter
    return pieces


template = args.file_path.read_text("utf-8")
values = dict(DEFAULTS)
for pair in parts(args.substitutions, ","):
    key, value = parts(pair, ":")
    assert key in template, f"key '{key}' does not exist in the file {args.file_path}."
    values[key] = value
filled = Template(template).safe_substitute(values)
if args.in_place:
    args.file_path.write_text(filled, "utf-8")
else:
    print(filled)
