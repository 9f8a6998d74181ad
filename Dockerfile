# The broker as one static binary in an otherwise empty image.
#   docker build -t highwater --build-arg VERSION=0.1.0 .
#   docker run -p 8080:8080 -v highwater:/data highwater
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=0.1.0
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/highwater ./server \
 && mkdir -p /out/data

FROM scratch
COPY --from=build /out/highwater /highwater
# A volume takes owner and mode from here, so that it is writable without root.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
ENV HIGHWATER_LISTEN=0.0.0.0:8080 \
    HIGHWATER_DATA_DIR=/data \
    HIGHWATER_LOG_FORMAT=json
EXPOSE 8080
VOLUME /data
STOPSIGNAL SIGTERM
# There is no curl in here; the binary asks itself.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/highwater", "healthcheck"]
ENTRYPOINT ["/highwater"]
