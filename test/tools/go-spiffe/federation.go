package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/federation"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// profileOf puts the bootstrap into held, by which the endpoint is believed from then on: whoever
// adds what was fetched follows its rotations (SPIFFE Federation §5.2.2.4).
func profileOf(domain spiffeid.TrustDomain, profile []string, held *spiffebundle.Set) (federation.FetchOption, error) {
	if len(profile) == 1 {
		pem, err := os.ReadFile(profile[0])
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", profile[0])
		}
		return federation.WithWebPKIRoots(roots), nil
	}
	endpoint, err := spiffeid.FromString(profile[0])
	if err != nil {
		return nil, err
	}
	bootstrap, err := spiffebundle.Load(domain, profile[1])
	if err != nil {
		return nil, err
	}
	held.Add(bootstrap)
	return federation.WithSPIFFEAuth(held, endpoint), nil
}

func showBundle(found *spiffebundle.Bundle) {
	sequence, _ := found.SequenceNumber()
	hint, _ := found.RefreshHint()
	subjects, keys := []string{}, []string{}
	for _, authority := range found.X509Authorities() {
		subjects = append(subjects, authority.Subject.String())
	}
	for id := range found.JWTAuthorities() {
		keys = append(keys, id)
	}
	sort.Strings(subjects)
	sort.Strings(keys)
	show(map[string]any{
		"sequence":           sequence,
		"refreshHintSeconds": hint.Seconds(),
		"authorities":        subjects,
		"jwtAuthorities":     keys,
	})
}

func bundle(ctx context.Context, url, domain string, profile []string) error {
	trustDomain, err := spiffeid.TrustDomainFromString(domain)
	if err != nil {
		return err
	}
	option, err := profileOf(trustDomain, profile, spiffebundle.NewSet())
	if err != nil {
		return err
	}
	found, err := federation.FetchBundle(ctx, trustDomain, url, option)
	if err != nil {
		return err
	}
	showBundle(found)
	return nil
}

type bundleWatcher struct {
	held *spiffebundle.Set
	last *spiffebundle.Bundle
}

// NextRefresh does not wait for the hint, which would take a minute at least.
func (watcher *bundleWatcher) NextRefresh(time.Duration) time.Duration {
	return 100 * time.Millisecond
}

func (watcher *bundleWatcher) OnUpdate(found *spiffebundle.Bundle) {
	if watcher.last != nil && watcher.last.Equal(found) {
		return
	}
	watcher.last = found
	watcher.held.Add(found)
	showBundle(found)
}

func (watcher *bundleWatcher) OnError(err error) { show(map[string]any{"error": err.Error()}) }

func watchBundle(ctx context.Context, url, domain string, profile []string) error {
	trustDomain, err := spiffeid.TrustDomainFromString(domain)
	if err != nil {
		return err
	}
	held := spiffebundle.NewSet()
	option, err := profileOf(trustDomain, profile, held)
	if err != nil {
		return err
	}
	return federation.WatchBundle(ctx, trustDomain, url, &bundleWatcher{held: held}, option)
}
