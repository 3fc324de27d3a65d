"""The screens of `browse`, driven by keys."""
