"""The prediction of a start, against what real message stores then do."""
