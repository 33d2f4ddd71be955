"""Rows of a batch repeated, cut into equal parts, padded, joined by key, balanced by length, and in groups.

Functions, not methods: each method would take a name away from fields. Each gives a batch of the same class.
"""

from typedbatch.rows.balancing import balance as balance
from typedbatch.rows.balancing import bins as bins
from typedbatch.rows.balancing import restore as restore
from typedbatch.rows.grouping import Groups as Groups
from typedbatch.rows.grouping import groups as groups
from typedbatch.rows.joining import union as union
from typedbatch.rows.projecting import field_names as field_names
from typedbatch.rows.projecting import project as project
from typedbatch.rows.repeating import chunk as chunk
from typedbatch.rows.repeating import pad_rows as pad_rows
from typedbatch.rows.repeating import repeat as repeat
