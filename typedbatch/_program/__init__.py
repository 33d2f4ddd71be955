"""A run of the text of a program on abstract values, which finds reads of fields that are not there."""
