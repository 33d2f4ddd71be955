"""A run of the text of a program on abstract values, which finds missing fields and shapes that do not fit."""
