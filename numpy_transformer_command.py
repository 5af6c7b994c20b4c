"""The command `numpy-transformer`. It stands outside the package to answer Ctrl-C while the package is still being imported."""

import sys


def main():
    try:
        from numpy_transformer.cli import main as run
        return run()
    except KeyboardInterrupt:
        print("\nnumpy-transformer: interrupted", file=sys.stderr)
        return 130
