"""The walks of CONTRIBUTING.md, as patches: `python -m tests.walks` does them in a clone."""
