# One image per service: `docker build --target gateway -t stromboli/gateway .`
# Targets: gateway, admission, controllers, scheduler, sandbox, tools (stromboli, vcctl).

ARG PYTHON=3.11-slim

# Everything is built to wheels once; each service then installs its own from them, offline.
FROM docker.io/library/python:${PYTHON} AS wheels
WORKDIR /src
COPY constraints.txt ./
COPY libs libs
COPY services services
RUN rm -rf libs/testkit \
 && python -m venv /build \
 && /build/bin/pip wheel -q --disable-pip-version-check -w /wheels -c constraints.txt ./libs/* ./services/*

FROM docker.io/library/python:${PYTHON} AS base
RUN useradd --uid 10001 --create-home stromboli \
 && mkdir /state && chown stromboli /state \
 && python -m venv /opt/stromboli
ENV PATH=/opt/stromboli/bin:$PATH PYTHONUNBUFFERED=1 LOG_FORMAT=json \
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels

FROM base AS gateway
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    /opt/stromboli/bin/pip install -q stromboli-gateway
USER stromboli
ENTRYPOINT ["stromboli-gateway"]

FROM base AS admission
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    /opt/stromboli/bin/pip install -q stromboli-admission
USER stromboli
ENTRYPOINT ["stromboli-admission"]

FROM base AS controllers
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    /opt/stromboli/bin/pip install -q stromboli-controllers
USER stromboli
ENTRYPOINT ["stromboli-controllers"]

FROM base AS scheduler
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    /opt/stromboli/bin/pip install -q stromboli-scheduler
USER stromboli
ENTRYPOINT ["stromboli-scheduler"]

FROM base AS sandbox
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    /opt/stromboli/bin/pip install -q stromboli-sandbox
COPY deploy/crds /crds
COPY examples/rules.yaml /examples/rules.yaml
USER stromboli
ENTRYPOINT ["stromboli-sandbox"]

FROM base AS tools
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    /opt/stromboli/bin/pip install -q stromboli-launcher stromboli-vcctl
COPY examples /examples
USER stromboli
ENTRYPOINT ["stromboli"]
