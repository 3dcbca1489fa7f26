module hansa.dev/test/tools/oidc

go 1.25

require github.com/coreos/go-oidc/v3 v3.16.0

require (
	github.com/go-jose/go-jose/v4 v4.1.3 // indirect
	golang.org/x/oauth2 v0.28.0 // indirect
)
