"""What this machine is, in words that say nothing of where it is."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def describe() -> dict[str, str]:
    """CPU, cores, memory, kernel, file system of the cache, and how busy it is right now."""
    cpus = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", cpus, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return {
        "CPU": model[1] if model else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{int(memory[1]) / 1024**2:.0f} GB" if memory else "unknown",
        "kernel": f"{platform.system()} {re.split('[-+]', platform.release())[0]}",
        "load at the start": f"{os.getloadavg()[0]:.1f}",
    }
