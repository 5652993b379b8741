"""`python -m sottovoce`."""

import sys

from sottovoce.cli import main

sys.exit(main())
