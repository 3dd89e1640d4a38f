# lancens in a small image: docker build --build-arg EXTRAS=glue,hive -t lancens .
# Pin the base by the digest that your registry shows: --build-arg BASE=python:3.13-slim@sha256:…
ARG BASE=python:3.13-slim
FROM ${BASE} AS build
ARG EXTRAS=all
WORKDIR /source
COPY pyproject.toml README.md LICENSE requirements.lock ./
COPY reconciler ./reconciler
# The lock has the hash of every file that may be downloaded; the Action installs the same part of it.
RUN python -m venv /opt/lancens \
    && /opt/lancens/bin/python -I -c "import sys; sys.path.append('reconciler/action'); import install; print(install.locked_requirements('.', sys.argv[1].split(',')))" "${EXTRAS}" > /tmp/locked.txt \
    && /opt/lancens/bin/pip install --no-cache-dir --no-deps --require-hashes --requirement /tmp/locked.txt \
    && /opt/lancens/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM ${BASE}
COPY --from=build /opt/lancens /opt/lancens
# Nothing is written but to the mounted folders: journals, plans and reports.
ENV PATH=/opt/lancens/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HOME=/tmp
USER 65532:65532
WORKDIR /work
ENTRYPOINT ["lancens"]
CMD ["--help"]
