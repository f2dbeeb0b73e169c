# SPDX-License-Identifier: Apache-2.0
"""`python -m runners` is the command `bakeoff`."""

from runners.cli import app

if __name__ == "__main__":
    app()
