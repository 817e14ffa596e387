"""Imports what most steps import, in the process that they are forked from: it ends as soon as its driver is gone.

That process looks for the end of those who use it only when it has imported everything, which takes five seconds.
"""

import os
from importlib import import_module

from sumexp.companion.pipeline.forks import NAMES
from sumexp.companion.store import processes

for name in os.environ[NAMES].split():
    if not processes.is_there(processes.driver()):
        os._exit(1)
    import_module(name)
