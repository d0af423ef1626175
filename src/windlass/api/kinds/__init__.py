"""The custom resources, one module for each kind and each larger part of its spec."""
