// Fetches a bundle by https_spiffe with go-spiffe, and prints what go-spiffe makes of it:
//
//	bundle TRUST-DOMAIN URL ENDPOINT-SPIFFE-ID BOOTSTRAP-FILE
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/federation"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

type fetched struct {
	TrustDomain        string   `json:"trustDomain"`
	Authorities        []string `json:"authorities"`
	Sequence           uint64   `json:"sequence"`
	RefreshHintSeconds float64  `json:"refreshHintSeconds"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("usage: bundle TRUST-DOMAIN URL ENDPOINT-SPIFFE-ID BOOTSTRAP-FILE")
	}
	trustDomain, err := spiffeid.TrustDomainFromString(args[0])
	if err != nil {
		return err
	}
	endpoint, err := spiffeid.FromString(args[2])
	if err != nil {
		return err
	}
	bootstrap, err := spiffebundle.Load(trustDomain, args[3])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	bundle, err := federation.FetchBundle(ctx, trustDomain, args[1], federation.WithSPIFFEAuth(bootstrap, endpoint))
	if err != nil {
		return err
	}
	result := fetched{TrustDomain: bundle.TrustDomain().Name()}
	for _, authority := range bundle.X509Authorities() {
		digest := sha256.Sum256(authority.Raw)
		result.Authorities = append(result.Authorities, hex.EncodeToString(digest[:]))
	}
	if sequence, ok := bundle.SequenceNumber(); ok {
		result.Sequence = sequence
	}
	if hint, ok := bundle.RefreshHint(); ok {
		result.RefreshHintSeconds = hint.Seconds()
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
