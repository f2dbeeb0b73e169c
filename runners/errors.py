# SPDX-License-Identifier: Apache-2.0
"""The one error that the command line shows as a message instead of a traceback."""


class MendableError(Exception):
    """Something that the user can mend; the message is all that is shown."""
