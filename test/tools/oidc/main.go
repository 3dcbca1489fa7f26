// A relying party that speaks OpenID Connect and knows nothing of SPIFFE, with go-oidc: the judge of our
// discovery. It finds the keys of an issuer by discovery over TLS, verifies the token that it reads
// from standard input, and prints what it says as JSON.
//
//	oidc ISSUER AUDIENCE CA-FILE ADDRESS
//
// ADDRESS is where the issuer listens, whatever its name is.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: oidc ISSUER AUDIENCE CA-FILE ADDRESS")
	}
	issuer, audience, caFile, address := args[0], args[1], args[2], args[3]
	token, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	client, err := clientOf(caFile, address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.Background(), client), time.Minute)
	defer cancel()
	provider, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	// As go-oidc does by itself, only algorithms that the provider names are taken.
	verified, err := provider.Verifier(&oidc.Config{ClientID: audience}).Verify(ctx, strings.TrimSpace(string(token)))
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"issuer":   verified.Issuer,
		"subject":  verified.Subject,
		"audience": verified.Audience,
		"expiry":   verified.Expiry.Unix(),
	})
}

func clientOf(caFile, address string) (*http.Client, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}, nil
}
