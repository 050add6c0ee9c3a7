"""`python -m hermes_core` is the `hermes` command."""

import sys

from hermes_core.cli import main

sys.exit(main())
