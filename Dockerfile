# One image per service: `docker build --target gateway -t stromboli/gateway .`
# Targets: gateway, admission, controllers, scheduler, sandbox, tools (stromboli, vcctl).

ARG PYTHON=3.11-slim

# Everything is built to wheels once; each service then installs its own from them, offline. Those stages
# stand on this one, so that no builder takes an old installation from its cache.
FROM docker.io/library/python:${PYTHON} AS wheels
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY constraints.txt ./
COPY libs libs
COPY services services
RUN rm -rf libs/testkit \
 && python -m venv /build \
 && /build/bin/pip wheel -q -w /wheels -c constraints.txt ./libs/* ./services/* \
 && python -m venv /opt/stromboli
ENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels

FROM docker.io/library/python:${PYTHON} AS base
RUN useradd --uid 10001 --create-home stromboli \
 && mkdir /state && chown stromboli /state
ENV PATH=/opt/stromboli/bin:$PATH PYTHONUNBUFFERED=1 LOG_FORMAT=json

FROM wheels AS installed-gateway
RUN /opt/stromboli/bin/pip install -q stromboli-gateway

FROM base AS gateway
COPY --from=installed-gateway /opt/stromboli /opt/stromboli
USER stromboli
ENTRYPOINT ["stromboli-gateway"]

FROM wheels AS installed-admission
RUN /opt/stromboli/bin/pip install -q stromboli-admission

FROM base AS admission
COPY --from=installed-admission /opt/stromboli /opt/stromboli
USER stromboli
ENTRYPOINT ["stromboli-admission"]

FROM wheels AS installed-controllers
RUN /opt/stromboli/bin/pip install -q stromboli-controllers

FROM base AS controllers
COPY --from=installed-controllers /opt/stromboli /opt/stromboli
USER stromboli
ENTRYPOINT ["stromboli-controllers"]

FROM wheels AS installed-scheduler
RUN /opt/stromboli/bin/pip install -q stromboli-scheduler

FROM base AS scheduler
COPY --from=installed-scheduler /opt/stromboli /opt/stromboli
USER stromboli
ENTRYPOINT ["stromboli-scheduler"]

FROM wheels AS installed-sandbox
RUN /opt/stromboli/bin/pip install -q stromboli-sandbox

FROM base AS sandbox
COPY --from=installed-sandbox /opt/stromboli /opt/stromboli
COPY deploy/crds /crds
COPY examples/rules.yaml /examples/rules.yaml
USER stromboli
ENTRYPOINT ["stromboli-sandbox"]

FROM wheels AS installed-tools
RUN /opt/stromboli/bin/pip install -q stromboli-launcher stromboli-vcctl

FROM base AS tools
COPY --from=installed-tools /opt/stromboli /opt/stromboli
COPY examples /examples
USER stromboli
ENTRYPOINT ["stromboli"]
