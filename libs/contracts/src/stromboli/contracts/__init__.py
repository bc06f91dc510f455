"""What Stromboli's services say to each other: messages, subjects, streams, permissions.

Everything here is data and pure functions over data. A message is declared once, beside the
subject it travels on; streams, consumers, partitions and "which service may say what" are
tables that the runtime, the gateway and the NATS server's configuration are all made from.
This package knows nothing about sockets, clocks or Kubernetes types: a Kubernetes object
travels as the bytes of its projection.
"""
