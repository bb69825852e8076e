"""The engine, and the independent client, of tests/interop."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "interop"))
