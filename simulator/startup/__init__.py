"""Start-up as a barrier: a gang works once its slowest node has image and environment, and its checkpoint is read."""
