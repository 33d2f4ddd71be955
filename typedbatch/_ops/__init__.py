"""Operations on batches, which the members of ``Batch`` call."""
