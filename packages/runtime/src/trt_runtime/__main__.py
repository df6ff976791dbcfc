"""`python -m trt_runtime`: the command `trt-runtime`."""

import sys

from trt_runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
