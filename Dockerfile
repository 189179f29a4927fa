# Verso in a container: docker compose up. The bundle is built into the image, so that a start needs nothing written.
#   TORCH=cpu (default) or TORCH=cuda chooses torch's build and the bundle's precision.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG TORCH=cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/verso
ENV PATH=/opt/verso/bin:$PATH
WORKDIR /src
COPY pyproject.toml ./
COPY scripts scripts
RUN python scripts/install_torch.py ${TORCH}
# The dependencies before the code, so that a changed line does not install them again.
RUN python -c "import tomllib; print('\n'.join(tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies']))" \
      > requirements.txt && pip install -r requirements.txt
COPY app app
COPY model model
# A machine that builds an image seldom has the GPU it is for: float16 is compared on the CPU then.
RUN python -m model export --pretrained --device cpu --out /opt/verso/bundle.pt \
      --precision "$([ "${TORCH}" = cuda ] && echo float16 || echo auto)" \
 && find /opt/verso -name '__pycache__' -prune -exec rm -rf {} + \
 # What serving never touches: headers, the compiler's parts, tests.
 && cd /opt/verso/lib/python*/site-packages \
 && rm -rf torch/include torch/share torch/test pip pip-*.dist-info setuptools setuptools-*.dist-info \
 && find . -type d -name tests -prune -exec rm -rf {} +

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="Verso" \
      org.opencontainers.image.description="A self-hosted translation service" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin verso
COPY --from=build /opt/verso /opt/verso
WORKDIR /srv
COPY pyproject.toml LICENSE ./
COPY app app
COPY model model
ENV PATH=/opt/verso/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    MPLCONFIGDIR=/tmp/matplotlib \
    VERSO_HOST=0.0.0.0 \
    VERSO_PORT=8000 \
    VERSO_MODEL=/opt/verso/bundle.pt
USER verso
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --start-interval=1s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"VERSO_PORT\"]}/readyz', timeout=4)"]
CMD ["python", "-m", "app"]
