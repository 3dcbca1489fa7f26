// The CRDs of others that tests install. Nothing is built here: test/interop/module-crds.ts reads
// the manifests in these modules.
module hansa.dev/test/tools/crds

go 1.26.0

require (
	github.com/openshift/api v0.0.0-20251015095338-264e80a2b6e7
	github.com/spiffe/spire-controller-manager v0.6.0
	sigs.k8s.io/gateway-api v1.6.3
	sigs.k8s.io/mcs-api v0.5.2
	sigs.k8s.io/network-policy-api v0.1.7
)
