"""Virtual kubelets: nodes that run pods as simulations or as local processes.

They work against any API server, as real kubelets do: they make their nodes, send heartbeats,
start the pods that are bound to them, report what became of them, and end what is deleted.
"""
