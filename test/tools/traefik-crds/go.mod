// The CRDs of the Gateway API in the version that Traefik supports. Nothing is built here, see ../crds.
module hansa.dev/test/tools/traefik-crds

go 1.26.0

require sigs.k8s.io/gateway-api v1.4.0
