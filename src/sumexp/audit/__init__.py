"""An audit of the reader's own sampler: what training with sampled negatives ends at, and what to change.

- `_run`: the call `audit`; `_arguments`: its arguments as arrays; `_numbers`: what other numbers of negatives give;
- `_setup`: samplers, weights and hits by name;
- `_rows`, `_bins`: a table of counts as rows and bins of classes that are alike;
- `_sets`, `_tries`, `_terms`: unions of draws and distinct ids, exactly;
- `_risks`, `_minimiser`, `_moments`, `_effects`: the exact risk and its minimum, and what sampling does to loss and
  gradient;
- `_rates`, `_faults`, `_advice`, `results`: what counts decide, known faults, what to change, all in one value;
- `drift`: labels served that have another law than the counts, and the line for it;
- `serving`: which temperatures bounded scores need, and which scores to serve for a metric;
- `schemes`: losses by name that are no weighted softmax: refined, binary, gBCE, SigLIP;
- `estimates`: tables of log q as sketches and fading counts make them;
- `evaluation`: what a metric among sampled candidates says of the true one;
- `inputs`, `_report`, `_command`: files, the page and the command ``sumexp audit``.
"""

from sumexp.audit._run import audit
from sumexp.audit._setup import AuditError
from sumexp.audit.drift import Drift
from sumexp.audit.evaluation import Evaluation, can_change_places, fitting
from sumexp.audit.results import Audit

__all__ = ["Audit", "AuditError", "Drift", "Evaluation", "audit", "can_change_places", "fitting"]
