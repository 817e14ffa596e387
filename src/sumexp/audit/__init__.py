"""An audit of a sampled loss: its exact minimum against the truth, and the change that corrects it.

- `_setup`: samplers, weights and hits by name, and accidental hits; `_arguments`: the arguments as arrays;
- `_rows`, `_bins`: a table of counts as rows and bins of classes that are alike;
- `_risks`, `_effects`: the exact risk, its minimum, and what the scores there get wrong; `_faults`: known faults;
- `results`: rows and lines, and the one verdict from all of them; `_run`: the call `audit`;
- `schemes`: named losses that are no weighted softmax: refined, binary, gBCE, SigLIP, hard negatives;
- `drift`, `serving`: separate calls, whose lines an audit takes (`Audit.with_lines`);
- `inputs`, `_report`, `_command`: files, the page and the command ``sumexp audit``.

What cannot be audited raises `AuditError`, a ValueError, everywhere.
"""

from sumexp.audit._run import audit
from sumexp.audit._setup import AuditError
from sumexp.audit.drift import Drift
from sumexp.audit.results import Audit

__all__ = ["audit", "AuditError", "Audit", "Drift"]
