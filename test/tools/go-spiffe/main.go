// A workload that speaks go-spiffe, the reference client of SPIFFE: the judge of our Workload API,
// bundles and SVIDs. It prints JSON, one object a line, for the tests to read.
//
//	go-spiffe fetch                         one X.509 context
//	go-spiffe watch                         every X.509 context, until it is killed
//	go-spiffe bundles                       the bundles alone
//	go-spiffe server ADDRESS AUTHORIZED     HTTPS with mutual TLS; prints the address first
//	go-spiffe client URL AUTHORIZED [N]     N requests, a connection each; prints status and body
//	go-spiffe calls URL AUTHORIZED          requests until it is killed; prints whose certificates are of
//	                                        which authority, and how many authorities of the other each
//	                                        holds, when that changes, and in the end what failed after
//	                                        the first that was answered
//	go-spiffe jwt AUDIENCE [SUBJECT]        JWT-SVIDs
//	go-spiffe jwt-validate AUDIENCE TOKEN   judged by the Workload API, and by go-spiffe with its bundles
//	go-spiffe jwt-bundles                   key IDs by trust domain
//	go-spiffe jwt-bundles-watch             and every change of them, until it is killed
//	go-spiffe jwt-judge FILE                go-spiffe alone about tokens: {audience, bundles, tokens}
//	go-spiffe bundle URL DOMAIN PROFILE…    a bundle endpoint, once
//	go-spiffe bundle-watch URL DOMAIN PROFILE…   and again several times a second, until it is killed
//
// PROFILE is ENDPOINT-ID BOOTSTRAP-FILE for https_spiffe, or CA-FILE for https_web.
//
// AUTHORIZED is a SPIFFE ID, or a trust domain of which every identity is accepted. The socket comes
// from SPIFFE_ENDPOINT_SOCKET.
package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("which command?")
	}
	command, args := args[0], args[1:]
	wanted := map[string]int{"fetch": 0, "watch": 0, "bundles": 0, "server": 2, "client": 2, "calls": 2,
		"jwt": 1, "jwt-validate": 2, "jwt-bundles": 0, "jwt-bundles-watch": 0, "jwt-judge": 1,
		"bundle": 3, "bundle-watch": 3}
	count, known := wanted[command]
	if !known || len(args) < count {
		return fmt.Errorf("there is no command %q with %d arguments", command, len(args))
	}
	switch command {
	case "fetch":
		return fetch(ctx)
	case "watch":
		return workloadapi.WatchX509Context(ctx, watcher{})
	case "bundles":
		return bundles(ctx)
	case "server":
		return serve(ctx, args[0], args[1])
	case "client":
		requests := 1
		if len(args) > 2 {
			number, err := strconv.Atoi(args[2])
			if err != nil {
				return err
			}
			requests = number
		}
		return call(ctx, args[0], args[1], requests)
	case "calls":
		return calls(ctx, args[0], args[1])
	case "jwt":
		return fetchTokens(ctx, args)
	case "jwt-validate":
		return validateToken(ctx, args[0], args[1])
	case "jwt-bundles":
		return tokenBundles(ctx)
	case "jwt-bundles-watch":
		return workloadapi.WatchJWTBundles(ctx, tokenWatcher{})
	case "jwt-judge":
		return judgeTokens(args[0])
	case "bundle-watch":
		return watchBundle(ctx, args[0], args[1], args[2:])
	default:
		return bundle(ctx, args[0], args[1], args[2:])
	}
}

type svidJSON struct {
	ID        string `json:"id"`
	Hint      string `json:"hint"`
	Serial    string `json:"serial"`
	NotBefore string `json:"notBefore"`
	NotAfter  string `json:"notAfter"`
}

type contextJSON struct {
	SVIDs   []svidJSON     `json:"svids,omitempty"`
	Bundles map[string]int `json:"bundles,omitempty"`
	Error   string         `json:"error,omitempty"`
}

func show(value any) {
	line, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func showContext(found *workloadapi.X509Context) {
	out := contextJSON{Bundles: authorities(found.Bundles)}
	for _, svid := range found.SVIDs {
		leaf := svid.Certificates[0]
		out.SVIDs = append(out.SVIDs, svidJSON{
			ID:        svid.ID.String(),
			Hint:      svid.Hint,
			Serial:    leaf.SerialNumber.Text(16),
			NotBefore: leaf.NotBefore.UTC().Format(time.RFC3339),
			NotAfter:  leaf.NotAfter.UTC().Format(time.RFC3339),
		})
	}
	show(out)
}

func authorities(set *x509bundle.Set) map[string]int {
	counts := map[string]int{}
	for _, one := range set.Bundles() {
		counts[one.TrustDomain().Name()] = len(one.X509Authorities())
	}
	return counts
}

func fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	found, err := workloadapi.FetchX509Context(ctx)
	if err != nil {
		return err
	}
	showContext(found)
	return nil
}

