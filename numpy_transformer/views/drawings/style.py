"""The one style of all drawings: text sizes, lengths in inches, and colors, each with one meaning, for light and dark pages."""

from dataclasses import dataclass

from matplotlib.colors import to_hex, to_rgb

FAMILY = "DejaVu Sans"                          # Matplotlib brings it along, so texts have the same size everywhere
FONT, SMALL = 13, 12                            # points: names and words; notes and numbers in cells
CELL = 0.3                                      # all lengths are inches: the side of a cell of an array,
HEAD = 0.14                                     # the length of an arrowhead,
MARGIN = 0.2                                    # and the space around a drawing


@dataclass(frozen=True)
class Theme:
    """The colors of one variant. What a color means is the same in all drawings, and color-blind readers can tell them apart."""

    background: str
    ink: str                                    # text, and arrows of the forward pass; what the drawing points out
    muted: str                                  # notes, and what is there but not spoken of
    query: str
    key: str
    value: str
    weight: str                                 # attention weights and other probabilities
    parameter: str                              # what is learned
    gradient: str                               # what flows backward, always with dashed arrows
    plain: str                                  # operations, and arrays without a role of their own
    tint: float

    def color(self, role):
        return getattr(self, role)

    def tint_of(self, role):
        """How strong the color of an area is, from 0 (background) to 1. Parameters are darker than operations."""
        return self.tint * (2.4 if role == "parameter" else 1.0)

    def fill(self, role, strength=1.0):
        """The color of an area with this role: a mixture with the background."""
        part = min(1.0, self.tint_of(role) * strength)
        return to_hex([part * a + (1 - part) * b for a, b in zip(to_rgb(self.color(role)), to_rgb(self.background))])


LIGHT = Theme(background="#ffffff", ink="#1b1f24", muted="#525a64", query="#0d3a8c", key="#80620f", value="#0a7d70",
              weight="#a045d8", parameter="#3d4b63", gradient="#9c0f34", plain="#525a64", tint=0.13)
DARK = Theme(background="#14181f", ink="#e8edf3", muted="#aab4bf", query="#9cc3ff", key="#e6c040", value="#7ff3d0",
             weight="#b878f5", parameter="#b3c3de", gradient="#f56f80", plain="#aab4bf", tint=0.2)


def contrast(one, other):
    """The contrast ratio of two colors as WCAG 2 defines it, from 1 to 21."""
    def luminance(color):
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
