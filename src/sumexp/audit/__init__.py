"""An audit of the reader's own sampler: what training with sampled negatives ends at, and what to change.

- `run`: the call `audit`; `arguments`: its arguments as arrays; `numbers`: what other numbers of negatives give;
- `setup`: samplers, weights and hits by name;
- `rows`, `bins`: a table of counts as rows and bins of classes that are alike;
- `sets`, `tries`, `terms`: unions of draws and distinct ids, exactly;
- `risks`, `minimiser`, `moments`, `effects`: the exact risk and its minimum, and what sampling does to loss and
  gradient;
- `rates`, `faults`, `advice`, `results`: what counts decide, known faults, what to change, all in one value;
- `estimates`: tables of log q as sketches and fading counts make them;
- `evaluation`: what a metric among sampled candidates says of the true one;
- `inputs`, `report`, `command`: files, the page and the command ``sumexp audit``.
"""

from sumexp.audit.evaluation import Evaluation, can_change_places, fitting
from sumexp.audit.results import Audit
from sumexp.audit.run import audit
from sumexp.audit.setup import AuditError

__all__ = ["Audit", "AuditError", "Evaluation", "audit", "can_change_places", "fitting"]
