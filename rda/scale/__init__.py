"""Many runs on many machines, through Ray."""
