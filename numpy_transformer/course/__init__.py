"""What the lessons import. The course has four rooms: lessons/ (runner), exercises/, checker/ and sandbox/.

The names open the lesson runner on first use, because the checker of the exercises needs none of it.
"""

from ..first_use import opens_on_first_use

__all__ = ["claim", "figure", "lesson", "predict", "show", "slopes"]

__getattr__ = opens_on_first_use(__name__, {
    "lesson": "lessons.lesson", **dict.fromkeys(["claim", "figure", "predict", "show", "slopes"], "lessons.helpers")})


def __dir__() -> list[str]:
    return __all__
