"""The checks of a traced update, a law or a few of one kind in each module."""

from typedbatch.audit.checks.accumulation import Accumulation
from typedbatch.audit.checks.broadcasts import AllRows, Priorities, SameColumns, SameRows, SampledRows
from typedbatch.audit.checks.fields import Changes, Dtypes, Reads
from typedbatch.audit.checks.formulas import Formulas
from typedbatch.audit.checks.gradients import Gradients
from typedbatch.audit.checks.grouping import Grouping
from typedbatch.audit.checks.importance import Importance
from typedbatch.audit.checks.inputs import Inputs, Observations
from typedbatch.audit.checks.learning import Learning
from typedbatch.audit.checks.loading import Loading
from typedbatch.audit.checks.networks import Networks
from typedbatch.audit.checks.ratio import Ratio
from typedbatch.audit.checks.targets import Returns, Targets, Values
from typedbatch.audit.checks.tokens import Ends
from typedbatch.audit.checks.weights import Weights

CHECKS = (
    Ratio,
    AllRows,
    SameRows,
    SameColumns,
    Priorities,
    SampledRows,
    Grouping,
    Reads,
    Dtypes,
    Changes,
    Gradients,
    Learning,
    Networks,
    Inputs,
    Observations,
    Targets,
    Returns,
    Values,
    Weights,
    Formulas,
    Loading,
    Accumulation,
    Importance,
    Ends,
)

__all__ = ["CHECKS"]
