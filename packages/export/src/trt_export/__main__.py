"""`python -m trt_export`: the same as the command `trt-export`."""

import sys

from trt_export.cli import main

if __name__ == "__main__":
    sys.exit(main())
