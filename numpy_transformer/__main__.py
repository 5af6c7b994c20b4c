"""python -m numpy_transformer"""

import sys

from .cli import main

sys.exit(main())
