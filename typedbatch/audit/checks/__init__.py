"""The checks of a traced update, a law or a few of one kind in each module."""

from typedbatch.audit.checks.fields import Changes, Dtypes, Ends, Inputs, Observations, Reads
from typedbatch.audit.checks.formulas import Accumulation, Formulas
from typedbatch.audit.checks.gradients import Gradients, Learning
from typedbatch.audit.checks.rows import AllRows, Grouping, Priorities, SameColumns, SameRows, SampledRows
from typedbatch.audit.checks.targets import Loading, Networks, Returns, Targets, Values
from typedbatch.audit.checks.weights import Importance, Ratio, Weights

CHECKS = (
    Ratio, AllRows, SameRows, SameColumns, Priorities, SampledRows, Grouping, Reads, Dtypes, Changes, Gradients,
    Learning, Networks, Inputs, Observations, Targets, Returns, Values, Weights, Formulas, Loading, Accumulation,
    Importance, Ends,
)  # fmt: skip

__all__ = ["CHECKS"]
