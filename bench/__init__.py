"""What Stromboli's spine costs: time per hop, work per second, memory per object.

`make bench` runs everything here on one machine, with real processes only: a nats-server, a
gateway, and as API server once the sandbox and once kube-apiserver. A figure says what was
measured, never what should be: numbers of different machines are compared through the
calibration that every report carries.
"""
