"""What several test files share: `from helpers import ROOT`, `from helpers.commands import run`."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
