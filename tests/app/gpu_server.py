"""``python -m app`` on a GPU that fails for good at SIGUSR1; a simulated one if ``TEST_GPU`` says so."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack

import torch

from app.commands.serve import main
from tests.simulated_gpu.device import Device
from tests.simulated_gpu.install import installed

if __name__ == "__main__":
    with ExitStack() as stack:
        if os.environ["TEST_GPU"] == "simulated":
            device = stack.enter_context(installed(Device()))
            signal.signal(signal.SIGUSR1, lambda *_: device.fail())
        else:
            signal.signal(signal.SIGUSR1, lambda *_: torch._assert_async(torch.zeros(1, device="cuda")))
        sys.exit(main())