func bundles(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	set, err := workloadapi.FetchX509Bundles(ctx)
	if err != nil {
		return err
	}
	show(contextJSON{Bundles: authorities(set)})
	return nil
}

type watcher struct{}

func (watcher) OnX509ContextUpdate(found *workloadapi.X509Context) { showContext(found) }

func (watcher) OnX509ContextWatchError(err error) { show(contextJSON{Error: err.Error()}) }

func authorizer(text string) (tlsconfig.Authorizer, error) {
	if id, err := spiffeid.FromString(text); err == nil && id.Path() != "" {
		return tlsconfig.AuthorizeID(id), nil
	}
	domain, err := spiffeid.TrustDomainFromString(text)
	if err != nil {
		return nil, err
	}
	return tlsconfig.AuthorizeMemberOf(domain), nil
}

func source(ctx context.Context) (*workloadapi.X509Source, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return workloadapi.NewX509Source(ctx)
}

func serve(ctx context.Context, address, authorized string) error {
	authorize, err := authorizer(authorized)
	if err != nil {
		return err
	}
	svids, err := source(ctx)
	if err != nil {
		return err
	}
	defer svids.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		TLSConfig:         tlsconfig.MTLSServerConfig(svids, svids, authorize),
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
			leaf := request.TLS.PeerCertificates[0]
			response.Header().Set("Client-Authority", fmt.Sprintf("%x", leaf.AuthorityKeyId))
			response.Header().Set("Authorities-Held", strconv.Itoa(held(svids, leaf)))
			fmt.Fprintf(response, "hello %s", leaf.URIs[0].String())
		}),
	}
	show(map[string]string{"address": listener.Addr().String()})
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ServeTLS(listener, "", ""); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func call(ctx context.Context, url, authorized string, requests int) error {
	authorize, err := authorizer(authorized)
	if err != nil {
		return err
	}
	svids, err := source(ctx)
	if err != nil {
		return err
	}
	defer svids.Close()
	client := clientOf(svids, authorize)
	for range requests {
		response, err := client.Get(url)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		server := response.TLS.PeerCertificates[0].URIs[0].String()
		show(map[string]any{"status": response.StatusCode, "body": string(body), "server": server})
	}
	return nil
}

// clientOf shakes hands anew for every request.
func clientOf(svids *workloadapi.X509Source, authorize tlsconfig.Authorizer) *http.Client {
	return &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			TLSClientConfig:   tlsconfig.MTLSClientConfig(svids, svids, authorize),
			DisableKeepAlives: true,
		},
	}
}

// held tells how many authorities of the other's trust domain a workload believes.
func held(bundles x509bundle.Source, other *x509.Certificate) int {
	id, err := spiffeid.FromURI(other.URIs[0])
	if err != nil {
		return 0
	}
	bundle, err := bundles.GetX509BundleForTrustDomain(id.TrustDomain())
	if err != nil {
		return 0
	}
	return len(bundle.X509Authorities())
}

type seen struct {
	Server       string `json:"server"`
	Client       string `json:"client"`
	HeldByServer int    `json:"heldByServer"`
	HeldByClient int    `json:"heldByClient"`
}

// calls goes on through failures, which it counts.
func calls(ctx context.Context, url, authorized string) error {
	authorize, err := authorizer(authorized)
	if err != nil {
		return err
	}
	svids, err := source(ctx)
	if err != nil {
		return err
	}
	defer svids.Close()
	client := clientOf(svids, authorize)
	made, failures := 0, []string{}
	var known *seen
	for ctx.Err() == nil {
		made++
		response, err := client.Get(url)
		if err == nil {
			response.Body.Close()
			leaf := response.TLS.PeerCertificates[0]
			byServer, _ := strconv.Atoi(response.Header.Get("Authorities-Held"))
			now := seen{
				Server:       fmt.Sprintf("%x", leaf.AuthorityKeyId),
				Client:       response.Header.Get("Client-Authority"),
				HeldByServer: byServer,
				HeldByClient: held(svids, leaf),
			}
			if known == nil || now != *known {
				known = &now
				show(now)
			}
		} else if known != nil {
			failures = append(failures, err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	show(map[string]any{"calls": made, "failures": failures})
	return nil
}
