//! Stores of any format, as a program that is given their places uses them.
