"""Which pages the tests make: all of them where everything is installed, else two."""

import os

SOME = ("/algorithms/4.html", "/tutorials.html", "/models/bert.html")
ALL = bool(os.environ.get("TRANSFORMULARY_CI"))
