"""Makes the examples importable for their tests, without installing them."""

import sys
from pathlib import Path

sys.path[:0] = sorted(str(folder.parent) for folder in Path(__file__).parent.glob("*/pyproject.toml"))
