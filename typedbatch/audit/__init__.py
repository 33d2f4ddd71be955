"""Audits of updates and stages: laws that right programs keep, whatever the algorithm.

It needs torch, and is not imported by any other part of the library.
"""

from typedbatch.audit.report import AuditCode, Finding, LossTerm, Report
from typedbatch.audit.session import Audit, AuditError, AuditWarning, audit
from typedbatch.audit.stages import audit_logp, audit_pairs, audit_reward, audit_stage

__all__ = [
    "Audit",
    "AuditCode",
    "AuditError",
    "AuditWarning",
    "Finding",
    "LossTerm",
    "Report",
    "audit",
    "audit_logp",
    "audit_pairs",
    "audit_reward",
    "audit_stage",
]


def __dir__() -> list[str]:
    return __all__
