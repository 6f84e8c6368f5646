"""Reference values of one checkpoint and one input: every line of a model, written to files with an index.

Needs no torch.
"""

from transformulary.trace.name import Name
from transformulary.trace.names import NAMES, names
from transformulary.trace.select import Selection, default
from transformulary.trace.values import axes
from transformulary.trace.write import FORMATS, trace

__all__ = ["FORMATS", "NAMES", "Name", "Selection", "axes", "default", "names", "trace"]
