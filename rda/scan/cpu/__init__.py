"""The compiled CPU engine: C++ text, built at first use."""
