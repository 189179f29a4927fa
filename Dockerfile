# Verso in a container: docker compose up. The bundle is built into the image, so that the container writes no files
# unless it pulls models of a hub.
#   TORCH=cpu (default) or TORCH=cuda selects the build of torch and the bundle's precision. The CUDA build needs an NVIDIA
#   driver of release 580 or newer and a GPU of compute capability 7.5 or higher where the container runs (docs/gpu.md).
# Tag and digest of the base image; docs/supply-chain.md says how it is renewed.
ARG PYTHON=3.11.17-slim@sha256:45037981b62b34b44602584fccbc4d884d5f7dc92c7ee86bb38a698a79fe1e51

FROM python:${PYTHON} AS build
ARG TORCH=cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
RUN python -m venv /opt/verso
ENV PATH=/opt/verso/bin:$PATH
WORKDIR /src
# Ordered by frequency of changes: torch, the other dependencies, the model and its bundle, the service.
COPY pyproject.toml ./
COPY locks locks
COPY scripts scripts
RUN python scripts/install_torch.py ${TORCH}
# Every file is compared with its digest.
RUN pip install --no-deps --require-hashes --requirement locks/service.lock
# For the compiled decoder (docs/decisions/0036); it stays in this stage.
RUN pip install --no-deps --require-hashes --requirement locks/compiler.lock --target /opt/compiler
COPY model model
RUN PYTHONPATH=/opt/compiler python -m model.decoding.native.compiler
# The machine that builds the image usually has no GPU: float16 is then compared on the CPU.
RUN python -m model export --pretrained --device cpu --out /opt/verso/bundle.pt \
      --precision "$([ "${TORCH}" = cuda ] && echo float16 || echo auto)"
COPY app app
COPY client client
COPY LICENSE README.md ./
RUN pip install --no-deps --no-build-isolation . ./client
# Extras that have a lock file of their own: "ray" (docs/ray.md#kuberay).
ARG EXTRAS=
RUN [ -z "${EXTRAS}" ] || pip install --no-deps --require-hashes --requirement "locks/${EXTRAS}.lock"
# Not needed for serving: headers, tests, the installer, and the compiler of the CUDA build, which torch imports only for
# torch.compile.
RUN cd /opt/verso/lib/python*/site-packages \
 && rm -rf torch/include torch/share torch/test triton triton-*.dist-info pip pip-*.dist-info setuptools setuptools-*.dist-info pkg_resources \
 && find . -type d -name tests -prune -exec rm -rf {} + \
 && rm -f /opt/verso/bin/pip*

# The parts of the image, for scanners (CycloneDX): Python packages and those of Debian.
FROM python:${PYTHON} AS sbom
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY pyproject.toml ./
COPY locks locks
RUN python -m venv /opt/tools \
 && /opt/tools/bin/pip install --no-deps --require-hashes --requirement locks/sbom.lock
COPY --from=build /opt/verso /opt/verso
COPY scripts scripts
COPY app/http/static/swagger-ui app/http/static/swagger-ui
COPY model/pretrained/verso-en-de.pt model/pretrained/
COPY app/serving/language_identification app/serving/language_identification
RUN /opt/tools/bin/python scripts/sbom.py /sbom.cdx.json --python /opt/verso/bin/python --system

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="Verso" \
      org.opencontainers.image.description="A self-hosted translation service" \
      org.opencontainers.image.licenses="Apache-2.0 AND CC-BY-SA-4.0 AND CC-BY-SA-3.0"
# Volumes that are mounted at these folders get their owner.
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin verso \
 && install --directory --owner verso /var/cache/verso /var/lib/verso
COPY --from=build /opt/verso /opt/verso
COPY --from=sbom /sbom.cdx.json /opt/verso/sbom.cdx.json
WORKDIR /opt/verso
# Only /tmp is writable, and volumes at the folders for the cache and the data.
ENV PATH=/opt/verso/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    MPLCONFIGDIR=/tmp/matplotlib \
    VERSO_HOST=0.0.0.0 \
    VERSO_PORT=8000 \
    VERSO_CACHE_DIR=/var/cache/verso \
    VERSO_AUTO_BUNDLE=/opt/verso/bundle.pt
USER verso
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=4s --start-period=120s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['VERSO_PORT'] + '/readyz', timeout=3)"]
CMD ["python", "-m", "app"]
