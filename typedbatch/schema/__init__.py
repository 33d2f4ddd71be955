"""What run time knows of a protocol or record: read once into a ``Schema``, checked, and explained when it fails."""

from typedbatch.schema.check import Check as Check
from typedbatch.schema.check import check_of as check_of
from typedbatch.schema.check import matches as matches
from typedbatch.schema.explain import find_problems as find_problems
from typedbatch.schema.fields import Field as Field
from typedbatch.schema.fields import Option as Option
from typedbatch.schema.fields import Schema as Schema
from typedbatch.schema.read import is_schema as is_schema
from typedbatch.schema.read import options_of as options_of
from typedbatch.schema.read import schema_of as schema_of
from typedbatch.schema.violations import find_violations as find_violations
