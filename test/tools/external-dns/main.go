// ExternalDNS with only the source `service`, the provider `rfc2136` and the registries `noop` and
// `txt`. Its own main program contains the clients of all large clouds and builds for many minutes.
// The flags, the source, the plan, the registry and the provider are those of ExternalDNS; only the
// loop that connects them is here, because its package links all providers.
//
//	external-dns --source=service --provider=rfc2136 --rfc2136-host=127.0.0.1 --rfc2136-port=53 \
//	    --rfc2136-zone=fed.example --rfc2136-tsig-keyname=key --rfc2136-tsig-secret=… \
//	    --rfc2136-tsig-secret-alg=hmac-sha256 --rfc2136-tsig-axfr --registry=txt --interval=1s \
//	    --kubeconfig=FILE
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	log "github.com/sirupsen/logrus"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns/validation"
	"sigs.k8s.io/external-dns/plan"
	"sigs.k8s.io/external-dns/provider"
	"sigs.k8s.io/external-dns/provider/rfc2136"
	"sigs.k8s.io/external-dns/registry"
	"sigs.k8s.io/external-dns/source"
	"sigs.k8s.io/external-dns/source/annotations"
	"sigs.k8s.io/external-dns/source/wrappers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cfg := externaldns.NewConfig()
	if err := cfg.ParseFlags(os.Args[1:]); err != nil {
		return err
	}
	if err := errors.Join(validation.ValidateConfig(cfg), refuseOthers(cfg)); err != nil {
		return err
	}
	level, err := log.ParseLevel(cfg.LogLevel)
	if err != nil {
		return err
	}
	log.SetLevel(level)
	annotations.SetAnnotationPrefix(cfg.AnnotationPrefix)
	loop, err := newLoop(ctx, cfg)
	if err != nil {
		return err
	}
	for {
		if err := loop.once(ctx); err != nil {
			// As upstream: only errors of the DNS server are worth another attempt.
			if !errors.Is(err, provider.SoftError) {
				return err
			}
			log.Errorf("records were not synchronised: %v", err)
		}
		if cfg.Once {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(cfg.Interval):
		}
	}
}

func refuseOthers(cfg *externaldns.Config) error {
	switch {
	case !slices.Equal(cfg.Sources, []string{"service"}):
		return fmt.Errorf("source %v: this build has only service", cfg.Sources)
	case cfg.Provider != "rfc2136":
		return fmt.Errorf("provider %s: this build has only rfc2136", cfg.Provider)
	case cfg.Registry != "noop" && cfg.Registry != "txt":
		return fmt.Errorf("registry %s: this build has only noop and txt", cfg.Registry)
	case cfg.UpdateEvents:
		return errors.New("--events: this build synchronises at intervals only")
	}
	return nil
}

type loop struct {
	cfg      *externaldns.Config
	filter   *endpoint.DomainFilter
	policy   plan.Policy
	registry registry.Registry
	source   source.Source
}

func newLoop(ctx context.Context, cfg *externaldns.Config) (*loop, error) {
	policy, known := plan.Policies[cfg.Policy]
	if !known {
		return nil, fmt.Errorf("there is no policy %s", cfg.Policy)
	}
	services, err := newSource(ctx, cfg)
	if err != nil {
		return nil, err
	}
	filter := endpoint.NewDomainFilterWithExclusions(cfg.DomainFilter, cfg.ExcludeDomains)
	server, err := newProvider(cfg, filter)
	if err != nil {
		return nil, err
	}
	records, err := newRegistry(cfg, server)
	if err != nil {
		return nil, err
	}
	return &loop{cfg: cfg, filter: filter, policy: policy, registry: records, source: services}, nil
}

func newSource(ctx context.Context, cfg *externaldns.Config) (source.Source, error) {
	clients := &source.SingletonClientGenerator{
		KubeConfig:     cfg.KubeConfig,
		APIServerURL:   cfg.APIServerURL,
		RequestTimeout: cfg.RequestTimeout,
	}
	sources, err := source.ByNames(ctx, clients, cfg.Sources, source.NewSourceConfig(cfg))
	if err != nil {
		return nil, err
	}
	return wrappers.WrapSources(sources, wrappers.NewConfig(
		wrappers.WithDefaultTargets(cfg.DefaultTargets),
		wrappers.WithForceDefaultTargets(cfg.ForceDefaultTargets),
		wrappers.WithTargetNetFilter(cfg.TargetNetFilter),
		wrappers.WithExcludeTargetNets(cfg.ExcludeTargetNets),
		wrappers.WithMinTTL(cfg.MinTTL),
	))
}

func newProvider(cfg *externaldns.Config, filter *endpoint.DomainFilter) (provider.Provider, error) {
	return rfc2136.NewRfc2136Provider(
		cfg.RFC2136Host, cfg.RFC2136Port, cfg.RFC2136Zone, cfg.RFC2136Insecure,
		cfg.RFC2136TSIGKeyName, cfg.RFC2136TSIGSecret, cfg.RFC2136TSIGSecretAlg, cfg.RFC2136TAXFR,
		filter, cfg.DryRun, cfg.RFC2136MinTTL, cfg.RFC2136CreatePTR,
		false, "", "", "", // no Kerberos
		cfg.RFC2136BatchChangeSize, rfc2136.TLSConfig{}, cfg.RFC2136LoadBalancingStrategy, nil,
	)
}

func newRegistry(cfg *externaldns.Config, server provider.Provider) (registry.Registry, error) {
	if cfg.Registry == "noop" {
		return registry.NewNoopRegistry(server)
	}
	return registry.NewTXTRegistry(
		server, cfg.TXTPrefix, cfg.TXTSuffix, cfg.TXTOwnerID, cfg.TXTCacheInterval,
		cfg.TXTWildcardReplacement, cfg.ManagedDNSRecordTypes, cfg.ExcludeDNSRecordTypes,
		cfg.TXTEncryptEnabled, []byte(cfg.TXTEncryptAESKey), cfg.TXTOwnerOld,
	)
}

// once compares the records of the zone with those that Services ask for, and changes the zone.
func (l *loop) once(ctx context.Context) error {
	current, err := l.registry.Records(ctx)
	if err != nil {
		return err
	}
	asked, err := l.source.Endpoints(context.WithValue(ctx, provider.RecordsContextKey, current))
	if err != nil {
		return err
	}
	desired, err := l.registry.AdjustEndpoints(asked)
	if err != nil {
		return err
	}
	changes := (&plan.Plan{
		Policies:       []plan.Policy{l.policy},
		Current:        current,
		Desired:        desired,
		DomainFilter:   endpoint.MatchAllDomainFilters{l.filter, l.registry.GetDomainFilter()},
		ManagedRecords: l.cfg.ManagedDNSRecordTypes,
		ExcludeRecords: l.cfg.ExcludeDNSRecordTypes,
		OwnerID:        l.registry.OwnerID(),
		OldOwnerId:     l.cfg.TXTOwnerOld,
	}).Calculate().Changes
	if !changes.HasChanges() {
		log.Debug("all records are up to date")
		return nil
	}
	return l.registry.ApplyChanges(ctx, changes)
}
