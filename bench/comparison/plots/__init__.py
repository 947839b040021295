"""Pictures, as SVG: `page` is the frame and the pen of all of them; `times`, `speeds` and `bars`
are what comparisons draw."""
