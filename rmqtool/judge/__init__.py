"""What bytes of a log show to be damaged by themselves, with no other file beside them."""
