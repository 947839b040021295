"""The steps of tools/gpu-check."""
