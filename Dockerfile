# The CPU by default. With the CUDA build of torch: docker build --build-arg BACKEND= --tag fgai-bench .
ARG PYTHON=3.12
FROM python:${PYTHON}
ARG BACKEND=cpu
WORKDIR /fgai-bench
COPY . .
RUN make env BACKEND=${BACKEND}
ENV PATH=/fgai-bench/.venv/bin:${PATH}
CMD ["fgai-bench", "doctor"]
