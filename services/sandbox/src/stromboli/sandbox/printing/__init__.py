"""Server-side printing: what `kubectl get` shows of an object, one module per group of kinds."""
