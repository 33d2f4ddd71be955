"""Audits of updates and stages: laws that right programs keep, whatever the algorithm.

It needs torch, and is not imported by any other part of the library. Its words:

========  ==========================================================================================================
trace     The run of an update under ``Audit``, in which functions of torch and reads of batches are intercepted.
event     Something that a trace sees: a read of a field, an operation, a backward pass, a step of an optimizer.
origin    A batch that an update reads, numbered in the order of first reads.
tag       What is known of a tensor: the fields that it was computed from, and the rows of an origin that it holds.
law       A statement that holds in every right update, such as "the ratio is 1 before the first step".
check     A class that is called with each event and compares a trace with a law.
replay    The update once more, in a copy of the process, on a changed batch.
probe     Replays that change a field in some rows, to learn which outputs depend on it.
credit    The gradients of rows that a reward, an advantage or a token changes.
stage     A step of post-training that is audited by itself: log-probabilities, rewards, samples, pairs.
role      What a field is, as an advantage, whatever its name.
formula   A function of ``references`` that code is compared with, and its variants, which are known mistakes.
finding   A law that does not hold, with its place in the user's code.
note      An observation that is often, but not always, a mistake.
========  ==========================================================================================================
"""

from typedbatch.audit.report import AuditCode, Finding, LossTerm, Report
from typedbatch.audit.session import Audit, AuditError, AuditWarning, audit
from typedbatch.audit.stages import audit_logp, audit_pairs, audit_reward, audit_stage, audit_values

__all__ = [
    "Audit", "AuditCode", "AuditError", "AuditWarning", "Finding", "LossTerm", "Report", "audit", "audit_logp",
    "audit_pairs", "audit_reward", "audit_stage", "audit_values",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
