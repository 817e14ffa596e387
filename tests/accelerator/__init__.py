"""The package on an accelerator, as far as a machine without one can tell: see `standin`."""
