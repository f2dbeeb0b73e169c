# SPDX-License-Identifier: Apache-2.0
"""The errors that are the user's to mend: their message is all that is shown."""

from typing import Final

from runners.config import ConfigError
from runners.drive_command import DriveError
from runners.environments import MakeError
from runners.launch.server import LaunchError
from runners.load.scrape import UnsettledError
from runners.load.wire import AddressError
from runners.load.workload import DrawError
from runners.report.record import AlreadyWrittenError
from runners.results import ResultsError
from runners.verify import VerifyError
from runners.warm_up import WarmUpError

MENDABLE: Final = (
    AddressError,
    DriveError,
    ConfigError,
    MakeError,
    LaunchError,
    UnsettledError,
    DrawError,
    AlreadyWrittenError,
    ResultsError,
    VerifyError,
    WarmUpError,
)
