"""What goes wrong with nodes, when, and what it costs a training job."""
