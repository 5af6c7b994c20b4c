"""What the components stand on: checks of arguments, sums as matmuls, the error function."""
