"""The command line from a checkout: `python cli.py debate --protocol cipher`."""

import sys

from sottovoce.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
